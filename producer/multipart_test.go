package producer

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// formPart is a part with a field of its own, if any.
func formPart(disposition, value string, field ...string) string {
	return "--X\r\nContent-Disposition: " + disposition + "\r\n" + strings.Join(field, "") + "\r\n" + value + "\r\n"
}

// TestMultipartFormsHaveOneReading: one that others could read differently is refused.
func TestMultipartFormsHaveOneReading(t *testing.T) {
	t.Parallel()
	const media, end = "multipart/form-data; boundary=X", "--X--\r\n"
	a := formPart(`form-data; name="a"`, "1")
	file := formPart(`form-data; name="f"; filename="a\"b.txt"`, "--Y\r\n\r\n", "Content-Type: text/plain\r\n")
	const refused, twice = "!" + string(verify.MediaTypeUnsupported), "!" + string(verify.AmbiguousField)
	for name, row := range map[string]struct{ media, body, want string }{
		"alone":                {media, a + end, "1"},
		"no line feed at end":  {media, a + "--X--", "1"},
		"a quoted boundary":    {`Multipart/Form-Data; charset=utf-8; boundary="X"`, a + end, "1"},
		"beside a file":        {media, file + a + end, "1"},
		"beside a file, first": {media, a + file + end, "1"},
		"another":              {media, formPart(`form-data; name="b"`, "1") + end, ""},
		"empty":                {media, formPart(`form-data; name="a"`, "") + end, ""},
		"lines": {media, formPart(`form-data; name="a"`, "1\r\n\r\n-- X\r\n") + end,
			"1\r\n\r\n-- X\r\n"},
		"a token as the name": {media, formPart(`form-data; name=a`, "1") + end, "1"},
		"in another case":     {media, strings.Replace(a, "Content-D", "content-d", 1) + end, "1"},
		"8bit": {media, formPart(`form-data; name="a"`, "1", "Content-Transfer-Encoding: 8bit\r\n") + end,
			"1"},
		"a name in other scripts": {media, a + formPart(`form-data; name="f"; filename*=UTF-8''%e2`, "") + end, "1"},
		"twice":                   {media, a + a + end, twice},
		"as a file":               {media, formPart(`form-data; name="a"; filename="x"`, "1") + end, twice},
		"as field and file":       {media, a + formPart(`form-data; name="a"; filename="x"`, "1") + end, twice},
		"no boundary":             {"multipart/form-data", a + end, refused},
		"another boundary":        {"multipart/form-data; boundary=Y", a + end, refused},
		"a long boundary":         {"multipart/form-data; boundary=" + strings.Repeat("X", 71), a + end, refused},
		"cut":                     {media, a, refused},
		"cut in a part":           {media, a[:len(a)-3], refused},
		"an epilogue":             {media, a + end + a, refused},
		"a preamble":              {media, "hello\r\n" + a + end, refused},
		"no part":                 {media, end, ""},
		"no body":                 {media, "", refused},
		"no name":                 {media, formPart("form-data", "1") + a + end, refused},
		"no disposition":          {media, "--X\r\nA: b\r\n\r\n1\r\n" + a + end, refused},
		"no head":                 {media, "--X\r\n\r\n1\r\n" + a + end, refused},
		"two dispositions": {media, formPart(`form-data; name="b"`, "1",
			"Content-Disposition: form-data; name=\"a\"\r\n") + end,
			refused},
		"two names":        {media, formPart(`form-data; name="b"; name="a"`, "1") + end, refused},
		"an extended name": {media, formPart(`form-data; name*=UTF-8''a`, "1") + end, refused},
		"an escaped name":  {media, formPart(`form-data; name="\a"`, "1") + end, refused},
		"a folded line":    {media, formPart("form-data;\r\n name=\"a\"", "1") + end, refused},
		"a bare line feed": {media, formPart("form-data; name=\"b\"\nX: form-data; name=\"a\"", "1") + end,
			refused},
		"an attachment": {media, formPart(`attachment; name="a"`, "1") + end, refused},
		"base64": {media, formPart(`form-data; name="a"`, "MQ==", "Content-Transfer-Encoding: base64\r\n") + end,
			refused},
		"space after a boundary": {media, "--X \r\n" + a[5:] + end, refused},
		"a long head": {media, formPart(`form-data; name="b"`, "",
			"A: "+strings.Repeat("b", maxPartHead)+"\r\n") + a + end,
			refused},
		"too many": {media, strings.Repeat(formPart(`form-data; name="b"`, ""), maxParts) + end,
			refused},
		"as many as may be": {media, strings.Repeat(formPart(`form-data; name="b"`, ""), maxParts-2) + a + end,
			"1"},
		"a long value": {media, formPart(`form-data; name="a"`, strings.Repeat("1", maxValue+1)) + end,
			"!" + string(verify.EventMalformed)},
		"mixed": {"multipart/mixed; boundary=X", a + end, ""},
		"JSON":  {"application/json", a + end, ""},
	} {
		r := httptest.NewRequest(http.MethodPost, hook, nil)
		r.Header.Set("Content-Type", row.media)
		got, err := Form("a").Extract(&Delivery{Request: r, Body: []byte(row.body)})
		if err != nil {
			got = "!" + string(verify.CodeOf(err))
		}
		if got != row.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, row.want)
		}
	}
	for body, want := range map[string]string{
		file + formPart(`form-data; name="payload"`, `{"b":1}`) + end: `{"b":1}`, a + end: "", "--X\r\n": "", "--": "",
	} {
		if got, ok := FormValue([]byte(body), "payload"); string(got) != want || ok != (want != "") {
			t.Errorf("%.40q: %q, want %q", body, got, want)
		}
	}
}

// FuzzMultipart: a value that is read is the one that the standard library reads.
func FuzzMultipart(f *testing.F) {
	f.Add(formPart(`form-data; name="a"`, "1")+"--X--\r\n", "X")
	f.Add(formPart(`form-data; name="b"; filename="a"`, "2")+formPart(`form-data; name=a`, "1")+"--X--", "X")
	f.Fuzz(func(t *testing.T, body, boundary string) {
		value, err := multipartValue([]byte(body), boundary, "a")
		if value == nil || err != nil {
			return
		}
		found := 0
		for r := multipart.NewReader(strings.NewReader(body), boundary); ; {
			part, err := r.NextRawPart()
			if err != nil {
				break
			}
			text, _ := io.ReadAll(part)
			if part.FormName() != "a" {
				continue
			}
			if found++; part.FileName() != "" || !bytes.Equal(text, value) {
				t.Errorf("%q: %q, the standard library %q in %q", body, value, text, part.FileName())
			}
		}
		if found != 1 {
			t.Errorf("%q: %q, the standard library finds %d", body, value, found)
		}
	})
}
