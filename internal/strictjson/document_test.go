package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// documents are texts that a validator may get wrong: strings of all lengths, with what they may
// not hold at every place.
func documents() []string {
	texts := []string{
		`{}`, `[]`, ` {"a": 1, "b": [true, null, "x"]} `, `{"a":1,"a":2}`, `{"\u0061":"\u00e9\ud83d\ude00\/"}`,
		`[0,-0,1.5,-1e5,1E+5,2.5e-10,01,1.,.5,1e]`, `{"a":{"b":{"c":"d"}}}`, `{"a":1,}`, `[1,]`, `{,}`, `{"a" 1}`,
		`{"a":tru}`, `[nulll]`, "{\"a\":\"\xff\"}", "{\"\xff\":1}", `{} {}`, `1`, `"x"`, ``, " \t\r\n", "{\"a\":\v1}",
		strings.Repeat("[", 256) + strings.Repeat("]", 256), strings.Repeat("[", 257) + strings.Repeat("]", 257),
		strings.Repeat(`{"a":`, 300), `{"a":"` + strings.Repeat(`\"`, 20) + `"}`,
	}
	many := make([]string, 2*indexed)
	for i := range many {
		many[i] = fmt.Sprintf(`"m%d":%d`, i, i)
	}
	for _, n := range []int{indexed - 1, indexed, indexed + 1, 2 * indexed} {
		texts = append(texts, "{"+strings.Join(many[:n], ", ")+"}")
	}
	for _, special := range []string{
		"", `"`, `\`, `\"`, `\u12`, `\u12ab`, `\x`, "\x00", "\x1f", "\x20", "\x7f", "\x80", "\xa2", "\xdc",
	} {
		for n := range 18 {
			texts = append(texts, `["`+strings.Repeat("x", n)+special+strings.Repeat("y", 17-n)+`"]`)
		}
	}
	return texts
}

// checkDocument compares a document with what encoding/json reads.
func checkDocument(t *testing.T, text []byte) {
	t.Helper()
	const depth = 256
	var doc Document
	err := doc.Read(text, depth)
	scanner := NewScanner(text, Limits{Depth: depth})
	_, scanned := scanner.Value()
	if errors.Is(err, ErrDepth) || errors.Is(scanned, ErrDepth) {
		if !errors.Is(scanned, err) {
			t.Fatalf("%.200q: %v, and the scanner %v", text, err, scanned)
		}
		return
	}
	trimmed := bytes.Trim(text, " \t\r\n")
	want := json.Valid(text) && (trimmed[0] == '{' || trimmed[0] == '[')
	if (err == nil) != want || want && !bytes.Equal(doc.Text, trimmed) {
		t.Fatalf("%.200q: got %.200q, %v, want %t", text, doc.Text, err, want)
	}
	var members map[string]json.RawMessage
	if !want || json.Unmarshal(text, &members) != nil {
		return
	}
	for name, value := range members {
		got, err := doc.At([]string{name})
		slow, slowErr := At(doc.Text, []string{name})
		if !bytes.Equal(got, slow) || !errors.Is(err, slowErr) {
			t.Fatalf("%.200q: %q is %s, %v, and searched %s, %v", text, name, got, err, slow, slowErr)
		}
		if err == nil && !bytes.Equal(got, value) && !strings.ContainsRune(name, utf8.RuneError) {
			t.Fatalf("%.200q: %q is %s, want %s", text, name, got, value)
		}
	}
}

func TestADocumentIsWhatEncodingJSONReads(t *testing.T) {
	t.Parallel()
	for _, text := range documents() {
		checkDocument(t, []byte(text))
	}
}

func FuzzDocument(f *testing.F) {
	for i, text := range documents() {
		if i < 40 || i%20 == 0 {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(checkDocument)
}

func TestReadingADocumentAllocatesNothing(t *testing.T) {
	text := []byte(`{"action":"opened","number":1,"repository":{"id":1,"name":"x\u00e9"},"list":[1,2,[3]]}`)
	path := []string{"action"}
	allocations := testing.AllocsPerRun(100, func() {
		var doc Document
		if err := doc.Read(text, 256); err != nil {
			t.Fatal(err)
		}
		if raw, err := doc.At(path); err != nil || raw == nil {
			t.Fatal(raw, err)
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// BenchmarkDocument compares reading a document and one of its members with json.Valid, for a
// small body and one like those of GitHub.
func BenchmarkDocument(b *testing.B) {
	item := `{"id":12345678,"url":"https://api.example.com/users/octocat/repos{/owner}{/repo}","admin":false,"n":null},`
	for name, body := range map[string]string{
		"1KiB":  `{"action":"opened","id":123456,"text":"` + strings.Repeat("lorem ipsum ", 75) + `","list":[1,2.5]}`,
		"20KiB": `{"action":"opened","items":[` + strings.Repeat(item, 180) + `{}],"sender":{"login":"octocat"}}`,
	} {
		text := []byte(body)
		b.Run(name+"/encoding_json", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for range b.N {
				if !json.Valid(text) {
					b.Fatal("not valid")
				}
			}
		})
		b.Run(name+"/document", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for range b.N {
				var doc Document
				if err := doc.Read(text, 256); err != nil {
					b.Fatal(err)
				}
				if raw, err := doc.At([]string{"action"}); raw == nil || err != nil {
					b.Fatal(raw, err)
				}
			}
		})
	}
}
