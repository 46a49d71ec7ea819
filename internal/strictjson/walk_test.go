package strictjson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestAt(t *testing.T) {
	t.Parallel()
	const text = ` {"a": {"b.c": [ 1 , "x\ud83d\ude00" , {"\u0064":null} ]}, "e": -0.5e1 , "":true, "a\\\"":"}"} `
	for path, want := range map[string]string{
		"a|b.c|0": "1", "a|b.c|1": `"x\ud83d\ude00"`, "a|b.c|2|d": "null", "e": "-0.5e1", "": "true", `a\"`: `"}"`,
		"a|b.c|3": "", "a|b.c|01": "", "a|b.c|-1": "", "a|b.c|x": "", "e|x": "", "b": "", "a|b": "",
	} {
		var doc Document
		if err := doc.Read([]byte(text), 4); err != nil {
			t.Fatal(err)
		}
		got, err := doc.At(strings.Split(path, "|"))
		if string(got) != want || (got == nil) != (want == "") || err != nil {
			t.Errorf("%q: got %q, %v, want %q", path, got, err, want)
		}
	}
}

func TestAtRefusesDuplicatesOnThePath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		`{"a":1,"a":1}`: ErrDuplicate, `{"a":1,"\u0061":2}`: ErrDuplicate, `{"a":1,"b":1,"b":2}`: nil,
		`{"a":1,"A":2}`: nil, "{\"a\":1,\"a\xff\":2}": nil, `{"a":1,"\ud800":2}`: nil,
	} {
		var doc Document
		if err := doc.Read([]byte(text), 1); err != nil {
			t.Fatal(err)
		}
		if got, err := doc.At([]string{"a"}); !errors.Is(err, want) || want == nil && string(got) != "1" {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
		if got, err := At([]byte(text), []string{"a"}); !errors.Is(err, want) || want == nil && string(got) != "1" {
			t.Errorf("%q searched: got %q, %v", text, got, err)
		}
	}
}

func TestADocumentIsAnObjectOrArray(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		`{}`: nil, " [] \n": nil, `[[[]]]`: nil, `[[[[]]]]`: ErrDepth, `[[[`: ErrSyntax,
		`[[{"a":1},[1]],[{},[]]]`: nil, // depth is not the number of objects and arrays
		`1`:                       ErrSyntax, `"a"`: ErrSyntax,
		``: ErrSyntax, ` `: ErrSyntax, `{} {}`: ErrSyntax, `{"a":1,}`: ErrSyntax, `[1 2]`: ErrSyntax,
		"\ufeff{}": ErrSyntax,
	} {
		if err := new(Document).Read([]byte(text), 3); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", text, err, want)
		}
	}
}

func TestScalarRefusesTextThatIsNotUnicode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"a\u0062\ud83d\ude00\n"`: "ab\U0001f600\n", `1.50`: "1.50", `true`: "true", `null`: "", `{}`: "", `[]`: "",
		`"\ud83d"`: "refused", `"\ude00\ud83d"`: "refused", `"\ud83dx"`: "refused", `"\ud83d\u0041"`: "refused",
		"\"\xff\"": "refused",
	} {
		got, err := Scalar([]byte(text))
		if errors.Is(err, ErrText) {
			got = "refused"
		} else if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestQuoteIsThatOfEncodingJSON(t *testing.T) {
	t.Parallel()
	for c := range 0x300 {
		for _, text := range []string{string(rune(c)), "a" + string([]byte{byte(c)}) + "b"} {
			want, err := json.Marshal(text)
			if got := Quote([]byte("x"), text); err != nil || string(got) != "x"+string(want) {
				t.Errorf("%q: %s, want %s, %v", text, got, want, err)
			}
		}
	}
}
