package interop_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/interop.md")

const page = "../docs/interop.md"

// row is a line of the page.
type row struct {
	sender
	got results
}

const pageHead = `# Interoperability

Libraries of vendors and of standards as senders. ` + "`go test -C interop ./... -update`" + ` writes this page: it sends
deliveries that they sign through ` + "`eyelet serve`" + ` and checks the responses and the stored events. Each sender sends:

- **new**: an event; **duplicate**: the same bytes again; **signed again**: the same event, signed a second later, where the
  scheme signs a time;
- **tampered**: another event with a changed body; **wrong secret**: another event, signed with another secret or key;
- **stale** and **future**: events signed ten minutes ago and ten minutes ahead. A dash means that no time is signed, or
  that the library signs the present time only.

"Replayed" responses are stored ones, with ` + "`Idempotency-Replayed: true`" + `. The handlers of accepted events have run
once, and nothing of a refused delivery is stored.

A library that "signs" made the signature. One that "verifies" has no function for that: the test signs by the documented
formula, and the library accepts the signature (except of stale and future ones, where it compares the time too). One that
"sends" builds the request, and nothing is signed.

The libraries for Node need Node 20 or later; the test installs them with ` + "`npm`" + ` outside of the repository. Without Node
their rows are skipped; ` + "`EYELET_REQUIRE_NODE=1`" + ` makes that a failure. ` + "`github.com/dadrus/httpsig`" + ` is not here:
the module proxy does not have it.

| Library | Version | For | Role | Producer | New | Duplicate | Signed again | Tampered | Wrong secret | Stale | Future | Note |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`

// checkPage compares the rows with the page, or writes it. Rows that were skipped are not
// compared.
func checkPage(t *testing.T, rows []row) {
	t.Helper()
	var b strings.Builder
	b.WriteString(pageHead)
	versions := libraryVersions(t)
	for _, r := range rows {
		if versions[r.library] == "" {
			t.Fatalf("%s has no version in go.mod or package.json", r.library)
		}
		b.WriteString(r.line(versions[r.library]))
	}
	complete := len(rows) == len(senders)
	if *update {
		if !complete {
			t.Fatal("the page needs all rows: install Node and npm, and run all subtests")
		}
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if !bytes.Contains(written, []byte(line)) {
			t.Errorf("docs/interop.md lacks a line (go test -C interop ./... -update writes it):\n%s", line)
		}
	}
	if complete && len(written) != b.Len() && !t.Failed() {
		t.Error("docs/interop.md has lines of no sender (go test -C interop ./... -update writes it)")
	}
}

var producerName = regexp.MustCompile(`(preset|scheme): ([a-z0-9-]+)`)

func (r row) line(version string) string {
	language, how := "Go", "signs"
	if r.node != "" {
		language = "Node"
	}
	if r.verifies {
		how = "verifies"
	} else if r.want.wrongSecret == bearer.wrongSecret {
		how = "sends"
	}
	producer := producerName.FindStringSubmatch(r.settings)
	cells := []string{"`" + r.library + "`", version, language, how, "`" + producer[1] + ": " + producer[2] + "`"}
	for _, c := range r.got.columns() {
		status, code, _ := strings.Cut(*c, " ")
		if strings.Contains(code, "_") {
			code = "`" + code + "`"
		}
		cells = append(cells, strings.TrimSpace(status+" "+code))
	}
	return "| " + strings.Join(append(cells, r.note), " | ") + " |\n"
}

// libraryVersions returns the versions of go.mod and package.json.
func libraryVersions(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	var node struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &node); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	versions := node.Dependencies
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v(\S+)`).FindAllStringSubmatch(string(text), -1) {
		versions[m[1]] = m[2]
	}
	return versions
}
