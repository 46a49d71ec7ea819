package httpfile_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
)

// TestCopiesAreReadAsTheSameRequest: those as curl and as HAR, with binary and awkward bodies.
func TestCopiesAreReadAsTheSameRequest(t *testing.T) {
	t.Parallel()
	const head = "# now: 1782635400\nPOST /in?x=%2f&y=[1] HTTP/1.1\nHost: h.example\n"
	for recording, inFile := range map[string]bool{
		head + "Content-Type: application/json\n" +
			"X-It: it's \"`$x\nX-Empty: \n\n{\"a\": \"it's $(x)\",\n\t\"b\": 1}\n": false,
		head + "\nno type": false, head + "\n": false, head + "\n@file": true, head + "A: b\n\n\x00\xff": true,
		head + "\n\x1b[2J": true, head + "\na\u202eb": true, head + "\n" + strings.Repeat("a", 20_000): true,
	} {
		f, err := httpfile.Parse("t", []byte(recording))
		if err != nil {
			t.Fatal(err)
		}
		command := f.Curl("https://h.example"+f.Target, "body")
		if got := strings.HasSuffix(command, "'@body'"); got != inFile {
			t.Errorf("the body is in a file: %v, %s", got, command)
		}
		har, err := f.HAR("https://h.example" + f.Target)
		if err != nil {
			t.Fatal(err)
		}
		curled, err := httpfile.ParseCurl("t", []byte(command), func(string) ([]byte, error) { return f.Body, nil })
		if err != nil {
			t.Fatal(err)
		}
		curled.SetNote("now", f.Note("now"))
		fromHAR, err := httpfile.ParseAll("t", har, 1)
		if err != nil {
			t.Fatalf("%v\n%s", err, har)
		}
		for _, back := range []*httpfile.File{curled, fromHAR[0]} {
			if diff := cmp.Diff(text(f), text(back)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		// A shell sees the same words.
		out, err := exec.Command("sh", "-c", "curl() { for word; do :; done; printf %s \"$word\"; }\n"+command).Output()
		if want := string(f.Body); err == nil && !inFile && string(out) != want {
			t.Errorf("the shell reads %q, want %q", out, want)
		}
	}
}
