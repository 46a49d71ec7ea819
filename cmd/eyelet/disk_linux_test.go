package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// needsMounts skips a test that mounts file systems, which needs root, unless EYELET_LONG is set.
func needsMounts(t *testing.T) {
	t.Helper()
	if os.Getenv("EYELET_LONG") == "" {
		t.Skip("EYELET_LONG=1 runs it, as root")
	}
}

// mounted mounts a file system for the test.
func mounted(t *testing.T, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mnt")
	check(t, os.Mkdir(dir, 0o700))
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Fatalf("no mounts on this machine: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	// It is unmounted also if the test is killed.
	guard := exec.Command("setsid", "sh", "-c", `while kill -0 "$0"; do sleep 1; done 2>/dev/null; umount -l "$1"`,
		strconv.Itoa(os.Getpid()), dir)
	check(t, guard.Start())
	t.Cleanup(func() { _ = guard.Process.Kill(); _ = guard.Wait() })
	return dir
}

// ext4Image creates a file system with a journal in a file.
func ext4Image(t *testing.T, size int64) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, size))
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-O", "has_journal", "-m", "0",
		image).CombinedOutput(); err != nil {
		t.Fatalf("no mkfs.ext4 on this machine: %v: %s", err, out)
	}
	return image
}

// servedProcess is the binary in a process of its own, so that a fault of its memory maps does not
// end the test.
type servedProcess struct {
	deliveries, operations string
	cmd                    *exec.Cmd
	ended                  chan error
}

func (s *servedProcess) alive() bool {
	return s.cmd.Process.Signal(syscall.Signal(0)) == nil && len(s.ended) == 0
}

// serveProcess runs `eyelet serve` over a store in dir.
func serveProcess(t *testing.T, dir string) *servedProcess {
	t.Helper()
	file := configured(t, fmt.Sprintf("store: \"badger:%s\"\nhandlers:\n  - {producer: gh, type: nothing, stdout: "+
		"true}\n", dir))
	text, err := os.ReadFile(file)
	check(t, err)
	check(t, os.WriteFile(file, []byte(strings.Replace(string(text), "level: error", "level: info, format: json", 1)),
		0o600))
	s := &servedProcess{cmd: exec.Command(realProgram(t), "serve", "--config", file), ended: make(chan error, 1)}
	logs, err := s.cmd.StderrPipe()
	check(t, err)
	check(t, s.cmd.Start())
	up := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(logs)
		for lines.Scan() {
			_, rest, ok := strings.Cut(lines.Text(), `"listen":"`)
			if !ok || s.deliveries != "" {
				continue
			}
			listen, rest, _ := strings.Cut(rest, `"`)
			_, rest, _ = strings.Cut(rest, `"operations":"`)
			operations, _, _ := strings.Cut(rest, `"`)
			s.deliveries, s.operations = "http://"+listen, "http://"+operations
			close(up)
		}
		_, _ = io.Copy(io.Discard, logs)
		s.ended <- s.cmd.Wait()
	}()
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	select {
	case <-up:
	case err := <-s.ended:
		t.Fatalf("serve ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("serve does not serve")
	}
	return s
}

func (s *servedProcess) stop(t *testing.T) {
	t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := <-s.ended; err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

// pushes sends deliveries and returns which were accepted, and the responses to the others.
func pushes(t *testing.T, s *servedProcess, prefix string, n int, accepted map[string]string) (refused int) {
	t.Helper()
	client := &http.Client{Timeout: 20 * time.Second}
	for i := range n {
		id := fmt.Sprintf("%s-%d", prefix, i)
		body := `{"id":"` + id + `","n":"` + strings.Repeat(prefix, 200) + `"}`
		switch status, after := push(t, client, s.deliveries, id, body); {
		case status == http.StatusOK:
			accepted[id] = body
		case status == http.StatusServiceUnavailable && after != "":
			refused++
		default:
			t.Errorf("%s: status %d, Retry-After %q", id, status, after)
		}
	}
	return refused
}

// repeated sends accepted deliveries once more: each must be known, with its payload.
func repeated(t *testing.T, s *servedProcess, accepted map[string]string) {
	t.Helper()
	for id, body := range accepted {
		if !replayedOf(t, s, id, body) {
			t.Errorf("%s was acknowledged and is not known", id)
		}
	}
}

func replayedOf(t *testing.T, s *servedProcess, id, body string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.deliveries+"/webhooks/gh",
		strings.NewReader(body))
	check(t, err)
	signGitHub(req, id, body)
	res, err := http.DefaultClient.Do(req)
	check(t, err)
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode == http.StatusOK && res.Header.Get("Idempotency-Replayed") == "true"
}

func notReady(t *testing.T, s *servedProcess, reason string) {
	t.Helper()
	var status int
	var body string
	eventually(t, "readiness says "+reason, func() bool {
		status, body = get(t, s.operations+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, reason)
	})
}

// shutdownIoctl is EXT4_IOC_SHUTDOWN of Linux (include/uapi/linux/ext4.h): afterwards every access
// is an I/O error.
const shutdownIoctl = 0x8004587d

// TestAFailingFileSystemRefuses breaks the file system under a server: the kernel makes it
// read-only, as after a disk error, or every access is an I/O error.
func TestAFailingFileSystemRefuses(t *testing.T) {
	t.Parallel()
	needsMounts(t)
	for name, fail := range map[string]func(t *testing.T, dir string) error{
		"read-only": func(t *testing.T, dir string) error {
			return os.WriteFile("/sys/fs/ext4/"+loopName(t, dir)+"/trigger_fs_error", []byte("the disk failed\n"), 0)
		},
		"I/O errors": func(_ *testing.T, dir string) error {
			d, err := os.Open(dir)
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }()
			return unix.IoctlSetPointerInt(int(d.Fd()), shutdownIoctl, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image := ext4Image(t, 600<<20)
			dir := mounted(t, "-o", "loop,errors=remount-ro", image)
			store := filepath.Join(dir, "store")
			s := serveProcess(t, store)
			accepted := map[string]string{}
			pushes(t, s, "before", 50, accepted)
			if err := fail(t, dir); err != nil {
				t.Fatalf("no way to make a file system fail here: %v", err)
			}
			if n := pushes(t, s, "failing", 20, accepted); n != 20 {
				t.Errorf("%d of 20 were accepted", 20-n)
			}
			notReady(t, s, "cannot be written")
			if !s.alive() {
				t.Fatal("the process died")
			}
			_ = s.cmd.Process.Kill()
			<-s.ended
			remount(t, dir, image)
			again := serveProcess(t, store)
			repeated(t, again, accepted)
			if n := pushes(t, again, "after", 5, accepted); n > 0 {
				t.Errorf("%d of 5 refused on a disk that works", n)
			}
			again.stop(t)
		})
	}
}

// loopName returns the name of the device under a mount.
func loopName(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("findmnt", "-n", "-o", "SOURCE", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(strings.TrimSpace(string(out)))
}

func remount(t *testing.T, dir, image string) {
	t.Helper()
	eventually(t, "the file system is unmounted", func() bool { return exec.Command("umount", dir).Run() == nil })
	_ = exec.Command("e2fsck", "-fy", image).Run() // 1 means that it repaired something
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
