package interop_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
)

// TestCanonicalAgreesWithALibrary compares the canonical forms of random texts with those of
// jsontext.
func TestCanonicalAgreesWithALibrary(t *testing.T) {
	t.Parallel()
	const seed = 8785
	random := rand.New(rand.NewPCG(seed, 0))
	names := []string{"a", "b", "aa", `\u20ac`, `\uffff`, `\ud83d\ude00`,
		`\u0000`, `a\u0000`, `\"`, "€", "\ue000", "\U0001F600", `\\`, `\n`,
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", "", "é", "\ufb33", `\/`, `\u001f`,
		"1", "10", "a\ue000", "a\U0001F600", "aaaaaaaa\ue000", "aaaaaaaa\U0001F600"}
	var write func(depth int) string
	number := func() string {
		return []string{
			fmt.Sprint(random.IntN(100)), fmt.Sprint(random.NormFloat64()),
			fmt.Sprint(random.ExpFloat64() * 1e-7), fmt.Sprint(random.Uint64() >> 10),
			strconv.FormatFloat(random.Float64()*1e-5, 'f', -1, 64),
			fmt.Sprintf("%d.%d", random.IntN(3), random.IntN(2_000)),
			fmt.Sprintf("%de-%d", random.IntN(30), random.IntN(20)),
			strconv.FormatFloat(random.Float64(), 'g', 17, 64), "5e-324", "1e-7", "0.000001",
			fmt.Sprintf("0.%0*d", random.IntN(18), random.IntN(1_000)),
			"2.2250738585072014e-308", "1e-300", "-0", "-1", "1E-7", "1e21",
		}[random.IntN(18)]
	}
	write = func(depth int) string {
		switch k := random.IntN(6); {
		case k == 0 && depth > 0:
			items := make([]string, random.IntN(4))
			for i := range items {
				items[i] = write(depth - 1)
			}
			return "[ " + strings.Join(items, " ,") + "]"
		case k <= 2 && depth > 0:
			members := make([]string, random.IntN(6))
			for i := range members {
				members[i] = `"` + names[random.IntN(len(names))] + `" :` + write(depth-1)
			}
			return "{" + strings.Join(members, ",") + "}"
		case k == 3:
			return `"` + names[random.IntN(len(names))] + `\t\u000a\u20AC"`
		case k == 4:
			return []string{"true", "null", "false"}[random.IntN(3)]
		}
		return number()
	}
	accepted := 0
	for range 20_000 {
		body := []byte(`{"x":` + write(4) + `}`)
		got, err := strictjson.Canonical(body)
		want, wantErr := referenceCanonicalJSON(body)
		if (err == nil) != (wantErr == nil) || string(got) != string(want) {
			t.Fatalf("%s:\ngot  %s, %v\nwant %s, %v", body, got, err, want, wantErr)
		}
		if err == nil {
			accepted++
		}
	}
	if accepted < 4_000 {
		t.Errorf("only %d texts are accepted: the test compares too few", accepted)
	}
}

// referenceCanonicalJSON is strictjson.Canonical, made of the library and encoding/json.
func referenceCanonicalJSON(body []byte) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("json: not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	first, err := dec.Token()
	if err != nil || first != json.Delim('{') {
		return nil, errors.New("json: not an object")
	}
	if err := referenceMembers(dec, 1); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("json: more than one value")
	}
	out := jsontext.Value(bytes.Clone(body))
	err = out.Canonicalize()
	return out, err
}

// referenceMembers reads the rest of an object.
func referenceMembers(dec *json.Decoder, depth int) error {
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return errors.New("json: malformed")
		}
		key, _ := name.(string)
		if seen[key] {
			return errors.New("json: a member occurs twice")
		}
		seen[key] = true
		if err := referenceValue(dec, depth); err != nil {
			return err
		}
	}
	return referenceClosing(dec)
}

func referenceValue(dec *json.Decoder, depth int) error {
	tok, err := dec.Token()
	if err != nil {
		return errors.New("json: malformed")
	}
	switch v := tok.(type) {
	case json.Number:
		return referenceNumber(v)
	case json.Delim:
		if depth == 64 {
			return errors.New("json: nested too deep")
		}
		if v == '{' {
			return referenceMembers(dec, depth+1)
		}
		for dec.More() {
			if err := referenceValue(dec, depth+1); err != nil {
				return err
			}
		}
		return referenceClosing(dec)
	}
	return nil
}

func referenceClosing(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return errors.New("json: malformed")
	}
	return nil
}

// referenceNumber refuses a number that an ECMAScript program would change.
func referenceNumber(n json.Number) error {
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil || math.Abs(f) >= 1<<53 {
		return errors.New("json: a number beyond 2^53")
	}
	text := jsontext.Value(n.String())
	if err := text.Canonicalize(); err != nil || string(text) != n.String() {
		return errors.New("json: a number not written as in ECMAScript")
	}
	return nil
}
