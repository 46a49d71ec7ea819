package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
)

// schemeCaller signs requests as the callers of one scheme do.
type schemeCaller struct {
	settings string // of the producer, indented
	status   int    // of an accepted event
	timed    bool   // a time is signed
	bound    bool   // the body is signed
	dress    func(r *http.Request, body string, wrong bool, at time.Time)
}

func fixedSenders() map[string]schemeCaller {
	value := func(good string, wrong bool) string {
		if wrong {
			return "another-" + good
		}
		return good
	}
	return map[string]schemeCaller{
		"bearer": {settings: "    scheme: bearer\n    secrets: [old-kettle-token, new-kettle-token]\n", status: 202,
			dress: func(r *http.Request, _ string, wrong bool, _ time.Time) {
				r.Header.Set("Authorization", "Bearer "+value("new-kettle-token", wrong))
			}},
		"basic": {settings: "    scheme: basic\n    username: kettle\n    password: kettle-password\n", status: 202,
			dress: func(r *http.Request, _ string, wrong bool, _ time.Time) {
				r.SetBasicAuth("kettle", value("kettle-password", wrong))
			}},
		"field": {settings: "    scheme: static\n    header: X-Api-Key\n    secret: kettle-api-key\n", status: 202,
			dress: func(r *http.Request, _ string, wrong bool, _ time.Time) {
				r.Header.Set("X-Api-Key", value("kettle-api-key", wrong))
			}},
		"parameter": {settings: "    scheme: static\n    query: code\n    secret: kettle-code\n    contract: webhook\n",
			status: 200, dress: func(r *http.Request, _ string, wrong bool, _ time.Time) {
				r.URL.RawQuery = "code=" + value("kettle-code", wrong)
			}},
		"datetime": {settings: "    scheme: hmac\n    header: X-Sig\n    secret: kettle-secret-17\n" +
			"    timestamp_header: X-Time\n    timestamp_unit: rfc3339\n    template: \"{timestamp}{body}\"\n" +
			"    key: idempotency-key\n",
			status: 200, timed: true, bound: true, dress: func(r *http.Request, body string, wrong bool, at time.Time) {
				stamp := at.UTC().Format(time.RFC3339)
				mac := hmac.New(sha256.New, []byte(value("kettle-secret-17", wrong)))
				mac.Write([]byte(stamp + body))
				r.Header.Set("X-Time", stamp)
				r.Header.Set("X-Sig", hex.EncodeToString(mac.Sum(nil)))
			}},
	}
}

// keyedSenders have keys of their own, which are made here. dir is the folder of the configuration.
func keyedSenders(t *testing.T, dir string) map[string]schemeCaller {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	check(t, err)
	_, unknown, err := ed25519.GenerateKey(nil)
	check(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	der, err := x509.MarshalPKIXPublicKey(curve.Public())
	check(t, err)
	jwks := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","x":%q}]}`,
		base64.RawURLEncoding.EncodeToString(public))
	check(t, os.WriteFile(filepath.Join(dir, "jwks.json"), []byte(jwks), 0o600))
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, jwks)
	}))
	t.Cleanup(keys.Close)
	all := map[string]schemeCaller{
		"ed25519": {settings: "    scheme: ed25519\n    header: Telnyx-Signature-Ed25519\n    encoding: base64\n" +
			"    timestamp_header: Telnyx-Timestamp\n    template: \"{timestamp}|{body}\"\n    public_key: " +
			base64.StdEncoding.EncodeToString(public) + "\n    key: json:id\n",
			status: 200, timed: true, bound: true, dress: func(r *http.Request, body string, wrong bool, at time.Time) {
				by, stamp := private, strconv.FormatInt(at.Unix(), 10)
				if wrong {
					by = unknown
				}
				r.Header.Set("Telnyx-Timestamp", stamp)
				r.Header.Set("Telnyx-Signature-Ed25519",
					base64.StdEncoding.EncodeToString(ed25519.Sign(by, []byte(stamp+"|"+body))))
			}},
		"ecdsa": {settings: "    scheme: ecdsa\n    header: X-Sig\n    encoding: base64\n" +
			"    timestamp_header: X-Time\n" +
			"    template: \"{timestamp}{body}\"\n    malleable: true\n    public_key: " +
			base64.StdEncoding.EncodeToString(der) + "\n    key: json:id\n",
			status: 200, timed: true, bound: true, dress: func(r *http.Request, body string, wrong bool, at time.Time) {
				by, stamp := curve, strconv.FormatInt(at.Unix(), 10)
				if wrong {
					by = other
				}
				sum := sha256.Sum256([]byte(stamp + body))
				signed, err := ecdsa.SignASN1(rand.Reader, by, sum[:])
				if err != nil {
					t.Error(err)
				}
				r.Header.Set("X-Time", stamp)
				r.Header.Set("X-Sig", base64.StdEncoding.EncodeToString(signed))
			}},
		"jwt": {settings: "    scheme: jwt\n    issuers: [https://login.example]\n    audience: [hooks]\n" +
			"    claims: {azp: kettle}\n    jwks_file: jwks.json\n",
			status: 202, timed: true, dress: func(r *http.Request, _ string, wrong bool, at time.Time) {
				audience := "hooks"
				if wrong {
					audience = "others"
				}
				claims := fmt.Sprintf(`{"iss":"https://login.example","aud":%q,"azp":"kettle","iat":%d,"exp":%d}`,
					audience, at.Unix(), at.Unix()+60)
				r.Header.Set("Authorization", "Bearer "+token(private, claims))
			}},
	}
	polled := all["jwt"]
	polled.settings = strings.Replace(polled.settings, "jwks_file: jwks.json", "jwks_url: "+keys.URL, 1)
	all["jwt-polled"] = polled
	return all
}

