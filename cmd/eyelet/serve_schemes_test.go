package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
)

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
		"a name":        {", ca_file: ca.pem", "names: [kettle.example]", &kettle, &teapot},
		"no one's":      {", ca_file: ca.pem", "names: [kettle.example]", &kettle, nil},
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
		{"text in a query", "GET", "dropbox?challenge=%3Cscript%3E%20", "", "", 200, "<script> "},
		{"a control character in a query", "GET", "dropbox?challenge=tea%0A17", "", "", 403, ""},
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
