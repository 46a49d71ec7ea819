package producer

import (
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/eyelet-dev/eyelet/verify"
)

func TestIdempotencyKeySyntax(t *testing.T) {
	t.Parallel()
	const uuid = "8e03978e-40d5-43e8-bc93-6894a57f9324"
	k1024, k1025 := strings.Repeat("k", 1024), strings.Repeat("k", 1025)
	cases := []struct {
		name          string
		lines         []string
		want          string
		lenientCode   verify.Code
		strictRefuses bool
	}{
		{"R001 a quoted string without its quotes", []string{`"` + uuid + `"`}, uuid, "", false},
		{"R002 a bare value, lenient only", []string{uuid}, uuid, "", true},
		{"R002 neither string nor word", []string{`"k1`}, "", verify.EventMalformed, true},
		{"R003 bare and quoted are one key", []string{`k1`}, "k1", "", true},
		{"R003 quoted", []string{`"k1"`}, "k1", "", false},
		{"R004 two lines", []string{`"a"`, `"b"`}, "", verify.AmbiguousField, true},
		{"R004 the same line twice", []string{`"a"`, `"a"`}, "", verify.AmbiguousField, true},
		{"R004 two members on one line", []string{`"a", "b"`}, "", verify.EventMalformed, true},
		{"R004 two bare members", []string{`a,b`}, "", verify.EventMalformed, true},
		{"R005 parameters are ignored", []string{`"k2";v=1;w`}, "k2", "", false},
		{"R005 a bare value has none", []string{`k2;v=1`}, "", verify.EventMalformed, true},
		{"R006 the two escapes", []string{`"a\"b\\c"`}, `a"b\c`, "", false},
		{"R006 another escape", []string{`"a\n"`}, "", verify.EventMalformed, true},
		{"R006 a control character", []string{"\"a\x01\""}, "", verify.EventMalformed, true},
		{"R006 DEL", []string{"\"a\x7f\""}, "", verify.EventMalformed, true},
		{"R006 not ASCII", []string{`"ä"`}, "", verify.EventMalformed, true},
		{"R006 not ASCII, bare", []string{`ä`}, "", verify.EventMalformed, true},
		{"R006 a bare backslash", []string{`a\b`}, "", verify.EventMalformed, true},
		{"R007 1,024 characters", []string{`"` + k1024 + `"`}, k1024, "", false},
		{"R007 1,024 escaped characters", []string{`"` + strings.Repeat(`\"`, 1024) + `"`}, strings.Repeat(`"`, 1024),
			"", false},
		{"R007 1,024 bare characters", []string{k1024}, k1024, "", true},
		{"R007 1,025 characters", []string{`"` + k1025 + `"`}, "", verify.EventMalformed, true},
		{"R007 1,025 bare characters", []string{k1025}, "", verify.EventMalformed, true},
		{"R008 empty string", []string{`""`}, "", verify.IDMissing, true},
		{"R008 empty string with parameters", []string{`"";a=1`}, "", verify.IDMissing, true},
		{"R008 empty line", []string{``}, "", verify.IDMissing, true},
		{"a string with a space", []string{`"a b"`}, "a b", "", false},
		{"a bare value with a space", []string{`a b`}, "", verify.EventMalformed, true},
		{"a string and more", []string{`"a" b`}, "", verify.EventMalformed, true},
		{"a bare value that quotes within", []string{`a"b`}, "", verify.EventMalformed, true},
		{"a number is a bare word", []string{`42`}, "42", "", true},
		{"a parameter list that does not parse", []string{`"a";`}, "", verify.EventMalformed, true},
		{"absent", nil, "", "", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// R009: field names are case-insensitive.
			d := delivery(hook, "")
			for _, line := range c.lines {
				d.Request.Header.Add("iDeMpOtEnCy-KeY", line)
			}
			got, err := IdempotencyKey{}.Extract(d)
			if got != c.want || verify.CodeOf(err) != c.lenientCode || (err == nil) != (c.lenientCode == "") {
				t.Errorf("lenient: got %q, %v; want %q, %q", got, err, c.want, c.lenientCode)
			}
			got, err = IdempotencyKey{Strict: true}.Extract(d)
			if (err != nil) != c.strictRefuses || err == nil && got != c.want {
				t.Errorf("strict: got %q, %v; refusal wanted: %v", got, err, c.strictRefuses)
			}
			if err != nil && verify.CodeOf(err) == "" {
				t.Errorf("strict: untyped error %v", err)
			}
		})
	}
}

func TestRawKeyIsTheFieldAsReceived(t *testing.T) {
	t.Parallel()
	d := delivery(hook, `{"id":"e1"}`, "Idempotency-Key", `"k1";v=1`)
	chain := First(Header("X-Id"), IdempotencyKey{}, JSON("id")).(RawExtractor)
	if got := chain.Raw(d); got != `"k1";v=1` {
		t.Errorf("raw is %q", got)
	}
	d.Request.Header.Set("X-Id", "e2")
	if got := chain.Raw(d); got != "" {
		t.Errorf("raw is %q, but another part gave the value", got)
	}
}

func TestKeyFormats(t *testing.T) {
	t.Parallel()
	re, err := ParseKeyFormat("[a-z]+|[0-9]+")
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		format KeyFormat
		id     string
		ok     bool
	}{
		{"uuid", KeyFormatUUID, "8e03978e-40d5-43e8-bc93-6894a57f9324", true},
		{"uuid in capitals", KeyFormatUUID, "8E03978E-40D5-43E8-BC93-6894A57F9324", true},
		{"uuid in braces", KeyFormatUUID, "{8e03978e-40d5-43e8-bc93-6894a57f9324}", false},
		{"uuid without dashes", KeyFormatUUID, "8e03978e40d543e8bc936894a57f9324", false},
		{"uuid with another letter", KeyFormatUUID, "8e03978e-40d5-43e8-bc93-6894a57f932g", false},
		{"regexp", re, "abc", true},
		{"regexp, the other branch", re, "123", true},
		{"regexp matches the whole", re, "abc1", false},
		{"regexp and a newline", re, "abc\n", false},
	}
	for _, c := range cases {
		if err := c.format.Check(c.id); (err == nil) != c.ok {
			t.Errorf("%s: %q gave %v", c.name, c.id, err)
		}
	}
	if _, err := ParseKeyFormat("("); err == nil {
		t.Error("a malformed expression was taken")
	}
}

// FuzzIdempotencyKey checks what holds for every value.
func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{`"k"`, `k`, `"a\"b";c=1`, `""`, `"`, "", `a b`, "\"\x7f\"", `?1`, `:aGk=:`, `(1 2)`,
		`"a";b="\"`, "k\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if text, ok := unquote(line); ok {
			if item, err := httpsfv.UnmarshalItem([]string{line}); err != nil || item.Value != text {
				t.Fatalf("%q is unquoted to %q; it is %v, %v", line, text, item.Value, err)
			}
		}
		d := delivery(hook, "")
		d.Request.Header["Idempotency-Key"] = []string{line}
		id, err := IdempotencyKey{}.Extract(d)
		if err != nil {
			if id != "" || verify.CodeOf(err) == "" {
				t.Fatalf("%q: got %q, %v", line, id, err)
			}
			return
		}
		if id == "" || len(id) > MaxKey {
			t.Fatalf("%q: a key of %d characters", line, len(id))
		}
		d.Request.Header["Idempotency-Key"] = []string{`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(id) +
			`"`}
		if again, err := (IdempotencyKey{Strict: true}).Extract(d); err != nil || again != id {
			t.Fatalf("%q: key %q is %q, %v in quotes", line, id, again, err)
		}
	})
}
