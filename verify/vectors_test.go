package verify

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/yaronf/httpsign"
)

const rfcVectors = "../testdata/vectors"

// vectorFolders are the folders with vectors: our own, and that of EYELET_VECTORS.
func vectorFolders() []string {
	folders := []string{rfcVectors}
	if extra := os.Getenv("EYELET_VECTORS"); extra != "" {
		if _, err := os.Stat(extra); err != nil && !filepath.IsAbs(extra) {
			extra = filepath.Join("..", extra) // relative to the root of the repository
		}
		folders = append(folders, extra)
	}
	return folders
}

// vectorFile is one shape of file; load adds its cases as subtests and returns their number.
type vectorShape struct {
	member string // the top-level member that identifies the shape
	load   func(t *testing.T, text []byte, keys vectorKeys) int
}

var vectorShapes = []vectorShape{
	{"cases", runAppendixB},
	{"sections", runSections},
	{"signature_input_cases", runInputCases},
	{"field_cases", runInputCases},
	{"agent_cases", runAgentCases},
}

// TestVectors runs every vector for RFC 9421. A folder without cases, a file of unknown shape
// and an unknown member are failures.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, folder := range vectorFolders() {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(folder, "rfc9421")
			_, err := os.Stat(dir)
			if _, perr := os.Stat(filepath.Join(folder, "producers")); err != nil &&
				perr == nil && folder != rfcVectors {
				t.Skip("the folder holds vectors of producers only")
			}
			keys := loadVectorKeys(t, dir)
			count := runJSONFiles(t, dir, keys) + runHTTPFiles(t, dir, keys)
			if count == 0 {
				t.Fatalf("%s has no cases", dir)
			}
		})
	}
}

func runJSONFiles(t *testing.T, dir string, keys vectorKeys) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			n := shapeOf(t, text).load(t, text, keys)
			if n == 0 {
				t.Errorf("%s has no cases", file)
			}
			total += n
		})
	}
	return total
}

func shapeOf(t *testing.T, text []byte) vectorShape {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	for _, shape := range vectorShapes {
		if _, ok := members[shape.member]; ok {
			return shape
		}
	}
	t.Fatal("the file is of no known shape")
	return vectorShape{}
}

// decodeStrict decodes JSON and refuses unknown members.
func decodeStrict(t *testing.T, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// appendixB is the shape of rfc9421-appendix-b.json.
type appendixB struct {
	Source, Note string
	Messages     map[string]struct {
		Start   string
		Headers [][2]string
		Body    string
	}
	Keys  map[string]vectorKey
	Cases []struct {
		ID, Kind, Message, Label, KeyID, Alg, Scheme string
		MessageText                                  string      `json:"message_text"`
		SignatureHeaders                             [][2]string `json:"signature_headers"`
		SignatureBase                                string      `json:"signature_base"`
		RFCCreated                                   int64       `json:"rfc_created"`
	}
}

type vectorKey struct {
	Alg         Alg
	PEM, Base64 string
	JWK         json.RawMessage
}

// vectorKeys are the keys of the vectors by id.
type vectorKeys map[string]Key

// loadVectorKeys reads the keys of the RFC and those of the folder.
func loadVectorKeys(t *testing.T, dir string) vectorKeys {
	t.Helper()
	keys := vectorKeys{}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append([]string{filepath.Join(rfcVectors, "rfc9421", "rfc9421-appendix-b.json")}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var f struct{ Keys map[string]vectorKey }
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for id, k := range f.Keys {
			keys[id] = k.key(t, id)
		}
	}
	return keys
}

// key builds the key from each of its forms, which must agree.
func (k vectorKey) key(t *testing.T, id string) Key {
	t.Helper()
	if k.Base64 != "" {
		secret, err := base64.StdEncoding.DecodeString(k.Base64)
		if err != nil {
			t.Fatal(err)
		}
		key, err := NewHMACKey(id, secret)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	public, _, found := strings.Cut(k.PEM, "-----BEGIN PRIVATE")
	if !found {
		public, _, _ = strings.Cut(k.PEM, "-----BEGIN RSA PRIVATE")
		public, _, _ = strings.Cut(public, "-----BEGIN EC PRIVATE")
	}
	key, err := ParsePublicKey(id, k.Alg, []byte(public))
	if err != nil {
		t.Fatal(err)
	}
	private, err := ParsePrivateKey([]byte(k.PEM))
	if err != nil {
		t.Fatal(err)
	}
	again, err := NewPublicKey(id, k.Alg, private.Public())
	if err != nil {
		t.Fatal(err)
	}
	if key.Fingerprint() != again.Fingerprint() {
		t.Errorf("key %s: the private key does not belong to the public one", id)
	}
	set, _, err := parseJWKS([]byte(`{"keys":[`+string(k.JWK)+`]}`), nil)
	if err != nil || len(set) != 1 {
		t.Fatalf("key %s: JWK: %d keys, %v", id, len(set), err)
	}
	if jk, ok := set[0].signatureKey(); !ok || jk.Fingerprint() != key.Fingerprint() {
		t.Errorf("key %s: the JWK is another key", id)
	}
	return key
}

func (keys vectorKeys) set() KeySet {
	var all []Key
	for _, k := range keys {
		all = append(all, k)
	}
	return StaticKeys(all...)
}

func runAppendixB(t *testing.T, text []byte, keys vectorKeys) int {
	t.Helper()
	var f appendixB
	decodeStrict(t, text, &f)
	for _, c := range f.Cases {
		t.Run(c.ID, func(t *testing.T) {
			message := c.MessageText
			if m, ok := f.Messages[c.Message]; ok {
				lines := []string{m.Start}
				for _, h := range append(m.Headers, c.SignatureHeaders...) {
					lines = append(lines, h[0]+": "+h[1])
				}
				message = strings.Join(lines, "\n") + "\n\n" + m.Body
			}
			v := newVectorMessage(t, c.ID, message)
			v.scheme = c.Scheme
			if (v.request == nil) != (c.Kind == "response") {
				t.Fatalf("kind %q does not fit the message", c.Kind)
			}
			if alg := keys[c.KeyID].Alg; alg != Alg(c.Alg) {
				t.Fatalf("the key's algorithm is %q, the case's %q", alg, c.Alg)
			}
			v.run(t, keys, nil, map[string]string{c.Label: c.SignatureBase})
		})
	}
	return len(f.Cases)
}

func runHTTPFiles(t *testing.T, dir string, keys vectorKeys) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "http", "*.http"))
	if err != nil {
		t.Fatal(err)
	}
	var requests []*vectorMessage // a response may sign its request too
	var all []*vectorMessage
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v := newVectorMessage(t, strings.TrimSuffix(filepath.Base(file), ".http"), string(text))
		if all = append(all, v); v.request != nil {
			requests = append(requests, v)
		}
	}
	for _, v := range all {
		t.Run(v.name, func(t *testing.T) { v.run(t, keys, requests, v.baseFiles(t, filepath.Join(dir, "http"))) })
	}
	return len(all)
}

