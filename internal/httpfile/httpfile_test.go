package httpfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
)

func ExampleParse() {
	f, err := httpfile.Parse("paid.http", []byte("# producer: shop\n# now: 1782635400\n"+
		"POST /webhooks/shop HTTP/1.1\r\nHost: hooks.example\r\n\r\n{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Note("producer"), f.Method, f.Target, f.Host(), len(f.Body))
	// Output: shop POST /webhooks/shop hooks.example 2
}

func TestParseReadsEveryPart(t *testing.T) {
	t.Parallel()
	data := "# producer: gh\r\n#now:1\n# about: a: b\nPUT /x?y=%20 HTTP/1.0\n" +
		"hOst:  h.example\t\nX-Two: 1\r\nX-Two: 2\n" +
		"X-Empty:\n\r\n\r\n# not a note\x00\n"
	f, err := httpfile.Parse("f.http", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{f.Note("producer"), f.Note("now"), f.Note("about"), f.Note("none"), f.Method, f.Target, f.Proto,
		f.Host()}
	want := []string{"gh", "1", "a: b", "", "PUT", "/x?y=%20", "HTTP/1.0", "h.example"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	header := map[string][]string{"X-Two": {"1", "2"}, "X-Empty": {""}}
	if diff := cmp.Diff(header, map[string][]string(f.Header())); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if string(f.Body) != "\r\n# not a note\x00\n" {
		t.Errorf("body is %q", f.Body)
	}
	if f.Fields[1].Line != 6 || f.Notes[2].Line != 3 {
		t.Errorf("lines are %d and %d, want 6 and 3", f.Fields[1].Line, f.Notes[2].Line)
	}
	if !bytes.Equal(f.Bytes(), []byte(data)) {
		t.Errorf("written again it is %q", f.Bytes())
	}
}

func TestErrorsNameFileAndLine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ data, want string }{
		"empty":             {"", "f.http:1: the file ends before the request line"},
		"only notes":        {"# now: 1\n", "f.http:2: the file ends before the request line"},
		"note without name": {"# now: 1\n# hello\n", `f.http:2: not a note of the form "# name: value"`},
		"note in capitals":  {"# NOW: 1\n", `f.http:1: not a note of the form "# name: value"`},
		"no request line": {"# now: 1\nHost: x\n\n",
			`f.http:2: not a request line of the form "POST /path HTTP/1.1"`},
		"two blanks": {"POST  / HTTP/1.1\n\n", `f.http:1: not a request line of the form "POST /path HTTP/1.1"`},
		"version":    {"POST / HTTP/2\n\n", `f.http:1: HTTP version "HTTP/2", want HTTP/1.1 or HTTP/1.0`},
		"no blank line": {"POST / HTTP/1.1\nHost: x\n",
			"f.http:3: the file ends before the blank line that ends the head"},
		"folded":   {"POST / HTTP/1.1\nA: b\n c\n\n", "f.http:3: folded header line (RFC 9112 section 5.2)"},
		"no colon": {"POST / HTTP/1.1\nHost\n\n", `f.http:2: not a header field of the form "Name: value"`},
		"space in name": {"POST / HTTP/1.1\nHost : x\n\n",
			`f.http:2: not a header field of the form "Name: value"`},
		"bare CR": {"POST / HTTP/1.1\nA: b\rc\n\n", `f.http:2: control character '\r'`},
		"NUL":     {"POST / HTTP/1.1\nA: \x00\n\n", `f.http:2: control character '\x00'`},
		"long line": {"# a: " + strings.Repeat("x", 1<<18) + "\n",
			"f.http:1: line is longer than 131072 bytes"},
		"many lines": {strings.Repeat("# a: b\n", 5000), "f.http:4097: more than 4096 lines before the body"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := httpfile.Parse("f.http", []byte(tt.data))
			var e *httpfile.Error
			if !errors.As(err, &e) {
				t.Fatalf("error is %v, want an *httpfile.Error", err)
			}
			if err.Error() != tt.want {
				t.Errorf("error is\n%s, want\n%s", err, tt.want)
			}
		})
	}
}

func TestOnlyChangedPartsAreRewritten(t *testing.T) {
	t.Parallel()
	f, err := httpfile.Parse("f.http", []byte("#now:1\n# expect:  new 202\nPOST /a HTTP/1.1\nHost:h\nX-A:1\n\nbody"))
	if err != nil {
		t.Fatal(err)
	}
	f.SetNote("now", "2")
	f.SetNote("id", "k")
	f.Target = "/b"
	f.Fields[1].Value = "2"
	f.Fields = append(f.Fields, httpfile.Field{Name: "X-B", Value: "3"})
	want := "# now: 2\n# expect:  new 202\n# id: k\nPOST /b HTTP/1.1\r\nHost:h\nX-A: 2\r\nX-B: 3\r\n\nbody"
	if diff := cmp.Diff(want, string(f.Bytes())); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

func TestANewFileIsWritten(t *testing.T) {
	t.Parallel()
	f := httpfile.File{Name: "new.http", Method: "POST", Target: "/",
		Fields: []httpfile.Field{{Name: "Host", Value: "h"}}, Body: []byte("x")}
	f.SetNote("now", "1")
	var b bytes.Buffer
	if _, err := f.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if want := "# now: 1\nPOST / HTTP/1.1\r\nHost: h\r\n\r\nx"; b.String() != want {
		t.Errorf("file is %q, want %q", b.String(), want)
	}
}

func TestAFileThatWouldParseDifferentlyIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"a\x00", "a\r\nInjected: b", "a\nInjected: b", " a", "a\r\n\r\nbody"} {
		f := httpfile.File{Name: "bad.http", Method: "POST", Target: "/",
			Fields: []httpfile.Field{{Name: "X", Value: value}}}
		var b bytes.Buffer
		if _, err := f.WriteTo(&b); err == nil || b.Len() != 0 {
			t.Errorf("value %q: wrote %q, error %v", value, b.String(), err)
		}
	}
}

