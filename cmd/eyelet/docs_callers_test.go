package main

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/verify"
)

// apiCaller sends what the callers of one system send.
type apiCaller struct {
	field   string                                         // of the identifier; empty: it is in the body
	body    string                                         // with %s for something that differs
	cert    string                                         // the name of the client's certificate
	dress   func(r *http.Request, body string, wrong bool) // authenticates the request
	unnamed bool                                           // an identifier is not required
}

func wrongIf(wrong bool, good string) string {
	if wrong {
		return "another-" + good
	}
	return good
}

func withField(name, value string) func(*http.Request, string, bool) {
	return func(r *http.Request, _ string, wrong bool) {
		before, secret, found := strings.Cut(value, " ")
		if !found {
			before, secret = "", value
		}
		r.Header.Set(name, strings.TrimSpace(before+" "+wrongIf(wrong, secret)))
	}
}

func withPassword(user, password string) func(*http.Request, string, bool) {
	return func(r *http.Request, _ string, wrong bool) { r.SetBasicAuth(user, wrongIf(wrong, password)) }
}

// apiCallers are the callers by the name of their producer. private signs tokens and messages.
func apiCallers(t *testing.T, private ed25519.PrivateKey) map[string]apiCaller {
	const field, asJSON = "Idempotency-Key", `{"type":"payment","note":%q}`
	jwt := func(r *http.Request, _ string, wrong bool) {
		now := time.Now().Unix()
		r.Header.Set("Authorization", "Bearer "+token(private, fmt.Sprintf(
			`{"iss":"https://login.example","aud":%q,"exp":%d}`, wrongIf(wrong, "https://hooks.example"), now+60)))
	}
	bearer := withField("Authorization", "Bearer secret-0123456789")
	return map[string]apiCaller{
		"adyen": {field: field, body: asJSON, dress: withField("X-API-Key", "secret-0123456789")},
		"bbva":  {field: "X-Unique-Transaction-ID", body: asJSON, cert: "payments.bank.example"},
		"chargebee": {field: "chargebee-idempotency-key", body: asJSON,
			dress: withField("Authorization", "Basic secret-0123456789")},
		"datatrans": {field: field, body: asJSON, dress: withPassword("1100007006", "secret-0123456789")},
		"django": {field: "HTTP_IDEMPOTENCY_KEY", body: asJSON, dress: withField("Authorization",
			"Token secret-0123456789")},
		"dwolla":   {field: field, body: asJSON, dress: bearer},
		"finastra": {field: field, body: asJSON, dress: jwt},
		"gitlab": {field: field, body: `{"object_kind":"push","note":%q}`, unnamed: true,
			dress: withField("X-Gitlab-Token", "secret-0123456789")},
		"google": {body: `{"requestHeader":{"requestId":%q},"amount":{"amountMicros":"1"}}`,
			cert: "payments.google.example"},
		"http4s": {field: field, body: asJSON, dress: bearer},
		"interledger": {field: field, body: asJSON, dress: func(r *http.Request, body string, wrong bool) {
			s := verify.Signer{KeyID: "wallet", Private: private}
			if err := s.Sign(r, []byte(wrongIf(wrong, body)), time.Now()); err != nil {
				t.Error(err)
			}
		}},
		"openbanking": {field: "x-idempotency-key", body: asJSON, cert: "tpp.example", dress: jwt},
		"paypal":      {field: "PayPal-Request-Id", body: asJSON, dress: bearer},
		"razorpayx": {field: "X-Payout-Idempotency", body: asJSON,
			dress: withPassword("rzp_live_17", "secret-0123456789")},
		"square": {body: `{"idempotency_key":%q,"amount_money":{"amount":1000}}`, dress: bearer},
		"stripe": {field: field, body: asJSON, dress: bearer},
		"tabapay": {field: field, body: asJSON, dress: func(r *http.Request, body string, wrong bool) {
			at := strconv.FormatInt(time.Now().Unix(), 10)
			r.Header.Set("X-HMAC-Signature", "t="+at+",v1="+
				hex.EncodeToString(macOf(wrongIf(wrong, "secret-0123456789"), at+"."+body)))
		}},
		"twilio": {field: "I-Twilio-Idempotency-Token", body: "MessageSid=%s&MessageStatus=delivered", unnamed: true,
			dress: func(r *http.Request, body string, wrong bool) {
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				mac := hmac.New(sha1.New, []byte(wrongIf(wrong, "secret-0123456789")))
				mac.Write([]byte(r.URL.String() + strings.NewReplacer("=", "", "&", "").Replace(body)))
				r.Header.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
			}},
		"webengage": {field: "x-request-id", body: asJSON, unnamed: true,
			dress: func(r *http.Request, _ string, wrong bool) {
				sum := md5.Sum([]byte("tea17:" + wrongIf(wrong, "secret-0123456789")))
				r.URL.RawQuery = "eventType=sent&licenseCode=tea17&secret=" + hex.EncodeToString(sum[:])
			}},
		"worldpay": {field: field, body: asJSON, dress: withPassword("worldpay", "secret-0123456789")},
		"yandex":   {field: field, body: asJSON, dress: bearer},
		"yookassa": {field: "Idempotence-Key", body: asJSON, dress: withPassword("100500", "secret-0123456789")},
	}
}

