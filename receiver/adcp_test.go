package receiver_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// adCPKey signs samples of AdCP.
var adCPKey = ed25519.NewKeyFromSeed([]byte("thirty-two octets of a test's key"[:32]))

// pawaPayKey signs samples of pawaPay, activityKey those of ActivityPub.
var (
	pawaPayKey, _  = verify.GenerateKey(verify.ECDSAP256SHA256)
	activityKey, _ = rsa.GenerateKey(rand.Reader, 2048)
)

// ofServer is the key of a server of Open Cloud Mesh.
func ofServer() verify.Key {
	key := adCPPublic()
	key.Principal = "https://cloud.example/.well-known/jwks.json"
	return key
}

func adCPPublic() verify.Key {
	public, _ := adCPKey.Public().(ed25519.PublicKey)
	key, err := verify.NewPublicKey("k1", verify.Ed25519, public)
	if err != nil {
		panic(err)
	}
	return key
}

// adCPVector is a published vector, in the form of our other vectors.
type adCPVector struct {
	Name, Note, Method, URL, Body string
	Headers                       map[string]string
	Keys                          struct{ JWKS json.RawMessage }
	Now                           int64
	Private                       string // of the key, for deliveries before this one
	// State is what the receiver knows before, as the vector names it.
	State struct {
		Replayed []struct{ Nonce string } `json:"replay_cache_entries"`
		Revoked  []string                 `json:"revoked_kids"`
		Filled   string                   `json:"per_keyid_cap_filled_for"`
		Stale    int                      `json:"revocation_list_stale_seconds"`
	}
}

// adCPCodes are our responses for the codes of AdCP. Which key of a sender is not accepted, and
// why, is for the log alone.
var adCPCodes = map[string]struct {
	status int
	codes  []string
}{
	"":                                    {http.StatusOK, []string{""}},
	"webhook_signature_header_malformed":  {http.StatusUnauthorized, []string{"signature_malformed"}},
	"webhook_signature_params_incomplete": {http.StatusUnauthorized, []string{"insufficient_coverage"}},
	"webhook_signature_tag_invalid":       {http.StatusUnauthorized, []string{"insufficient_coverage"}},
	"webhook_signature_alg_not_allowed":   {http.StatusUnauthorized, []string{"signature_invalid"}},
	"webhook_signature_window_invalid":    {http.StatusUnauthorized, []string{"token_expired"}},
	"webhook_signature_components_incomplete": {
		http.StatusUnauthorized, []string{"insufficient_coverage", "digest_missing"},
	},
	"webhook_signature_key_unknown":         {http.StatusUnauthorized, []string{"signature_invalid"}},
	"webhook_signature_key_purpose_invalid": {http.StatusUnauthorized, []string{"signature_invalid"}},
	"webhook_signature_key_revoked":         {http.StatusUnauthorized, []string{"signature_invalid"}},
	"webhook_signature_revocation_stale":    {http.StatusServiceUnavailable, []string{"keys_unavailable"}},
	"webhook_signature_rate_abuse":          {http.StatusTooManyRequests, []string{"rate_limited"}},
	"webhook_signature_invalid":             {http.StatusUnauthorized, []string{"signature_invalid"}},
	"webhook_signature_digest_mismatch":     {http.StatusUnauthorized, []string{"digest_mismatch"}},
	"webhook_signature_replayed":            {http.StatusUnauthorized, []string{"nonce_reused"}},
}

func adCPVectors(t *testing.T) (all []adCPVector) {
	t.Helper()
	for _, file := range []string{"producers/adcp.json", "adcp/stateful.json"} {
		raw, err := os.ReadFile(filepath.Join("..", "testdata", "vectors", file))
		if err != nil {
			t.Fatal(err)
		}
		var some []adCPVector
		if err := json.Unmarshal(raw, &some); err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}

// TestVectorsOfAdCP: each of the 29 gets the response of our table, by HTTP.
func TestVectorsOfAdCP(t *testing.T) {
	t.Parallel()
	all := adCPVectors(t)
	if len(all) != 29 {
		t.Errorf("%d vectors", len(all))
	}
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			want, known := adCPCodes[v.Note]
			if !known {
				t.Fatalf("the code %q has no row", v.Note)
			}
			rx := v.receiver(t, 1)
			v.prepare(t, rx)
			w := answerAt(rx, v.request())
			var problem struct{ Code string }
			if w.Code != http.StatusOK {
				if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
					t.Fatal(err)
				}
			}
			if w.Code != want.status || !slices.Contains(want.codes, problem.Code) {
				t.Errorf("got %d %q, want %d %q", w.Code, problem.Code, want.status, want.codes)
			}
		})
	}
}

