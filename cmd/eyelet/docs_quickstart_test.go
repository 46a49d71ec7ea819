package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/freeport"
	bundled "github.com/eyelet-dev/eyelet/testdata"
)

// tutorial runs a page in a folder, on other ports.
type tutorial struct {
	t        *testing.T
	dir      string
	environ  []string
	commands int
}

// TestTheQuickstartRunsAsWritten writes the files of docs/quickstart.md, runs its commands in
// order, and compares what they print. A line "..." of the page is any text. Commands that only
// look are repeated until the handlers have run.
func TestTheQuickstartRunsAsWritten(t *testing.T) {
	t.Parallel()
	runPage(t, "quickstart.md", 12)
}

// TestProducersSignAsWritten runs docs/signing.md: the snippets for Node and Python deliver. That
// for Go is in examples/library.
func TestProducersSignAsWritten(t *testing.T) {
	t.Parallel()
	runPage(t, "signing.md", 5)
}

// runPage runs a page with at least this many commands.
func runPage(t *testing.T, page string, least int) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/" + page)
	check(t, err)
	listen, operations := freeport.Address(), freeport.Address()
	text := strings.ReplaceAll(string(raw), "127.0.0.1:8080", listen)
	tut := &tutorial{t: t, dir: t.TempDir(), environ: append(os.Environ(), "EYELET_LISTEN="+listen,
		"EYELET_OPERATIONS="+operations, "PATH="+filepath.Dir(realProgram(t))+":"+os.Getenv("PATH"))}
	check(t, os.CopyFS(filepath.Join(tut.dir, "testdata"), bundled.Files()))
	for _, block := range strings.Split(text, "\n```")[1:] {
		language, content, _ := strings.Cut(block, "\n")
		switch {
		case language == "yaml":
			tut.write("eyelet.yaml", content)
		case language == "js":
			tut.write("deliver.mjs", content)
		case language == "python":
			tut.write("deliver.py", content)
		case language == "sh" && strings.HasPrefix(content, "#!"):
			tut.write("ship.sh", content)
		case language == "sh":
			if content != "go build -o eyelet ./cmd/eyelet && PATH=$PWD:$PATH" {
				t.Errorf("the page begins with %q, and the test does not run it", content)
			}
		case language == "console":
			tut.session(content)
		}
	}
	if tut.commands < least {
		t.Errorf("only %d commands were run", tut.commands)
	}
}

func (tut *tutorial) write(name, content string) {
	tut.t.Helper()
	check(tut.t, os.WriteFile(filepath.Join(tut.dir, name), []byte(content+"\n"), 0o600))
}

// session runs the commands of a block, each with the output below it.
func (tut *tutorial) session(block string) {
	tut.t.Helper()
	for _, part := range strings.Split("\n"+block, "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		tut.commands++
		if setting, ok := strings.CutPrefix(command, "export "); ok {
			tut.environ = append(tut.environ, setting)
		} else if command == "eyelet serve" {
			startServed(tut.t, "eyelet.yaml", func(c *exec.Cmd) { c.Dir, c.Env = tut.dir, tut.environ })
		} else if address, ok := strings.CutPrefix(command, "payments "); ok {
			tut.startReceiver(address)
		} else if missing := missingProgram(command); missing != "" {
			tut.t.Logf("there is no %s", missing)
		} else {
			tut.run(command, want)
		}
	}
}

// missingProgram returns the interpreter of a command if this machine does not have it.
func missingProgram(command string) string {
	name, _, _ := strings.Cut(command, " ")
	if _, err := exec.LookPath(name); err != nil && (name == "node" || name == "python3") {
		return name
	}
	return ""
}

// run runs a command of the shell. Its output is that of the page; without any there, it may print
// what it likes.
func (tut *tutorial) run(command, want string) {
	tut.t.Helper()
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, `(?s:.*)`)
	shown := regexp.MustCompile("^" + pattern + "\n?$")
	tries := 1
	if strings.HasPrefix(command, "cat ") || strings.HasPrefix(command, "eyelet events list --state dead") ||
		strings.Contains(command, "FROM counter") {
		tries = 200
	}
	var out []byte
	for range tries {
		c := exec.Command("sh", "-c", command)
		c.Dir, c.Env = tut.dir, tut.environ
		out, _ = c.CombinedOutput() // a refused delivery exits 1
		if want == "" && c.ProcessState.Success() || want != "" && shown.Match(out) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	tut.t.Errorf("$ %s\nprints:\n%s\nthe page says:\n%s", command, out, want)
}
