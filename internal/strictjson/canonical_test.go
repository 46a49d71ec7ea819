package strictjson

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"b":2,"a":1}`: `{"a":1,"b":2}`,
		" {\"a\" : [ true, null, \"\\u0041\" ] }\n": `{"a":[true,null,"A"]}`,
		`{"n":-0.5,"m":1e+21}`:                      "",
		`{"n":0.1,"i":9007199254740991}`:            `{"i":9007199254740991,"n":0.1}`,
		"{\"\ue000\":1,\"\uffff\":2,\"\U0001F600\":3,\"\u00e9\":4}": "{" + // in the order of UTF-16
			"\"\u00e9\":4,\"\U0001F600\":3,\"\ue000\":1,\"\uffff\":2}",
		`{"i":9007199254740992}`: "", `{"i":-9007199254740993}`: "",
		`{"i":12345678901234567890}`: "", `{"i":1e400}`: "",
		`{"n":1.0}`: "", `{"n":1E2}`: "", `{"n":-0}`: "", `{"n":0.10}`: "",
		`{"a":1,"a":1}`: "", `{"a":{"b":1,"b":2}}`: "", `{"a":[{"b":1,"\u0062":2}]}`: "",
		`[]`: "", `"x"`: "", ``: "", `{`: "", `{"a":1`: "", `{"a"}`: "",
		`{"a":1}{}`: "", `{"a":1}x`: "", "{\"a\":\"\xff\"}": "",
		strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65): "",
	} {
		got, err := Canonical([]byte(in))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%.60s: got %s, %v", in, got, err)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":2,"a":[1,{"c":"\u20ac"}]}`, `{"a":1,"a":2}`, `{"n":1e-7}`, `{"a":"\ud800"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		out, err := Canonical([]byte(body))
		if err != nil {
			return
		}
		again, err := Canonical(out)
		if err != nil || string(again) != string(out) {
			t.Fatalf("%q: the canonical form of %q is %q, %v", body, out, again, err)
		}
		var a, b any
		if json.Unmarshal([]byte(body), &a) != nil || json.Unmarshal(out, &b) != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%q and its canonical form %q differ", body, out)
		}
	})
}
