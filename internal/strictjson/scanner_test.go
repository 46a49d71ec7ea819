package strictjson

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

func scan(text string) error {
	s := NewScanner([]byte(text), Unverified)
	if _, err := s.Value(); err != nil {
		return err
	}
	return s.End()
}

// TestScannerAcceptsWhatEncodingJSONAccepts compares the scanner with encoding/json on randomly
// mutated texts.
func TestScannerAcceptsWhatEncodingJSONAccepts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(8259, 0))
	seeds := []string{
		`{"a":[1,-0.5e+10,true,false,null,"x\u20ac\"\\\/\b\f\n\r\t"],"b":{"":{}},"c":[[],{}]}`,
		`[0,1.0,-1E-2,10,"\ud83d\ude00"]`, ` "x" `,
		`-`, `01`, `1.`, `.5`, `1e`, `+1`, `tru`, `[1,]`, `{"a":1,}`, `{"a" 1}`, `{,}`, `[,]`, `"\x"`, `"\u12"`,
		"\"\n\"", `{"a":1}}`, ``, ` `, `nul`, "\x00",
	}
	letters := `{}[]",:\u/truefalsn0123456789eE+-. ` + "\n\x00\x80a"
	valid := 0
	for i := range 200_000 {
		text := []byte(seeds[i%len(seeds)])
		for range random.IntN(4) {
			at := random.IntN(len(text) + 1)
			c := letters[random.IntN(len(letters))]
			switch random.IntN(3) {
			case 0:
				text = append(text[:at:at], append([]byte{c}, text[at:]...)...)
			case 1:
				if at < len(text) {
					text[at] = c
				}
			default:
				if at < len(text) {
					text = append(text[:at:at], text[at+1:]...)
				}
			}
		}
		want := json.Valid(text)
		if got := scan(string(text)) == nil; got != want {
			t.Fatalf("%q: accepted %t, want %t", text, got, want)
		}
		first := strings.TrimLeft(string(text), " \t\r\n")
		if got := new(Document).Read(text, 64) == nil; got != (want && (first[0] == '{' || first[0] == '[')) {
			t.Fatalf("%q: is a document %t", text, got)
		}
		var compact bytes.Buffer
		wantErr := json.Compact(&compact, text)
		if got, err := AppendCompact([]byte("x"), text); (err == nil) != (wantErr == nil) ||
			string(got) != "x"+compact.String() {
			t.Fatalf("%q is compacted to %q, %v, want %q", text, got, err, &compact)
		}
		if want {
			valid++
			checkStrings(t, text)
		}
	}
	if valid < 10_000 {
		t.Errorf("only %d texts are JSON: the test compares too few", valid)
	}
}

// checkStrings compares the decoded text if it is a string.
func checkStrings(t *testing.T, text []byte) {
	t.Helper()
	text = []byte(strings.TrimSpace(string(text)))
	var want string
	if json.Unmarshal(text, &want) != nil || text[0] != '"' {
		return
	}
	if got := strings.ToValidUTF8(String(text), "\ufffd"); got != strings.ToValidUTF8(want, "\ufffd") {
		t.Fatalf("%q means %q, want %q", text, got, want)
	}
}

func TestScannerEnforcesLimits(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		strings.Repeat("[", Unverified.Depth) + strings.Repeat("]", Unverified.Depth):     true,
		strings.Repeat("[", Unverified.Depth+1) + strings.Repeat("]", Unverified.Depth+1): false,
		"[" + strings.Repeat("1,", Unverified.Values-2) + "1]":                            true,
		"[" + strings.Repeat("1,", Unverified.Values-1) + "1]":                            false,
		`{"a":` + strings.Repeat("[", 1<<20):                                              false,
	} {
		if err := scan(text); (err == nil) != ok {
			t.Errorf("%.20s of %d bytes: %v", text, len(text), err)
		}
	}
}