func TestRequestIsWhatAServerSees(t *testing.T) {
	t.Parallel()
	f, err := httpfile.Parse("f.http", []byte("POST /a%2Fb?x=1 HTTP/1.1\nHost: h.example\nX-A: 1\n\nbody"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Request()
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{r.Method, r.RequestURI, r.URL.EscapedPath(), r.URL.RawQuery, r.Host, r.Header.Get("X-A"),
		string(body)}
	want := []string{"POST", "/a%2Fb?x=1", "/a%2Fb", "x=1", "h.example", "1", "body"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestAnInvalidTargetIsAnErrorOfItsLine(t *testing.T) {
	t.Parallel()
	f, err := httpfile.Parse("f.http", []byte("# now: 1\nPOST /%zz HTTP/1.1\nHost: h\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Request(); err == nil || err.Error() != "f.http:2: request target is not a URL path" {
		t.Errorf("error is %v", err)
	}
}

func TestErrorfNamesTheLineOfTheNote(t *testing.T) {
	t.Parallel()
	f, err := httpfile.Parse("f.http", []byte("# a: 1\n# now: x\nPOST / HTTP/1.1\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Errorf("now", "no number: %q", "x").Error(); got != `f.http:2: no number: "x"` {
		t.Errorf("error is %s", got)
	}
	if got := f.Errorf("missing", "nothing").Error(); got != "f.http:1: nothing" {
		t.Errorf("error is %s", got)
	}
}

func TestReadNamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.http")
	if err := os.WriteFile(path, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := httpfile.Read(path); err == nil || !strings.HasPrefix(err.Error(), path+":1: ") {
		t.Errorf("error is %v", err)
	}
	if _, err := httpfile.Read(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("# producer: shop\n# now: 1\nPOST /a HTTP/1.1\r\nHost: h\r\n\r\n{}"))
	f.Add([]byte("#a:\r\nPUT * HTTP/1.0\nA:\t b \n\r\n\x00\xff"))
	f.Add([]byte("POST /%zz HTTP/1.1\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := httpfile.Parse("f", data)
		if err != nil {
			var e *httpfile.Error
			if !errors.As(err, &e) || e.Line < 1 {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if out := file.Bytes(); !bytes.Equal(out, data) {
			t.Fatalf("written again it is %q", out)
		}
		if r, err := file.Request(); err == nil && r.RequestURI != file.Target {
			t.Fatalf("request target is %q, want %q", r.RequestURI, file.Target)
		}
	})
}
