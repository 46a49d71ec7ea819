package verify

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
)

// readFields parses every signature of a header.
func readFields(h http.Header) ([]signatureInput, error) {
	var f signatureFields
	err := f.read(h, "", maxLabels, Base64)
	return f.inputs, err
}

// refusedFields returns why a header has no signature at all.
func refusedFields(h http.Header) error {
	found, err := readFields(h)
	if err == nil && !slices.ContainsFunc(found, func(in signatureInput) bool { return in.refusal == nil }) {
		return found[0].refusal
	}
	return err
}

// readInput parses one Signature-Input with some signature.
func readInput(input string) (*signatureInput, error) {
	found, err := readFields(http.Header{"Signature-Input": {input}, "Signature": {"sig1=:AAAA:"}})
	if err != nil {
		return nil, err
	}
	return &found[0], asError(found[0].refusal)
}

// inputRefusals are invalid inputs: the list alone, or with a label the whole field.
var inputRefusals = []struct {
	name, list string
	code       Code
}{
	{"nothing covered", `()`, InsufficientCoverage},
	{"a token as identifier", `(method)`, SignatureMalformed},
	{"an empty name", `("")`, ComponentUnsupported},
	{"an upper-case name", `("Content-Type")`, ComponentUnsupported},
	{"a name with a space", `("content type")`, ComponentUnsupported},
	{"a name with a line feed", "(\"a\nb\")", SignatureMalformed},
	{"a name with an escape", `("a\"b")`, ComponentUnsupported},
	{"an unknown derived component", `("@foo")`, ComponentUnsupported},
	{"@status", `("@status")`, ComponentUnsupported},
	{"@request-target", `("@request-target")`, ComponentUnsupported},
	{"@signature-params", `("@signature-params")`, ComponentUnsupported},
	{"twice the same", `("@method" "@method")`, SignatureMalformed},
	{"twice the same in another order", `("a";sf;key="x" "a";key="x";sf)`, SignatureMalformed},
	{"an unknown parameter", `("content-type";zz)`, ComponentUnsupported},
	{"req", `("@method";req)`, ComponentUnsupported},
	{"tr", `("x";tr)`, ComponentUnsupported},
	{"bs with sf", `("x";bs;sf)`, ComponentUnsupported},
	{"sf with bs", `("x";sf;bs)`, ComponentUnsupported},
	{"bs with key", `("x";bs;key="a")`, ComponentUnsupported},
	{"sf on a derived component", `("@method";sf)`, ComponentUnsupported},
	{"name on a field", `("x";name="a")`, ComponentUnsupported},
	{"key on @query-param", `("@query-param";key="a")`, ComponentUnsupported},
	{"@query-param without a name", `("@query-param")`, SignatureMalformed},
	{"a flag that is false", `("x";sf=?0)`, SignatureMalformed},
	{"a flag in its long form", `("x";sf=?1)`, SignatureMalformed},
	{"a flag that is a number", `("x";bs=1)`, SignatureMalformed},
	{"a key that is a token", `("x";key=a)`, SignatureMalformed},
	{"a parameter twice", `("x";key="a";key="b")`, SignatureMalformed},
	{"a flag twice", `("x";sf;sf)`, SignatureMalformed},
	{"created twice", `sig1=("@method");created=1;created=2`, SignatureMalformed},
	{"created as a string", `sig1=("@method");created="1"`, TimestampMalformed},
	{"created as a decimal", `sig1=("@method");created=1.5`, TimestampMalformed},
	{"created before 1970", `sig1=("@method");created=-1`, TimestampMalformed},
	{"created with 16 digits", `sig1=("@method");created=1000000000000000`, SignatureMalformed},
	{"created with a leading zero", `sig1=("@method");created=01`, SignatureMalformed},
	{"expires as a flag", `sig1=("@method");created=1;expires`, TimestampMalformed},
	{"expires before created", `sig1=("@method");created=2;expires=1`, TokenExpired},
	{"keyid as a token", `sig1=("@method");keyid=k`, SignatureMalformed},
	{"nonce as bytes", `sig1=("@method");nonce=:AAAA:`, SignatureMalformed},
	{"alg as a token", `sig1=("@method");alg=ed25519`, SignatureMalformed},
	{"tag as a number", `sig1=("@method");tag=1`, SignatureMalformed},
	{"a date", `sig1=("@method");x=@1`, SignatureMalformed},
	{"an item", `sig1="@method"`, SignatureMalformed},
	{"a flag", `sig1`, SignatureMalformed},
	{"a trailing comma", `sig1=("@method"),`, SignatureMalformed},
	{"an invalid sibling", `sig1=("@method"), ((`, SignatureMalformed},
	{"the label twice", `sig1=("@method"), sig1=("@path")`, SignatureMalformed},
	{"another label", `sig2=("@method")`, SignatureMalformed},
	{"non-ASCII", "sig1=(\"@method\");tag=\"\xe4\"", SignatureMalformed},
	{"no parenthesis", `sig1=("@method"`, SignatureMalformed},
	{"a comma in the list", `sig1=("@method","@path")`, SignatureMalformed},
	{"33 components", "(" + expand(`{33 distinct}`) + ")", SignatureMalformed},
}

func TestSignatureInputIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	const params = `;created=1700000000;keyid="k"`
	for _, c := range inputRefusals {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			input := c.list
			if strings.HasPrefix(input, "(") {
				input = "sig1=" + input + params
			}
			_, err := readInput(input)
			wantCode(t, err, c.code)
		})
	}
}

func TestSignatureInputIsParsed(t *testing.T) {
	t.Parallel()
	in, err := readInput(`sig1=("@method"  "content-digest"; key="sha-256"` +
		` "@query-param";name="a%20b" "x";bs "y";sf);` +
		`created=1700000000; expires=1700000300;keyid="k\"1\\";` +
		`alg="ed25519";nonce="n";tag="t";ext;num=1.5;tok=a/b:c;raw=:AAA=:;no=?0`)
	if err != nil {
		t.Fatal(err)
	}
	if in.keyID != `k"1\` || in.alg != "ed25519" || in.nonce != "n" || in.tag != "t" || in.created != 1700000000 ||
		in.expires != 1700000300 {
		t.Errorf("%+v", in)
	}
	want := `("@method" "content-digest";key="sha-256" "@query-param";name="a%20b" "x";bs "y";sf)` +
		`;created=1700000000;expires=1700000300;keyid="k\"1\\";` +
		`alg="ed25519";nonce="n";tag="t";ext;num=1.5;tok=a/b:c;raw=:AAA=:;no=?0`
	if in.params != want {
		t.Errorf("parameters\n%s\nwant\n%s", in.params, want)
	}
	if len(in.components) != 5 || in.components[2].key != "a%20b" || !in.components[3].bs || !in.components[4].sf {
		t.Errorf("%+v", in.components)
	}
}

func TestSignatureInputLimits(t *testing.T) {
	t.Parallel()
	in, err := readInput("sig1=(" + expand(strings.Replace(`{33 distinct}`, "33", "32", 1)) + ")")
	if err != nil || len(in.components) != 32 {
		t.Errorf("32 components: %v", err)
	}
	h := http.Header{
		"Signature-Input": {`sig1=("@method");x="` + strings.Repeat("x", 4096) + `"`},
		"Signature":       {"sig1=:" + strings.Repeat("AAAA", 900) + ":"},
	}
	if _, err := readFields(h); err != nil {
		t.Errorf("under 8 KiB: %v", err)
	}
	h.Set("Signature", "sig1=:"+strings.Repeat("AAAA", 1100)+":")
	_, err = readFields(h)
	wantCode(t, err, SignatureMalformed)
}

func TestSignatureFieldsAcceptSeveralLines(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"Signature-Input": {`a=("@method");created=1`, `b=("@path");created=2`},
		"Signature":       {"b=:AAAA:", "a=:AAEC:"},
	}
	found, err := readFields(h)
	if err != nil || len(found) != 2 || found[0].signature != "a=:AAEC:" || found[1].signature != "b=:AAAA:" {
		t.Errorf("%+v, %v", found, err)
	}
	for _, h := range []http.Header{{}, {"Signature": {""}, "Signature-Input": {""}}} {
		_, err := readFields(h)
		wantCode(t, err, SignatureMissing)
	}
	for _, h := range []http.Header{
		{"Signature": {"a=:AAAA:"}},
		{"Signature-Input": {`a=("@method")`}},
		{"Signature-Input": {`a=("@method")`}, "Signature": {"b=:AAAA:"}},
		{"Signature-Input": {`a=("@method")`}, "Signature": {"a=:AAAA:, a=:AAAA:"}},
		{"Signature-Input": {`a=("@method")`, `a=("@path")`}, "Signature": {"a=:AAAA:"}},
		{"Signature-Input": {`a=("@method")`}, "Signature": {"a=:AAAA:, b=:AAAA:, b=:AAAA:"}},
		{"Signature-Input": {`a=("@method")`}, "Signature": {"a=:AAB=:"}}, // stray bits
		{"Signature-Input": {`a=("@method")`}, "Signature": {"a=:AB==:"}}, // stray bits
		{"Signature-Input": {`a=("@method")`}, "Signature": {"a=:AA=:"}},  // half of its padding
	} {
		wantCode(t, refusedFields(h), SignatureMalformed)
	}
}

// TestALabelInOneFieldRefusesNoOtherSignature, as RFC 9421 section 3.2 reads the chosen label only.
// It counts to the limits.
func TestALabelInOneFieldRefusesNoOtherSignature(t *testing.T) {
	t.Parallel()
	more := ""
	for i := range maxLabels {
		more += fmt.Sprintf(", x%d=:AAAA:", i)
	}
	for _, alone := range []struct{ input, signature string }{
		{`, b=("@path");created=1`, ""}, {"", ", b=:AAAA:"}, {`, b=("@path")`, ", c=:AAAA:"}, {"", ", b"}, {"", more},
	} {
		for _, label := range []string{"", "sig1"} {
			s := newScene(t)
			s.pair.sign(t, s.r, s.body)
			for field, text := range map[string]string{"Signature-Input": alone.input, "Signature": alone.signature} {
				s.r.Header.Set(field, s.r.Header.Get(field)+text)
			}
			s.scheme.Label = label
			if _, err := s.verify(); (err == nil) != (len(alone.signature) < 300) {
				t.Errorf("%.40q %.40q, label %q: %v", alone.input, alone.signature, label, err)
			}
		}
	}
}

// FuzzStructuredFields compares the scanner with httpsfv: both read an accepted text alike, and
// its canonical text is what httpsfv writes.
func FuzzStructuredFields(f *testing.F) {
	for _, seed := range []string{
		`sig1=("@method" "@target-uri" "content-digest");created=1700000000;keyid="k"`,
		`sig1=("@query-param";name="a" "x";sf;key="b" "y";bs);created=1;expires=2;nonce="n";alg="ed25519";tag="t"`,
		`a=("x");b=1.5;c=tok;d=:AAAA:;e;f=?0, b=:AAAA:;x=1`, `sig1=()`, `*a.b-c_d=( "x"  "y" ) ; z`, `a, b;c, d="\"\\"`,
		`a=-1,b=-1.25 ,	c=*x`, `a=999999999999999`, `a=1000000000000000`,
		`a=123456789012.123`, `a=?1`, `a=@1`, `a=%"x"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		members, ok := parseDictionary(nil, text, maxLabels)
		if !ok {
			return
		}
		dict, err := httpsfv.UnmarshalDictionary([]string{text})
		if err != nil {
			t.Fatalf("the scanner accepts %q: %v", text, err)
		}
		if len(members) != len(dict.Names()) {
			t.Fatalf("%q: %d members, want %d", text, len(members), len(dict.Names()))
		}
		for i, m := range members {
			other, _ := dict.Get(m.key)
			if dict.Names()[i] != m.key {
				t.Fatalf("%q: member %d is %q, want %q", text, i, m.key, dict.Names()[i])
			}
			list, isList := other.(httpsfv.InnerList)
			if isList != m.list {
				t.Fatalf("%q: member %q: list %v, want %v", text, m.key, m.list, isList)
			}
			if isList {
				compareList(t, text, m, list)
			} else {
				compareItem(t, text, m, other)
			}
		}
	})
}

