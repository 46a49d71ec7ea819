package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/testdata"
)

func TestEveryByteOfARecordingCounts(t *testing.T) {
	t.Parallel()
	for _, name := range testdata.Deliveries() {
		data, err := fs.ReadFile(testdata.Files(), name)
		check(t, err)
		if why := tampered(data); why != "" || !digestLike.Match(data) {
			t.Fatalf("%s: %s", name, why)
		}
		for i := range data {
			for _, bit := range []byte{1, 0x80} {
				data[i] ^= bit
				if tampered(data) == "" {
					t.Errorf("%s: byte %d was changed without a failure", name, i)
				}
				data[i] ^= bit
			}
		}
	}
}

func TestARecordingNeedsNoDigest(t *testing.T) {
	t.Parallel()
	data := []byte("# now: 1\nPOST / HTTP/1.1\nX-Hub-Signature-256: sha256=" + strings.Repeat("ab", 32) + "\n\n")
	if why := tampered(data); why != "" {
		t.Errorf("changed: %s", why)
	}
}

func TestTheGeneratorWritesTheBundledRecordings(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	dir := t.TempDir()
	cmd := exec.Command("go", "run", "generate.go", "-out", dir)
	cmd.Dir = "../../testdata"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		got, err := fs.ReadFile(testdata.Files(), filepath.ToSlash(name))
		if err != nil {
			return err
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs from what generate.go writes:\n%s", name, diff)
		}
		return nil
	})
	check(t, err)
	if n != len(testdata.Deliveries())+9 {
		t.Errorf("the generator wrote %d files, and %d recordings are bundled", n, len(testdata.Deliveries()))
	}
}

func TestInvalidExpectationsAreErrors(t *testing.T) {
	t.Parallel()
	const hint = ` | write "# expect: new 202" or "# expect: refused 401 digest_mismatch"`
	for notes, want := range map[string]string{
		"# expect: good 200\n": "f.http:1: an expectation is a verdict (new, duplicate, conflict, quarantined, " +
			"refused, failed), a status and an optional code" + hint,
		"# expect: new\n": "f.http:1: an expectation is a verdict (new, duplicate, conflict, quarantined, " +
			"refused, failed), a status and an optional code" + hint,
		"# a: b\n# expect: new x\n": `f.http:2: "x" is not a status` + hint,
		"# now: soon\n": `f.http:1: "soon" is not a unix time | an .http file is notes ("# now: ` +
			`1782635400"), a request line, header fields, a blank line, and the body`,
		"# expct: new 200\n": `f.http:1: unknown note "expct" | did you mean "expect"?`,
		"# weather: fine\n":  "<nil>",
	} {
		rec, err := httpfile.Parse("f.http", []byte(notes+"POST / HTTP/1.1\n\n"))
		check(t, err)
		_, err = expectationOf(input{rec: rec}, nil)
		if diff := cmp.Diff(want, withHints(err)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", notes, diff)
		}
	}
}

func TestEachPartOfAnExpectationCounts(t *testing.T) {
	t.Parallel()
	good := devResult{Verdict: verdictNew, Status: 202, Code: "accepted", ID: "k", Type: "a"}
	e := expectation{verdict: verdictNew, status: 202, code: "accepted", id: "k", typ: "a"}
	if got := e.misses(good); got != nil {
		t.Errorf("misses %v", got)
	}
	for want, change := range map[string]func(*devResult){
		"expected verdict new, got duplicate":     func(o *devResult) { o.Verdict = verdictDuplicate },
		"expected status 202, got 200":            func(o *devResult) { o.Status = 200 },
		"expected code accepted, got quarantined": func(o *devResult) { o.Code = "quarantined" },
		"expected id k, got l":                    func(o *devResult) { o.ID = "l" },
		"expected type a, got -":                  func(o *devResult) { o.Type = "" },
	} {
		o := good
		change(&o)
		if got := e.misses(o); len(got) != 1 || got[0] != want {
			t.Errorf("misses %q, want %q", got, want)
		}
	}
	if got := (expectation{}).misses(good); got != nil {
		t.Errorf("without an expectation it misses %v", got)
	}
}

// withHints returns a line for each error, with its hint after a bar.
func withHints(err error) string {
	es, ok := usage.Find(err)
	if !ok {
		return fmt.Sprint(err)
	}
	var lines []string
	for _, e := range es {
		line := e.Error()
		if e.Hint != "" {
			line += " | " + e.Hint
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