// documentedCallers writes the configuration of the page with all that it needs. It returns its
// name and the certificates of the server and of the authority of clients.
func documentedCallers(t *testing.T) (file string, private ed25519.PrivateKey, server *x509.Certificate,
	authority tls.Certificate) {
	t.Helper()
	secrets := map[string]string{}
	for _, name := range strings.Fields("ADYEN_API_KEY CHARGEBEE_BASIC DATATRANS_PASSWORD DJANGO_TOKEN DWOLLA_TOKEN " +
		"GITLAB_TOKEN HTTP4S_TOKEN PAYPAL_TOKEN RAZORPAYX_SECRET SQUARE_TOKEN STRIPE_KEY TABAPAY_SECRET TWILIO_TOKEN " +
		"WEBENGAGE_KEY WORLDPAY_PASSWORD YANDEX_TOKEN YOOKASSA_SECRET") {
		secrets[name] = "secret-0123456789"
	}
	file = documented(t, "producers.md", "## Systems that send an identifier with API calls", secrets)
	public, private, err := ed25519.GenerateKey(nil)
	check(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	check(t, err)
	authority = issueClient(t, "ca.example", nil)
	for name, text := range map[string][]byte{
		"wallet.pub.pem": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		"clients.pem":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate[0]}),
		"jwks.json": fmt.Appendf(nil, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","x":%q}]}`,
			base64.RawURLEncoding.EncodeToString(public)),
	} {
		check(t, os.WriteFile(filepath.Join(filepath.Dir(file), name), text, 0o600))
	}
	return file, private, servertest.Issue(t, filepath.Dir(file), 1), authority
}

// checkTable compares the producers of the configuration with the table, row by row.
func checkTable(t *testing.T, file string) {
	t.Helper()
	s, err := config.Source{File: file}.Load()
	check(t, err)
	plan, err := s.Build(t.Context(), config.BuildOptions{})
	check(t, err)
	defer plan.Close() //nolint:errcheck // it holds no key set that fetches
	page, err := os.ReadFile("../../docs/producers.md")
	check(t, err)
	_, table, _ := strings.Cut(string(page), "<!-- callers: ")
	table, _, _ = strings.Cut(table, "<!-- end of callers -->")
	var rows [][]string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, " | "); len(cells) == 4 && strings.HasPrefix(cells[1], "`") &&
			cells[0] != "| System" {
			rows = append(rows, cells)
		}
	}
	if len(rows) != len(plan.Producers) || len(rows) < 20 {
		t.Fatalf("%d rows, and %d producers", len(rows), len(plan.Producers))
	}
	for i, cells := range rows {
		p := plan.Producers[i]
		key := strings.ReplaceAll(strings.Trim(cells[1], "`"), `\|`, "|")
		if !strings.HasPrefix(strings.ToLower(cells[0]), "| "+p.Name) && !strings.HasPrefix(p.Name, "google") ||
			p.Key.String() != key {
			t.Errorf("producer %s with the key %s is beside %s with %s", p.Name, p.Key, cells[0], key)
		}
	}
}

// TestDocumentedCallers runs a receiver with the configuration of docs/producers.md and calls it as
// the callers of each system do.
func TestDocumentedCallers(t *testing.T) {
	t.Parallel()
	file, private, server, authority := documentedCallers(t)
	checkTable(t, file)
	r := launch(t, "serve", "--config", file)
	clients := map[string]*http.Client{}
	const names = " payments.bank.example payments.google.example tpp.example other.example"
	for name := range strings.SplitSeq(names, " ") {
		c := trusting(server)
		transport := c.Transport.(*http.Transport)
		transport.TLSClientConfig.ServerName = "127.0.0.1"
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(r.deliveries, "http://"))
		}
		if name != "" {
			transport.TLSClientConfig.Certificates = []tls.Certificate{issueClient(t, name, &authority)}
		}
		t.Cleanup(transport.CloseIdleConnections)
		clients[name] = c
	}
	for name, c := range apiCallers(t, private) {
		call := func(id, in string, wrong bool, cert string) (status int, known bool) {
			body := fmt.Sprintf(c.body, in)
			address := "https://hooks.example/webhooks/" + name
			req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
			check(t, err)
			req.Header.Set("Content-Type", "application/json")
			if c.field != "" && id != "" {
				req.Header[c.field] = []string{id} // octet for octet
			}
			if c.dress != nil {
				c.dress(req, body, wrong)
			}
			res := answered(t, clients[cert], req)
			return res.StatusCode, res.Header.Get("Idempotency-Replayed") == "true"
		}
		const id = "4935a656-a929-4792-b97c-8848be85c27c"
		quoted := `"` + id + `"`
		if c.field == "" {
			quoted = id
		}
		status, known := call(id, id, false, c.cert)
		if status/100 != 2 || known {
			t.Errorf("%s: a new event: %d", name, status)
		}
		for _, again := range []string{id, quoted} {
			if status, known = call(again, id, false, c.cert); status/100 != 2 || !known {
				t.Errorf("%s: the same again as %s: %d, known %v", name, again, status, known)
			}
		}
		if status, _ = call("8848be85", "8848be85", true, c.cert); c.dress != nil && status != 401 {
			t.Errorf("%s: a wrong credential: %d", name, status)
		}
		for _, other := range []string{"", "other.example"} {
			if c.cert == "" {
				continue
			}
			if status, _ = call("8848be85", "8848be85", false, other); status != 401 {
				t.Errorf("%s: the certificate %q: %d", name, other, status)
			}
		}
		if status, _ = call("", "", false, c.cert); !c.unnamed && status != 400 {
			t.Errorf("%s: no identifier: %d", name, status)
		}
	}
}