// token is a JSON Web Token signed with Ed25519.
func token(by ed25519.PrivateKey, claims string) string {
	enc := base64.RawURLEncoding.EncodeToString
	signed := enc([]byte(`{"alg":"EdDSA","kid":"k1"}`)) + "." + enc([]byte(claims))
	return signed + "." + enc(ed25519.Sign(by, []byte(signed)))
}

// TestEverySchemeInTheFile sends what the callers of each scheme send: an event, the same again,
// and what must be refused.
func TestEverySchemeInTheFile(t *testing.T) {
	t.Parallel()
	file := configured(t, "")
	senders := fixedSenders()
	for name, s := range keyedSenders(t, filepath.Dir(file)) {
		senders[name] = s
	}
	text, handlers := "", "handlers:\n"
	for name, s := range senders {
		text += "  " + name + ":\n" + s.settings
		handlers += "  - {producer: " + name + ", type: \"*\", stdout: true}\n"
	}
	appendTo(t, file, text+handlers)
	r := launch(t, "serve", "--config", file)
	for name, s := range senders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			send := func(id, body, sentBody string, wrong bool, at time.Time) *http.Response {
				t.Helper()
				address := r.deliveries + "/webhooks/" + name
				req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(sentBody))
				check(t, err)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Idempotency-Key", `"`+id+`"`)
				s.dress(req, body, wrong, at)
				return answered(t, http.DefaultClient, req)
			}
			const body, changed = `{"id":"e-1","type":"tea.ready"}`, `{"id":"e-2","type":"tea.ready"}`
			if res := send("e-1", body, body, false, now); res.StatusCode != s.status {
				t.Fatalf("a new event: %s", res.Status)
			}
			res := send("e-1", body, body, false, now)
			if res.StatusCode != s.status || res.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("the same again: %s, %v", res.Status, res.Header)
			}
			res = send("e-3", body, body, true, now)
			if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("another secret: %s", res.Status)
			}
			if res := send("e-2", body, changed, false, now); s.bound && res.StatusCode != 401 {
				t.Errorf("a changed body: %s", res.Status)
			}
			if res := send("e-4", changed, changed, false, now.Add(-time.Hour)); s.timed && res.StatusCode != 401 {
				t.Errorf("an hour old: %s", res.Status)
			}
			eventually(t, "the event is printed", func() bool {
				return strings.Contains(r.out.String(), `"producer":"`+name+`"`)
			})
		})
	}
}

func answered(t *testing.T, client *http.Client, r *http.Request) *http.Response {
	t.Helper()
	res, err := client.Do(r)
	check(t, err)
	body, err := io.ReadAll(res.Body)
	check(t, err)
	_ = res.Body.Close()
	res.Body = io.NopCloser(strings.NewReader(string(body)))
	return res
}

func appendTo(t *testing.T, file, text string) {
	t.Helper()
	old, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(old, text...), 0o600)
	}
	check(t, err)
}

// issueClient makes a client certificate for a name, signed by the authority or by itself.
func issueClient(t *testing.T, name string, by *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	made := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: by == nil,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	parent, signer := made, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, made, parent, key.Public(), signer)
	check(t, err)
	leaf, err := x509.ParseCertificate(der)
	check(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestClientCertificatesInTheFile(t *testing.T) {
	t.Parallel()
	authority := issueClient(t, "ca.example", nil)
	kettle, teapot := issueClient(t, "kettle.example", &authority), issueClient(t, "teapot.example", &authority)
	own := issueClient(t, "kettle.example", nil)
	sum := sha256.Sum256(own.Certificate[0])
	pinned := "fingerprints: [" + hex.EncodeToString(sum[:]) + "]"
	for name, c := range map[string]struct {
		tls, producer string
		good, wrong   *tls.Certificate
	}{
		"a name":        {", client_ca_file: ca.pem", "names: [kettle.example]", &kettle, &teapot},
		"no one's":      {", client_ca_file: ca.pem", "names: [kettle.example]", &kettle, nil},
		"a fingerprint": {"", pinned, &own, &kettle},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := configured(t, "  bank:\n    scheme: mtls\n    "+c.producer+"\n"+
				"tls: {cert_file: cert.pem, key_file: key.pem"+c.tls+"}\n"+
				"handlers: [{producer: bank, type: \"*\", stdout: true}]\n")
			server := servertest.Issue(t, filepath.Dir(file), 1)
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate[0]})
			check(t, os.WriteFile(filepath.Join(filepath.Dir(file), "ca.pem"), ca, 0o600))
			r := launch(t, "serve", "--config", file)
			post := func(with *tls.Certificate, id string) *http.Response {
				client := trusting(server)
				defer client.CloseIdleConnections()
				if with != nil {
					client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{*with}
				}
				address := strings.Replace(r.deliveries, "http:", "https:", 1) + "/webhooks/bank"
				req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(`{"type":"paid"}`))
				check(t, err)
				req.Header.Set("Idempotency-Key", `"`+id+`"`)
				return answered(t, client, req)
			}
			if res := post(c.good, "a"); res.StatusCode != 202 {
				t.Fatalf("a new event: %s", res.Status)
			}
			if res := post(c.good, "a"); res.StatusCode != 202 || res.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("the same again: %s", res.Status)
			}
			if res := post(c.wrong, "b"); res.StatusCode != 401 {
				t.Errorf("another client: %s", res.Status)
			}
		})
	}
}