// vectorMessage is a signed request or response.
type vectorMessage struct {
	name     string
	scheme   string
	request  *http.Request
	response *http.Response
	header   http.Header
	body     []byte
}

func newVectorMessage(t *testing.T, name, text string) *vectorMessage {
	t.Helper()
	head, body, _ := strings.Cut(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n")
	wire := strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body
	v := &vectorMessage{name: name, scheme: "https", body: []byte(body)}
	if strings.HasPrefix(head, "HTTP/") {
		r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(wire)), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v.response, v.header = r, r.Header
	} else {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(wire)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v.request, v.header = r, r.Header
	}
	return v
}

// baseFiles reads NAME.base, which fits any label, and NAME.LABEL.base.
func (v *vectorMessage) baseFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, v.name+"*.base"))
	if err != nil {
		t.Fatal(err)
	}
	bases := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		label, ok := strings.CutPrefix(strings.TrimSuffix(filepath.Base(file), ".base"), v.name)
		if ok && (label == "" || label[0] == '.') {
			bases[strings.TrimPrefix(label, ".")] = string(text)
		}
	}
	return bases
}

// run verifies every signature of the message.
func (v *vectorMessage) run(t *testing.T, keys vectorKeys, requests []*vectorMessage, bases map[string]string) {
	t.Helper()
	inputs, err := readFields(v.header)
	if err != nil {
		if v.header.Get("Signature") != "" || v.header.Get("Signature-Input") != "" || v.request == nil {
			t.Fatal(err)
		}
		_, err = withoutProfile(&RFC9421{Keys: keys.set()}).Verify(v.at(v.request.Host),
			bodyOf(string(v.body)))
		wantCode(t, err, SignatureMissing)
		return
	}
	for _, in := range inputs {
		base, ok := bases[in.label]
		if !ok && len(inputs) == 1 {
			base = bases[""]
		}
		if v.request == nil || strings.HasPrefix(in.member(), "()") || strings.Contains(in.member(), ";req") {
			v.runRefused(t, in, keys, requests, base)
		} else {
			v.runAccepted(t, in, keys, base)
		}
	}
}

// at returns the request as sent to this authority.
func (v *vectorMessage) at(authority string) *http.Request {
	r := v.request.Clone(v.request.Context())
	r.URL.Scheme, r.URL.Host = v.scheme, authority
	r.Body = io.NopCloser(bytes.NewReader(v.body))
	return r
}

// withoutProfile returns a scheme whose signatures must only cover what Coverage lists, as in the
// examples of RFC 9421.
func withoutProfile(s *RFC9421) *RFC9421 {
	if s.Check() == nil {
		s.rules = s.rules[len(s.Coverage.Pinned.rules()):]
	}
	return s
}

