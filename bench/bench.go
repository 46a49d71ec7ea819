package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// bench is a run of the benchmark.
type bench struct {
	settings
	disk      disk
	receivers receivers
	results   *results
	progress  io.Writer
}

// disk is where the stores of the receivers are.
type disk struct {
	root   string // parent folder, for other files
	dir    string
	shared string // why it is not a file system of its own; "" if it is
	close  func()
}

// newBench returns a bench with its disk and programs. The caller closes the disk.
func newBench(ctx context.Context, s settings, progress io.Writer) (*bench, error) {
	d, err := openDisk(ctx, s)
	if err != nil {
		return nil, err
	}
	b := &bench{settings: s, disk: d, progress: progress, results: newResults(ctx, s, d)}
	if d.shared != "" {
		b.skip("flushes include those of other programs, because there is no file system of our own: " + d.shared)
	}
	if err := b.findBinaries(ctx); err != nil {
		d.close()
		return nil, err
	}
	return b, nil
}

// openDisk returns a file system of our own if there can be one, else a folder.
func openDisk(ctx context.Context, s settings) (disk, error) {
	if !s.shared {
		return newDisk(ctx, s.dir)
	}
	return sharedDisk(s.dir, "-shared")
}

// sharedDisk returns a folder, with the reason why it is not a file system of its own.
func sharedDisk(dir, why string) (disk, error) {
	root, err := os.MkdirTemp(dir, "eyelet-bench-")
	return disk{root: root, dir: root, shared: why, close: func() { _ = os.RemoveAll(root) }}, err
}

// measureAll measures every workload and returns the results.
func measureAll(ctx context.Context, s settings, progress io.Writer) (*results, error) {
	b, err := newBench(ctx, s, progress)
	if err != nil {
		return nil, err
	}
	defer b.disk.close()
	for _, w := range workloads {
		w.receivers = slices.DeleteFunc(slices.Clone(w.receivers), func(name string) bool { return !b.wants(w, name) })
		if len(w.receivers) > 0 {
			b.results.Workloads = append(b.results.Workloads, measured{Name: w.name, Title: w.title, workload: w})
		}
	}
	for i := range s.rounds {
		for j := range b.results.Workloads {
			m := &b.results.Workloads[j]
			if i > 0 && m.workload.once > 0 {
				continue
			}
			if err := b.measureRound(ctx, m, i); err != nil {
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
		}
	}
	return b.results, nil
}

// wants returns whether a receiver is available and selected for a workload.
func (b *bench) wants(w workload, name string) bool {
	names, receivers, _ := b.selected() // checked before
	return b.receivers.binaries[name] != "" && (len(names) == 0 || slices.Contains(names, w.name)) &&
		(len(receivers) == 0 || slices.Contains(receivers, name))
}

// selected returns the workloads and the receivers that -only names; without any, all are selected.
func (s settings) selected() (names, receivers []string, err error) {
	for name := range strings.FieldsFuncSeq(s.only, func(r rune) bool { return r == ',' }) {
		switch {
		case slices.ContainsFunc(workloads, func(w workload) bool { return w.name == name }):
			names = append(names, name)
		case slices.ContainsFunc(workloads, func(w workload) bool { return slices.Contains(w.receivers, name) }):
			receivers = append(receivers, name)
		default:
			err = errors.Join(err, fmt.Errorf("-only: %q is neither a workload nor a receiver", name))
		}
	}
	return names, receivers, err
}

// measureRound measures the receivers of a workload, in alternating order.
func (b *bench) measureRound(ctx context.Context, m *measured, number int) error {
	if m.Name == verifyWorkload {
		found, err := b.measureVerification(ctx)
		m.Rounds = append(m.Rounds, found)
		return err
	}
	w, found := m.workload, map[string]figures{}
	names := slices.Clone(w.receivers)
	if slices.Contains(names, "eyelet") && b.against != "" {
		names = append(names, "old")
	}
	if number%2 == 1 {
		slices.Reverse(names)
	}
	rate := 0.0
	if w.share > 0 {
		if rate = w.share * b.results.rate("hand", "new-64"); rate == 0 {
			b.skip(m.Name + " is skipped: it needs the rate of hand in new-64")
			return nil
		}
	}
	for _, name := range names {
		f, err := b.round(ctx, name, w, rate)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		found[name] = f.rounded()
		_, _ = fmt.Fprintf(b.progress, "round %d of %d: %-10s %-11s %6.0f/s %7.1f us CPU\n",
			number+1, b.rounds, m.Name, name, f.PerSecond, f.CPU)
	}
	m.Rounds = append(m.Rounds, found)
	return nil
}

// skip reports something that is not measured, or not as it should be.
func (b *bench) skip(why string) {
	if slices.Contains(b.results.Notes, why) {
		return
	}
	b.results.Notes = append(b.results.Notes, why)
	_, _ = fmt.Fprintln(b.progress, why)
}

// findBinaries finds or builds the program of each receiver.
func (b *bench) findBinaries(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	programs, err := os.MkdirTemp(b.disk.root, "bin-")
	if err != nil {
		return err
	}
	found := map[string]string{
		"bare": self, verification: self, cryptography: self, "eyelet": b.eyelet, "old": b.against,
	}
	b.receivers = receivers{binaries: found, dir: b.disk.dir}
	if b.eyelet == "" {
		if found["eyelet"], err = buildEyelet(ctx, programs, b.profile != ""); err != nil {
			return err
		}
	}
	b.findOthers(ctx, found, programs)
	for name, binary := range found {
		if binary == "" {
			continue
		}
		if found[name], err = filepath.Abs(binary); err != nil {
			return err
		}
	}
	return nil
}

// findOthers finds or builds the programs of other receivers that are selected.
func (b *bench) findOthers(ctx context.Context, found map[string]string, programs string) {
	_, receivers, _ := b.selected() // checked before
	selected := func(name string) bool { return len(receivers) == 0 || slices.Contains(receivers, name) }
	if selected("hand") || selected("hand+worker") {
		if redis, err := exec.LookPath("redis-server"); err == nil {
			found["hand"], found["hand+worker"] = redis, redis
			b.results.Machine = append(b.results.Machine, versionOf(ctx, redis, "--version"))
		} else {
			b.skip("the hand-written receivers are skipped: redis-server is not installed")
		}
	}
	if selected("webhook") {
		if found["webhook"] = findWebhook(ctx, programs); found["webhook"] == "" {
			b.skip("adnanh/webhook is skipped: it is not installed and cannot be built")
		} else {
			b.results.Machine = append(b.results.Machine, versionOf(ctx, found["webhook"], "-version"))
		}
	}
}

// versionOf returns what a program prints about its version.
func versionOf(ctx context.Context, binary, flag string) string {
	out, err := exec.CommandContext(ctx, binary, flag).Output()
	text, _, _ := strings.Cut(strings.TrimSpace(string(out)), " sha=") // of Redis
	if err != nil {
		return binary + " of unknown version"
	}
	return text
}

// findWebhook returns the installed webhook, or builds it, or returns "".
func findWebhook(ctx context.Context, dir string) string {
	binary, err := exec.LookPath("webhook")
	if err == nil && strings.HasPrefix(versionOf(ctx, binary, "-version"), "webhook version") {
		return binary
	}
	cmd := exec.CommandContext(ctx, "go", "install", "github.com/adnanh/webhook@2.8.2")
	cmd.Env = append(os.Environ(), "GOBIN="+dir)
	if cmd.Run() != nil {
		return ""
	}
	return filepath.Join(dir, "webhook")
}