func TestChallengesInTheFile(t *testing.T) {
	t.Parallel()
	secret := "    scheme: hmac\n    header: X-Sig\n    secret: kettle-secret-17\n"
	file := configured(t, "  dropbox:\n"+secret+"    challenge: {query: challenge}\n"+
		"  monday:\n"+secret+"    challenge: {json: challenge}\n"+
		"  notion:\n"+secret+"    challenge: {json: verification_token, reply: text}\n"+
		"  asana:\n"+secret+"    challenge: {header: X-Hook-Secret}\n"+
		"handlers: [{producer: asana, type: \"*\", stdout: true}]\n")
	r := launch(t, "serve", "--config", file)
	for _, c := range []struct {
		name, method, at, body, field string
		status                        int
		want                          string
	}{
		{"a query", "GET", "dropbox?challenge=tea-17", "", "", 200, "tea-17"},
		{"markup in a query", "GET", "dropbox?challenge=%3Cscript%3E%20", "", "", 403, ""},
		{"no challenge", "GET", "dropbox", "", "", 405, ""},
		{"a member", "POST", "monday", `{"challenge":"tea-17"}`, "", 200, `{"challenge":"tea-17"}`},
		{"a member beside another", "POST", "monday", `{"challenge":"tea-17","event":{}}`, "", 401, ""},
		{"a number", "POST", "monday", `{"challenge":17}`, "", 401, ""},
		{"a large body", "POST", "monday", `{"challenge":"` + strings.Repeat("a", 5000) + `"}`, "", 401, ""},
		{"a wrong signature", "POST", "monday", `{"challenge":"tea-17"}`, "X-Sig", 401, ""},
		{"a member as text", "POST", "notion", `{"verification_token":"tea-17"}`, "", 200, "tea-17"},
		{"a field", "POST", "asana", `{}`, "X-Hook-Secret", 200, ""},
		{"without the field", "POST", "asana", `{}`, "", 401, ""},
	} {
		req, err := http.NewRequest(c.method, r.deliveries+"/webhooks/"+c.at, strings.NewReader(c.body))
		check(t, err)
		req.Header.Set("Content-Type", "application/json")
		if c.field != "" {
			req.Header.Set(c.field, "00aa17")
		}
		res := answered(t, http.DefaultClient, req)
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != c.status || c.status == 200 && string(body) != c.want {
			t.Errorf("%s: %s, %s, %v", c.name, res.Status, body, err)
		}
		if c.status == 200 && (res.Header.Get("X-Content-Type-Options") != "nosniff" ||
			c.at == "asana" && res.Header.Get("X-Hook-Secret") != "00aa17") {
			t.Errorf("%s: %v", c.name, res.Header)
		}
	}
	if code, said := lists(t, file); code != 0 || strings.Contains(said, "asana") {
		t.Errorf("a challenge is an event: %d, %s", code, said)
	}
	if strings.Contains(r.errs.String(), "tea-17") {
		t.Errorf("the log holds a challenge: %s", r.errs.String())
	}
}

func TestAStrictProducerWantsQuotedKeys(t *testing.T) {
	t.Parallel()
	file := configured(t, "  strict:\n    scheme: bearer\n    secret: kettle-token\n    strict: true\n"+
		"    fingerprint: [json:id]\nhandlers: [{producer: strict, type: \"*\", stdout: true}]\n")
	r := launch(t, "serve", "--config", file)
	for _, c := range []struct {
		key, body string
		status    int
	}{
		{`k-1`, `{"id":1}`, 400}, {`"k-1"`, `{"id":1}`, 202}, {`"k-1"`, `{"id":1,"attempt":2}`, 202},
		{`"k-1"`, `{"id":2}`, 422}, {``, `{"id":1}`, 400},
	} {
		req, err := http.NewRequest(http.MethodPost, r.deliveries+"/webhooks/strict", strings.NewReader(c.body))
		check(t, err)
		req.Header.Set("Authorization", "Bearer kettle-token")
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", c.key)
		if res := answered(t, http.DefaultClient, req); res.StatusCode != c.status {
			t.Errorf("%s %s: %s, want %d", c.key, c.body, res.Status, c.status)
		}
	}
}
