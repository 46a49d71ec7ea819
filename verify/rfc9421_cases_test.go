package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
)

// inputCases is the shape of gate-cases.json.
type inputCases struct {
	Note                string
	SignatureInputCases []struct {
		Name, Verdict, Why string
		SignatureInput     string `json:"signature_input"`
		Code               []Code
	} `json:"signature_input_cases"`
	FieldCases []struct {
		Name, Verdict, Why, Required string
		Request                      struct {
			Method, URL, Body string
			Headers           [][2]string
		}
		Signed [][2]string
		Code   []Code
	} `json:"field_cases"`
}

var inputSecret = []byte("a secret of the gate cases, 32 by")

func runInputCases(t *testing.T, text []byte, _ vectorKeys) int {
	t.Helper()
	var f inputCases
	decodeStrict(t, text, &f)
	for _, c := range f.SignatureInputCases {
		t.Run("input/"+c.Name, func(t *testing.T) {
			input := expand(c.SignatureInput)
			r, body := inputRequest(t, input)
			signByHand(t, r, input)
			for _, label := range []string{"", "sig1"} {
				scheme := inputScheme(t, Coverage{Required: listedNames(input)})
				scheme.Label = label
				scheme = withoutProfile(scheme)
				checkVerdict(t, scheme, r, body, c.Verdict, c.Code)
			}
		})
	}
	for _, c := range f.FieldCases {
		t.Run("field/"+c.Name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), c.Request.Method,
				c.Request.URL, strings.NewReader(c.Request.Body))
			if err != nil {
				t.Fatal(err)
			}
			r.RequestURI = r.URL.RequestURI()
			for _, h := range c.Request.Headers {
				if strings.EqualFold(h[0], "host") {
					r.Host = h[1]
				}
				r.Header.Add(h[0], h[1])
			}
			r.Header.Del("Host")
			names, input := fieldInput(c.Signed)
			r.Header.Set("Signature-Input", "sig1="+input)
			r.Header.Set("Signature", "sig1="+handSignature(handBase(c.Signed, names, input)))
			scheme := inputScheme(t, Coverage{})
			switch c.Required {
			case "default":
			case "listed":
				scheme.Coverage.Required = listedNames("sig1=" + input)
				scheme = withoutProfile(scheme)
			default:
				t.Fatalf("required %q is not known", c.Required)
			}
			checkVerdict(t, scheme, r, c.Request.Body, c.Verdict, c.Code)
		})
	}
	return len(f.SignatureInputCases) + len(f.FieldCases)
}

func inputScheme(t *testing.T, c Coverage) *RFC9421 {
	t.Helper()
	key, err := NewHMACKey("k", inputSecret)
	if err != nil {
		t.Fatal(err)
	}
	return &RFC9421{Keys: StaticKeys(key), Coverage: c}
}

// checkVerdict verifies the request and checks its times.
func checkVerdict(t *testing.T, s *RFC9421, r *http.Request, body, verdict string, codes []Code) {
	t.Helper()
	id, err := s.Verify(r, bodyOf(body))
	if err == nil {
		err = Tolerance{}.Check(id, testNow)
	}
	switch verdict {
	case "accept":
		if err != nil {
			t.Errorf("label %q: %v", s.Label, err)
		}
	case "refuse":
		wantCode(t, err, codes...)
	default:
		t.Errorf("verdict %q is not known", verdict)
	}
}

var placeholder = regexp.MustCompile(`\{(NOW([+-]\d+)?|(\d+) distinct)\}`)

// expand fills in the placeholders of a signature input.
func expand(s string) string {
	return placeholder.ReplaceAllStringFunc(s, func(m string) string {
		sub := placeholder.FindStringSubmatch(m)
		if n, err := strconv.Atoi(sub[3]); err == nil {
			var names []string
			for i := range n {
				names = append(names, fmt.Sprintf(`"x-field-%d"`, i))
			}
			return strings.Join(names, " ")
		}
		shift, _ := strconv.Atoi(strings.TrimPrefix(sub[2], "+"))
		return strconv.FormatInt(testNow.Unix()+int64(shift), 10)
	})
}

var quoted = regexp.MustCompile(`"([^"]*)"`)

