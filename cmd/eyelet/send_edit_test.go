package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMembersOfABodyAreSet(t *testing.T) {
	t.Parallel()
	const doc = `{"a":{"b":[1,{"c":"x"}],"d.e":true},"n":2450,"s":"24.50","big":12345678901234567890}`
	for _, tt := range []struct {
		path, value, want string
		add               bool
	}{
		{"n", "500", `"n":500,`, false},
		{"n", "five", `"n":"five",`, false},
		{"s", "30.00", `"s":"30.00"`, false},
		{"s", "null", `"s":null`, false},
		{"s", `{"x":1}`, `"s":{"x":1}`, false},
		{"a.b.0", "7", `"b":[7,{`, false},
		{"a.b.1.c", "y", `{"c":"y"}`, false},
		{"a.d.e", "false", `"d.e":false`, false},
		{"a.b.2", "8", `{"c":"x"},8]`, true},
		{"a.x.y", "z", `"x":{"y":"z"}}`, true},
		{"new", `say "hi"`, `"new":"say \"hi\""}`, true},
	} {
		out, err := setInBody([]byte(doc), tt.path, tt.value, tt.add)
		if err != nil || !strings.Contains(string(out), tt.want) ||
			!strings.Contains(string(out), "12345678901234567890") {
			t.Errorf("%s=%s: %s %v, want %s", tt.path, tt.value, out, err, tt.want)
		}
	}
	for _, path := range []string{"x", "n.x", "a.b.2", "a.b.x", "a.x.y"} {
		if out, err := setInBody([]byte(doc), path, "1", false); err == nil {
			t.Errorf("%s: %s", path, out)
		}
	}
	form, err := setInBody([]byte("From=%2B1&Body=a+b"), "Body", "c&d", false)
	if err != nil || string(form) != "From=%2B1&Body=c%26d" {
		t.Errorf("%s %v", form, err)
	}
	if _, err := setInBody([]byte("<feed/>"), "a", "b", true); err == nil {
		t.Error("XML was changed")
	}
}

// TestABodyIsEditedBeforeItIsSigned: in the editor of the environment, which gets JSON indented.
func TestABodyIsEditedBeforeItIsSigned(t *testing.T) {
	t.Parallel()
	file := configured(t, "handlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	r := launch(t, "serve", "--config", file)
	dir := t.TempDir()
	script := filepath.Join(dir, "editor")
	text := "#!/bin/sh\ncp \"$2\" " + dir + "/seen.json\nsed -i.old 's/refs.heads.main/refs\\/heads\\/edited/' \"$2\"\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	edit := func(environ ...string) (code int, out string) {
		var o, e bytes.Buffer
		p := &program{In: strings.NewReader(""), Out: &o, Err: &e, Environ: environ}
		code = p.Run(t.Context(), "send", "github", "push", "--edit", "--config", file, "--producer", "gh", "--url",
			r.deliveries)
		return code, o.String() + e.String()
	}
	if code, out := edit("EDITOR=" + script + " --wait"); code != exitOK || !strings.HasPrefix(out, "200 accepted") {
		t.Fatalf("exit %d: %s", code, out)
	}
	eventually(t, "the edited body", func() bool { return strings.Contains(r.out.String(), `refs/heads/edited`) })
	seen, err := os.ReadFile(filepath.Join(dir, "seen.json"))
	if err != nil || !strings.HasPrefix(string(seen), "{\n  \"") {
		t.Errorf("the editor gets %q, %v", seen, err)
	}
	before := counted(t, file, "done", 1)
	code, out := edit("EDITOR="+script, "VISUAL=false")
	if code != exitUsage || !strings.Contains(out, "false: exit status 1") {
		t.Errorf("exit %d: %s", code, out)
	}
	if after := counted(t, file, "done", 1); before[0].Event != after[0].Event {
		t.Errorf("another event was sent: %v", after)
	}
}