func compareItem(t *testing.T, text string, m sfMember, other httpsfv.Member) {
	t.Helper()
	item, ok := other.(httpsfv.Item)
	if !ok {
		t.Fatalf("%q: %T", text, other)
	}
	switch v := item.Value.(type) {
	case string:
		if got, ok := m.item.str(); !ok || got != v {
			t.Fatalf("%q: %q, want %q", text, got, v)
		}
	case []byte:
		raw, err := base64.StdEncoding.Strict().DecodeString(strings.Trim(m.item.text, ":"))
		if m.item.kind != sfBytes || err != nil || !bytes.Equal(raw, v) {
			t.Fatalf("%q: %q (%v), want %q", text, raw, err, v)
		}
	default:
		kinds := map[reflect.Kind]sfKind{
			reflect.Int64: sfInteger, reflect.Float64: sfDecimal, reflect.String: sfToken, reflect.Bool: sfBoolean,
		}
		if want := kinds[reflect.TypeOf(v).Kind()]; m.item.kind != want {
			t.Fatalf("%q: kind %d, want %d", text, m.item.kind, want)
		}
	}
}

func compareList(t *testing.T, text string, m sfMember, list httpsfv.InnerList) {
	t.Helper()
	in, ok := parseInput(m.key + "=" + m.value)
	if !ok {
		t.Fatalf("%q: %q is not a list", text, m.value)
	}
	if in.refusal != nil {
		return
	}
	want, err := httpsfv.Marshal(list)
	if err != nil || in.params != want || canonical(m.value) != want {
		t.Fatalf("%q: canonical %q (%v), want %q", text, in.params, err, want)
	}
	if len(in.components) != len(list.Items) {
		t.Fatalf("%q: %d components, want %d", text, len(in.components), len(list.Items))
	}
	for i, c := range in.components {
		if id, err := httpsfv.Marshal(list.Items[i]); err != nil || c.id != id {
			t.Fatalf("%q: identifier %q, want %q", text, c.id, id)
		}
		if c.name != list.Items[i].Value {
			t.Fatalf("%q: component %q, want %v", text, c.name, list.Items[i].Value)
		}
	}
	if created, ok := list.Params.Get("created"); ok != in.hasCreated || ok && created != in.created {
		t.Fatalf("%q: created %d, want %v", text, in.created, created)
	}
	if keyID, ok := list.Params.Get("keyid"); ok != in.hasKeyID || ok && keyID != in.keyID {
		t.Fatalf("%q: keyid %q, want %v", text, in.keyID, keyID)
	}
}