// runAccepted verifies a signature that the parser accepts. Behind a proxy it may be valid only
// for the authority with which the proxy was called.
func (v *vectorMessage) runAccepted(t *testing.T, in signatureInput, keys vectorKeys, wantBase string) {
	t.Helper()
	scheme := withoutProfile(&RFC9421{
		Keys: keys.set(), Label: in.label, Algs: append([]Alg{RSAv15SHA256}, defaultAlgs...),
	})
	authority := v.request.Host
	id, err := scheme.Verify(v.at(authority), bodyOf(string(v.body)))
	_, forwarded, proxied := strings.Cut(v.header.Get("Forwarded"), "host=")
	if err != nil && proxied {
		wantCode(t, err, SignatureMismatch)
		authority, _, _ = strings.Cut(forwarded, ";")
		id, err = scheme.Verify(v.at(authority), bodyOf(string(v.body)))
	}
	if err != nil {
		t.Fatalf("%s: %v", in.label, err)
	}
	if id.Label != in.label || id.SignedAt.IsZero() || id.KeyID == "" {
		t.Errorf("identity %+v", id)
	}
	if in.refusal != nil {
		t.Fatal(in.refusal)
	}
	m, merr := newMessage(v.at(authority))
	if merr != nil {
		t.Fatal(merr)
	}
	ours, berr := m.base(nil, &in)
	if berr != nil {
		t.Fatal(berr)
	}
	theirs, terr := engineBase(in.label, signedRequest(&m, &in), nil, nil)
	if terr != nil {
		t.Fatal(terr)
	}
	if string(ours) != theirs {
		t.Errorf("our base:\n%s\nthe engine's:\n%s", ours, theirs)
	}
	if wantBase != "" && string(ours) != wantBase {
		t.Errorf("base:\n%s\nwant:\n%s", ours, wantBase)
	}
}

// runRefused checks that we refuse what the standard allows but receivers of requests must not
// accept, and that the signature is over the engine's base.
func (v *vectorMessage) runRefused(
	t *testing.T, in signatureInput, keys vectorKeys, requests []*vectorMessage, wantBase string,
) {
	t.Helper()
	code := ComponentUnsupported
	if strings.HasPrefix(in.member(), "()") {
		code = InsufficientCoverage
	}
	r := newDelivery(t, string(v.body))
	if v.request != nil {
		r = v.at(v.request.Host)
	}
	r.Header = v.header
	scheme := withoutProfile(&RFC9421{Keys: keys.set(), Label: in.label})
	_, err := scheme.Verify(r, bodyOf(string(v.body)))
	wantCode(t, err, code)

	verified := fmt.Errorf("no request to verify the response with")
	for _, q := range append([]*vectorMessage{nil}, requests...) {
		key := keys[between(in.member(), `keyid="`, `"`)]
		if key.material == nil {
			t.Fatal("the key is unknown")
		}
		var request *http.Request
		if v.request != nil {
			request = v.at(v.request.Host)
		} else if q != nil {
			request = q.at(q.request.Host)
		}
		base, err := engineBase(in.label, request, v.response, request)
		if err != nil {
			verified = err
			continue
		}
		if !key.material.check([]byte(base), in.octets(nil)) {
			continue
		}
		if wantBase != "" && base != wantBase {
			t.Errorf("base:\n%s\nwant:\n%s", base, wantBase)
		}
		return
	}
	t.Errorf("the engine's base does not verify %s: %v", in.label, verified)
}

func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}

// baseCatcher is a signature algorithm that passes the signature base to its key, a func, and
// accepts nothing.
type baseCatcher struct{}

func (baseCatcher) Verify(key any, payload, _ []byte) error {
	take, ok := key.(func(string))
	if !ok {
		return errors.New("the key is not a func")
	}
	take(string(payload))
	return nil
}

var registerCatcher = sync.OnceValues(func() (jwa.SignatureAlgorithm, error) {
	alg := jwa.NewSignatureAlgorithm("eyelet-test-base")
	return alg, jws.RegisterVerifier(alg, baseCatcher{})
})

// engineBase returns the engine's signature base of a request or, if not nil, of a response.
func engineBase(label string, request *http.Request, response *http.Response, to *http.Request) (string, error) {
	alg, err := registerCatcher()
	if err != nil {
		return "", err
	}
	var base string
	v, err := httpsign.NewJWSVerifierV3(alg, func(b string) { base = b }, engineConfig(), httpsign.Headers())
	if err != nil {
		return "", err
	}
	if response != nil {
		err = httpsign.VerifyResponse(label, *v, response, to)
	} else {
		err = httpsign.VerifyRequest(label, *v, request)
	}
	return base, err
}
