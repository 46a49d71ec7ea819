package eyelet_test

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The figures that TestHouse fails for. Lines are printed alone: a limit on them would decide how
// the code is written.
const (
	maxCPU          = 620    // of all test binaries of `go test ./...` and their processes, in listings
	maxRequirements = 32     // direct requirements of go.mod
	maxWords        = 40_000 // of all pages
	maxCommands     = 36     // of the binary that are not hidden, with groups
)

// cpuFile names the file to which a test binary that runs others appends the CPU time of each.
const cpuFile = "EYELET_HOUSE_CPU"

// TestMain runs the tests, or another test binary whose CPU time it measures: see measureCPU.
func TestMain(m *testing.M) {
	if file := os.Getenv(cpuFile); file != "" {
		os.Exit(timed(file, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// timed runs a test binary and appends its name and its CPU time in nanoseconds, with that of the
// processes it waited for, to file. It returns the exit code.
func timed(file string, args []string) int {
	if err := os.Unsetenv(cpuFile); err != nil {
		panic(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	spent := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s %d\n", filepath.Base(args[0]), spent)
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// TestHouse prints how large the project is: `go test -v -run TestHouse .` It measures the CPU time
// of all tests only if it is named, because it runs them for that.
func TestHouse(t *testing.T) {
	var table bytes.Buffer
	printSizes(t, &table)
	counted := []struct {
		what      string
		n, atMost int
	}{
		{"words on pages", wordsOnPages(t), maxWords},
		{"direct requirements", len(directRequirements(t)), maxRequirements},
		{"commands", commands(t), maxCommands},
	}
	for _, c := range counted {
		fmt.Fprintf(&table, "%-32s%9d   at most %d\n", c.what, c.n, c.atMost)
		if c.n > c.atMost {
			t.Errorf("%d %s, want at most %d", c.n, c.what, c.atMost)
		}
	}
	if strings.Contains(flag.Lookup("test.run").Value.String(), t.Name()) {
		printCPU(t, &table)
	}
	t.Logf("\n%s", table.String())
}

// printCPU runs all tests and prints the CPU time of the test binaries that took most.
func printCPU(t *testing.T, w io.Writer) {
	t.Helper()
	listing := listBeside(t)
	spent := measureCPU(t)
	unit := listing()
	var sum time.Duration
	for _, d := range spent {
		sum += d
	}
	n := int(sum / unit)
	fmt.Fprintf(w, "%-32s%9d   at most %d\n", "CPU of go test ./... in listings", n, maxCPU)
	fmt.Fprintf(w, "%-32s%9.1f   a listing takes %.2f\n", "    in seconds", sum.Seconds(), unit.Seconds())
	most := slices.SortedFunc(maps.Keys(spent), func(a, b string) int { return cmp.Compare(spent[b], spent[a]) })
	for _, name := range most[:min(len(most), 12)] {
		fmt.Fprintf(w, "    %-28s%9.1f\n", name, spent[name].Seconds())
	}
	if n > maxCPU {
		t.Errorf("the tests take the CPU time of %d listings, want at most %d", n, maxCPU)
	}
}

// listBeside lists the standard library every few seconds, which starts processes and reads files
// as tests do, until the function it returns is called; that one returns the mean CPU time of a
// listing. A limit in seconds would hold on one machine only, and one in listings of another minute
// only while no neighbour is busier than then.
func listBeside(t *testing.T) func() time.Duration {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	var sum time.Duration
	var err error
	n := time.Duration(0)
	go func() {
		defer close(done)
		for stopped := false; err == nil && !stopped; n++ {
			cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "std")
			if err = cmd.Run(); err != nil {
				return
			}
			sum += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			select {
			case <-stop:
				stopped = true
			case <-time.After(3 * time.Second):
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		if <-done; err != nil {
			t.Fatal(err)
		}
		return sum / n
	}
}

// size is the number of lines and statements of some Go files.
type size struct{ lines, statements int }

// printSizes prints the lines of the product, of the modules beside it, and of the tests.
func printSizes(t *testing.T, w io.Writer) {
	t.Helper()
	sizes := map[string]size{}
	for _, s := range sources(t) {
		kind := "the product"
		switch {
		case s.isTest():
			kind = "tests"
		case ownModule(s.dir) != "":
			kind = "modules beside it"
		}
		n := sizes[kind]
		n.lines += s.lines()
		n.statements += statements(s.file)
		sizes[kind] = n
	}
	err := walk(".txtar", func(name string) error {
		text, err := os.ReadFile(name)
		n := sizes["tests"]
		n.lines += bytes.Count(text, []byte("\n"))
		sizes["tests"] = n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range slices.Sorted(maps.Keys(sizes)) {
		n := sizes[kind]
		density := float64(n.statements) / float64(n.lines)
		fmt.Fprintf(w, "%-32s%9d   %.2f statements a line\n", "lines of "+kind, n.lines, density)
	}
}

// statements counts what a file does: all statements but blocks.
func statements(f *ast.File) int {
	n := 0
	ast.Inspect(f, func(node ast.Node) bool {
		if _, block := node.(*ast.BlockStmt); block {
			return true
		}
		if _, ok := node.(ast.Stmt); ok {
			n++
		}
		return true
	})
	return n
}

func wordsOnPages(t *testing.T) int {
	t.Helper()
	n := 0
	for _, text := range pages(t) {
		n += len(strings.Fields(text))
	}
	return n
}

// commandRow is a row of the table of commands.
var commandRow = regexp.MustCompile("(?m)^`([a-z]+)( [a-z]+)?[ `].*\\|")

// commands counts the commands in docs/commands.md, with the groups that some are in. A test of the
// binary compares the table with the tree.
func commands(t *testing.T) int {
	t.Helper()
	names := map[string]bool{}
	for _, row := range commandRow.FindAllStringSubmatch(pages(t)["docs/commands.md"], -1) {
		names[row[1]], names[row[1]+row[2]] = true, true
	}
	return len(names)
}

// measureCPU runs all tests and returns the CPU time of each test binary. This test binary runs
// between the go command and each of them.
func measureCPU(t *testing.T) map[string]time.Duration {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cpu")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-exec", self, "./...")
	cmd.Env = append(os.Environ(), cpuFile+"="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd, err, out)
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatal("no test binary ran")
	}
	if err != nil {
		t.Fatal(err)
	}
	spent := map[string]time.Duration{}
	for line := range strings.Lines(string(text)) {
		name, ns, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(ns, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		spent[name] += time.Duration(n)
	}
	return spent
}