// listedNames returns the components of the first list that can be required, at least one. A
// part of a field cannot, except that of a digest.
func listedNames(input string) []string {
	var names []string
	for _, item := range listedItems(input, 1) {
		name, _ := item.Value.(string)
		_, sf := item.Params.Get("sf")
		_, key := item.Params.Get("key")
		if checkName(name) == nil && name != "@query-param" &&
			(!sf && !key || name == "content-digest") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if names != nil {
		return names
	}
	for _, m := range quoted.FindAllStringSubmatch(between(input, "(", ")"), -1) {
		if checkName(m[1]) == nil && m[1] != "@query-param" && !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	if names == nil {
		return []string{"@method"}
	}
	return names
}

// listedItems returns the components of the first lists that httpsfv can read.
func listedItems(input string, lists int) []httpsfv.Item {
	dict, err := httpsfv.UnmarshalDictionary([]string{input})
	if err != nil {
		return nil
	}
	var items []httpsfv.Item
	for i, label := range dict.Names() {
		member, _ := dict.Get(label)
		if list, ok := member.(httpsfv.InnerList); ok && i < lists {
			items = append(items, list.Items...)
		}
	}
	return items
}

// addParts adds the parts that component parameters name: a member of a dictionary, a query
// parameter.
func addParts(r *http.Request, input string) {
	for _, item := range listedItems(input, maxLabels) {
		name, _ := item.Value.(string)
		key, _ := item.Params.Get("key")
		param, _ := item.Params.Get("name")
		if member, ok := key.(string); ok && name != "content-digest" && checkName(name) == nil {
			r.Header.Set(name, member+"=1, other=2")
		}
		if part, ok := param.(string); ok && name == "@query-param" &&
			!strings.Contains("&"+r.URL.RawQuery, "&"+part+"=") {
			r.URL.RawQuery += "&" + part + "=v"
		}
	}
	r.RequestURI = r.URL.RequestURI()
}

// inputRequest returns a POST with every field that the input names.
func inputRequest(t *testing.T, input string) (*http.Request, string) {
	t.Helper()
	body := ""
	if strings.Contains(input, `"content-digest"`) {
		body = testBody
	}
	r := newDelivery(t, body)
	r.Header = http.Header{}
	for _, m := range quoted.FindAllStringSubmatch(input, -1) {
		switch name := strings.ToLower(m[1]); {
		case name == "" || name[0] == '@' || checkName(name) != nil:
		case name == "content-digest":
			sum := sha256.Sum256([]byte(body))
			r.Header.Set(name, "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
		case name == "content-type":
			r.Header.Set(name, "application/json")
		case name == "idempotency-key":
			r.Header.Set(name, `"k-1"`)
		case name != "k" && name != "none":
			r.Header.Set(name, "v")
		}
	}
	addParts(r, input)
	return r, body
}

// signByHand signs every label of the input over the base of the oracle, from httpsfv's reading of
// the list. If either cannot read it, any signature will do.
func signByHand(t *testing.T, r *http.Request, input string) {
	t.Helper()
	r.Header.Set("Signature-Input", input)
	dict, err := httpsfv.UnmarshalDictionary([]string{input})
	if err != nil {
		r.Header.Set("Signature", "sig1=:AAAA:")
		return
	}
	o := oracleRequest{method: r.Method, scheme: r.URL.Scheme, host: r.URL.Host, target: r.RequestURI}
	for name, lines := range r.Header {
		o.fields = append(o.fields, [2]string{name, lines[0]})
	}
	var members []string
	for _, label := range dict.Names() {
		member, _ := dict.Get(label)
		signature := ":AAAA:"
		if list, ok := member.(httpsfv.InnerList); ok {
			params, marshalled := httpsfv.Marshal(list)
			components, known := oracleComponents(list)
			if base, err := o.base(components, params); known && marshalled == nil && err == nil {
				signature = handSignature(base)
			}
		}
		members = append(members, label+"="+signature)
	}
	r.Header.Set("Signature", strings.Join(members, ", "))
}

func handSignature(base string) string {
	mac := hmac.New(sha256.New, inputSecret)
	mac.Write([]byte(base))
	return ":" + base64.StdEncoding.EncodeToString(mac.Sum(nil)) + ":"
}

// fieldInput returns the list and parameters of a field case. A name may have parameters.
func fieldInput(signed [][2]string) (names []string, input string) {
	for _, s := range signed {
		name, params, _ := strings.Cut(strings.ReplaceAll(s[0], `"`, "\x00"), ";")
		id := `"` + strings.Trim(name, "\x00") + `"`
		if params != "" {
			id += ";" + strings.ReplaceAll(params, "\x00", `"`)
		}
		names = append(names, id)
	}
	return names, fmt.Sprintf(`(%s);created=%d;keyid="k"`, strings.Join(names, " "), testNow.Unix())
}

func handBase(signed [][2]string, names []string, input string) string {
	var b strings.Builder
	for i, s := range signed {
		b.WriteString(names[i] + ": " + s[1] + "\n")
	}
	return b.String() + `"@signature-params": ` + input
}