// receiver returns a receiver that knows the keys of the vector, at its time. Where the vector is
// about it, a key has so many nonces.
func (v *adCPVector) receiver(t *testing.T, nonces int) *receiver.Receiver {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := v.Keys.JWKS
		if r.URL.Path == "/revoked" {
			text = v.revoked(t, "http://"+r.Host)
		}
		w.Write(text) //nolint:errcheck // the client sees it
	}))
	t.Cleanup(server.Close)
	s := preset.Settings{JWKSURL: server.URL}
	if v.Private != "" {
		s.RevokedURL = server.URL + "/revoked"
	}
	p := openPreset(t, "adcp", s)
	if v.State.Filled != "" {
		p.NonceRate = producer.Rate{Events: nonces, Per: time.Hour}
	}
	store := memstore.New(memstore.Options{})
	rx, err := receiver.Open(receiver.Config{
		Store: store, Producers: []producer.Producer{p}, URL: "https://buyer.example.com",
		Clock: func() time.Time { return time.Unix(v.Now, 0) }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if rx.Close() != nil || store.Close() != nil {
			t.Error("close")
		}
	})
	return rx
}

// revoked is the list of revoked keys that the seller publishes, signed without our own signer.
func (v *adCPVector) revoked(t *testing.T, issuer string) []byte {
	t.Helper()
	var set struct{ Keys []struct{ Kid string } }
	if err := json.Unmarshal(v.Keys.JWKS, &set); err != nil {
		t.Error(err)
	}
	updated := time.Now().Add(-time.Duration(v.State.Stale) * time.Second)
	list, err := json.Marshal(map[string]any{"version": 1, "issuer": issuer, "updated": updated,
		"next_update": updated.Add(15 * time.Minute), "revoked_kids": v.State.Revoked})
	if err != nil {
		t.Error(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	head := encode(fmt.Appendf(nil, `{"alg":"EdDSA","kid":%q,"typ":"adcp-gov-revocation+jws"}`, set.Keys[0].Kid))
	signature := ed25519.Sign(ed25519.NewKeyFromSeed(v.seed(t)), []byte(head+"."+encode(list)))
	return fmt.Appendf(nil, `{"payload":%q,"signatures":[{"protected":%q,"signature":%q}]}`,
		encode(list), head, encode(signature))
}

// seed is that of the private key.
func (v *adCPVector) seed(t *testing.T) []byte {
	t.Helper()
	seed, err := base64.RawURLEncoding.DecodeString(v.Private)
	if err != nil {
		t.Error(err)
	}
	return seed
}

// prepare brings the receiver into the state before the vector: another event was accepted.
func (v *adCPVector) prepare(t *testing.T, rx *receiver.Receiver) {
	t.Helper()
	nonce := nonceOf("sixteen octets 1")
	switch {
	case len(v.State.Replayed) > 0:
		nonce = v.State.Replayed[0].Nonce
	case v.State.Filled == "":
		return
	}
	if w := answerAt(rx, v.other(t, otherBody(v.Body), nonce)); w.Code != http.StatusOK {
		t.Fatalf("before: %d %s", w.Code, w.Body)
	}
}

// otherBody is a body under another key.
func otherBody(body string) string { return strings.Replace(body, `"whk_`, `"other_`, 1) }

// other is another delivery, signed by the key of the vector without our own signer.
func (v *adCPVector) other(t *testing.T, body, nonce string) *http.Request {
	t.Helper()
	o := *v
	o.Body = body
	r := o.request()
	sum := sha256.Sum256([]byte(o.Body))
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	input := r.Header.Get("Signature-Input")
	_, after, _ := strings.Cut(input, `nonce="`)
	before, _, _ := strings.Cut(after, `"`)
	input = strings.Replace(input, before, nonce, 1)
	base := fmt.Sprintf("\"@method\": POST\n\"@target-uri\": %s\n\"@authority\": buyer.example.com\n"+
		"\"content-type\": application/json\n\"content-digest\": %s\n\"@signature-params\": %s",
		v.URL, digest, strings.TrimPrefix(input, "sig1="))
	signature := ed25519.Sign(ed25519.NewKeyFromSeed(v.seed(t)), []byte(base))
	r.Header.Set("Content-Digest", digest)
	r.Header.Set("Signature-Input", input)
	r.Header.Set("Signature", "sig1=:"+base64.RawURLEncoding.EncodeToString(signature)+":")
	return r
}

func (v *adCPVector) request() *http.Request {
	r := httptest.NewRequest(v.Method, v.URL, strings.NewReader(v.Body))
	r.RequestURI = r.URL.RequestURI()
	for name, value := range v.Headers {
		r.Header.Set(name, value)
	}
	return r
}

// answerAt returns the response of the endpoint at whatever address.
func answerAt(rx *receiver.Receiver, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	rx.HTTP("adcp").ServeHTTP(w, r)
	return w
}

func nonceOf(octets string) string { return base64.RawURLEncoding.EncodeToString([]byte(octets)) }

// TestUnverifiedNoncesAreNotCounted: and duplicates take nothing.
func TestUnverifiedNoncesAreNotCounted(t *testing.T) {
	t.Parallel()
	all := adCPVectors(t)
	v := all[slices.IndexFunc(all, func(v adCPVector) bool { return v.State.Filled != "" })]
	rx, another := v.receiver(t, 2), otherBody(v.Body)
	expect := func(what string, r *http.Request, want int) {
		t.Helper()
		w := answerAt(rx, r)
		if w.Code != want || (w.Header().Get("Retry-After") != "") != (want == http.StatusTooManyRequests) {
			t.Errorf("%s: %d %v, want %d", what, w.Code, w.Header(), want)
		}
	}
	for range 3 {
		r := v.other(t, another, nonceOf("sixteen octets 1"))
		r.Header.Set("Signature", "sig1=:"+nonceOf(strings.Repeat("s", 64))+":")
		expect("another signature", r, http.StatusUnauthorized)
	}
	for range 3 {
		expect("the first nonce", v.other(t, another, nonceOf("sixteen octets 1")), http.StatusOK)
	}
	expect("the second nonce", v.request(), http.StatusOK)
	expect("the third nonce", v.other(t, another, nonceOf("sixteen octets 3")), http.StatusTooManyRequests)
}

// TestRetriesOfAdCPAreDuplicates: a retry has a nonce of its own, and may write the JSON in another
// way. Another label than sig1 does not count.
func TestRetriesOfAdCPAreDuplicates(t *testing.T) {
	t.Parallel()
	all := adCPVectors(t)
	v := all[slices.IndexFunc(all, func(v adCPVector) bool { return v.Private != "" })]
	rx := v.receiver(t, 0)
	const members = `"idempotency_key":"k1","task_type":"get_products"`
	for i, c := range []struct {
		body     string
		replayed bool
	}{
		{`{` + members + `,"status":"completed"}`, false},
		{`{"status": "completed", ` + members + `}`, true},
		{`{` + members + `,"status":"failed"}`, false}, // quarantined
	} {
		w := answerAt(rx, v.other(t, c.body, nonceOf(fmt.Sprint("sixteen octets ", i))))
		if w.Code != http.StatusOK || isReplayed(w) != c.replayed {
			t.Errorf("%s: %d, replayed: %v", c.body, w.Code, isReplayed(w))
		}
	}
	w := answerAt(rx, v.other(t, `{`+members+`}`, nonceOf("sixteen octets 9")))
	if !strings.Contains(w.Body.String(), "quarantined") {
		t.Errorf("another payload under a known key: %s", w.Body)
	}
	r := v.other(t, `{}`, nonceOf("sixteen octets 5"))
	for _, field := range []string{"Signature", "Signature-Input"} {
		r.Header.Set(field, strings.Replace(r.Header.Get(field), "sig1=", "sig2=", 1))
	}
	if w := answerAt(rx, r); w.Code != http.StatusUnauthorized {
		t.Errorf("another label: %d", w.Code)
	}
}
