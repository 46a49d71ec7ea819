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

var update = flag.Bool("update", false, "write docs/dev/interop.md")

const page = "../docs/dev/interop.md"

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

const pageMiddle = `
## What Eyelet signs

Real libraries verify what ` + "`eyelet send`" + ` signs: the delivery as it was sent, with a changed body, and with another
secret or public key than the signer's. ` + "`order.json`" + ` is a payload that is signed by RFC 9421, for a producer of your
own. Where a library leaves the comparison of Content-Digest to its caller, the test does it.

| Library | Version | For | Signed by | As sent | Changed body | Other secret | Note |
| --- | --- | --- | --- | --- | --- | --- | --- |
`

// checkPage compares the lines of the tables with the page, or writes it. Rows that were skipped
// are
// not compared.
func checkPage(t *testing.T, lines [2][]string, complete bool) {
	t.Helper()
	text := pageHead + strings.Join(lines[0], "") + pageMiddle + strings.Join(lines[1], "")
	if *update {
		if !complete {
			t.Fatal("the page needs all rows: install Node and npm, and run all subtests")
		}
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if !bytes.Contains(written, []byte(line)) {
			t.Errorf("docs/dev/interop.md lacks a line (go test -C interop ./... -update writes it):\n%s", line)
		}
	}
	if complete && len(written) != len(text) && !t.Failed() {
		t.Error("docs/dev/interop.md has lines of no library (go test -C interop ./... -update writes it)")
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
