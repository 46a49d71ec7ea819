package interop_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
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

Libraries in the versions of go.mod and package.json. ` + "`go test -C interop ./... -update`" + ` writes this page: it sends what
they sign to ` + "`eyelet serve`" + `, and checks responses and stored events. Usual results:

- a new event is accepted (200, or 202 under ` + "`scheme: rfc9421`" + `), and its handlers run once;
- the same bytes again, and the same event signed a second later, get the stored response;
- a changed body and another secret or key get 401, and nothing is stored;
- "time": signatures of ten minutes ago and ten minutes ahead get 401. Without it no
  time, or only the present one, is signed.

A library that "signs" made the signature. One that "verifies" accepts a signature that the test made by the documented
formula. One that "sends" builds the request with a bearer token: nothing is signed, and a changed body is accepted.
Those without a URL are for Node 20 or later, with ` + "`npm`" + `. A stroke separates deliveries.

Library | Role | Preset | Time | Other results, and notes
---|---|---|---|---
`

const pageMiddle = `
## What Eyelet signs

Libraries accept what ` + "`eyelet send`" + ` signs, and refuse it with a changed body and another secret or public key.
` + "`order.json`" + ` is signed by RFC 9421. Where a library leaves Content-Digest to its caller, the test compares it.

Library | Signed by | Other results, and notes
---|---|---
`

const pageEnd = `
## Senders of RFC 9421 as they document themselves

Signed by ` + "`http-message-signatures`" + `; keys are left out.

Sender | Signs | Producer
---|---|---
`

// checkPage compares the lines of the tables with the page, or writes it. Rows that were skipped
// are not compared.
func checkPage(t *testing.T, lines [3][]string, complete bool) {
	t.Helper()
	text := pageHead + merged(lines[0]) + pageMiddle + merged(lines[1]) + pageEnd + merged(lines[2])
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
	for _, line := range slices.Concat(lines[0], lines[1], lines[2]) {
		row, note := cutNote(line)
		has := func(l string) bool { return strings.HasPrefix(l, row) && strings.Contains(l, note) }
		if !slices.ContainsFunc(strings.Split(string(written), "\n"), has) {
			t.Errorf("docs/dev/interop.md lacks a line (go test -C interop ./... -update writes it):\n%s", line)
		}
	}
	if complete && string(written) != text && !t.Failed() {
		t.Error("docs/dev/interop.md has lines of no library (go test -C interop ./... -update writes it)")
	}
}

// cutNote cuts a line before its last cell.
func cutNote(line string) (row, note string) {
	i := strings.LastIndex(line, "|") + 1
	return line[:i], strings.TrimSpace(line[i:])
}

// merged joins neighbouring lines that differ in their notes alone.
func merged(lines []string) string {
	var text strings.Builder
	last := ""
	for _, line := range lines {
		row, note := cutNote(line)
		switch {
		case row != last:
			text.WriteString("\n" + strings.TrimSpace(line))
		case note != "":
			text.WriteString(" / " + note)
		}
		last = row
	}
	return strings.TrimPrefix(text.String(), "\n") + "\n"
}

var producerName = regexp.MustCompile(`(preset|scheme): ([a-z0-9-]+)`)

// usualResults are the patterns of the columns of results. The page names what differs.
var usualResults = []struct{ column, pattern string }{
	{"new", `^20[02]$`}, {"duplicate", `^20[02] replayed$`}, {"signed again", `^20[02] replayed$`},
	{"changed body", `^401 `}, {"other secret", `^401 `}, {"stale", `^401 timestamp_too_old$|^-$`},
	{"future", `^401 timestamp_too_new$|^-$`},
}

func (r row) line() string {
	if r.documented != "" {
		producer, _, _ := strings.Cut(strings.TrimPrefix(r.settings, "{"), ", keys:")
		return strings.Join([]string{r.library, r.documented, "`" + producer + "`"}, " | ") + "\n"
	}
	how, timed := "signs", "yes"
	if r.verifies {
		how = "verifies"
	} else if r.want.wrongSecret == bearer.wrongSecret {
		how = "sends"
	}
	if r.got.stale == "-" {
		timed = ""
	}
	var notes []string
	for i, c := range r.got.columns() {
		unsigned := how == "sends" && usualResults[i].column == "changed body" && *c == "200"
		if !unsigned && !regexp.MustCompile(usualResults[i].pattern).MatchString(*c) {
			notes = append(notes, usualResults[i].column+" "+*c)
		}
	}
	if r.got.fresh == r.got.wrongSecret {
		notes = []string{"always " + r.got.fresh}
	}
	if r.note != "" {
		notes = append(notes, r.note)
	}
	producer := producerName.FindStringSubmatch(r.settings)
	by := strings.TrimPrefix(producer[0], "preset: ")
	cells := []string{"`" + r.library + "`", how, "`" + by + "`", timed}
	return strings.TrimRight(strings.Join(append(cells, strings.Join(notes, "; ")), " | "), " ") + "\n"
}
