package explain_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

var covered = regexp.MustCompile(`"([^"]+)"`)

// resigned signs with the signer, and again with the edited base and another primitive.
func (k keyPair) resigned(t *testing.T, edit func(base string) string, sign func(base []byte) ([]byte, error)) any {
	t.Helper()
	return func(r *http.Request, body []byte) []byte {
		if err := k.by.Sign(r, body, signedAt); err != nil {
			t.Fatal(err)
		}
		params := strings.TrimPrefix(r.Header.Get("Signature-Input"), "sig1=")
		base := ""
		for _, name := range covered.FindAllStringSubmatch(params[:strings.Index(params, ")")], -1) {
			value := map[string]string{"@method": r.Method, "@target-uri": r.URL.String(), "@authority": r.URL.Host,
				"@path": r.URL.EscapedPath(), "@query": "?" + r.URL.RawQuery}[name[1]]
			if name[1][0] != '@' {
				value = r.Header.Get(name[1])
			}
			base += fmt.Sprintf("%q: %s\n", name[1], value)
		}
		base += `"@signature-params": ` + params
		if edit != nil {
			base = edit(base)
		}
		sig, err := sign([]byte(base))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Signature", "sig1=:"+base64.StdEncoding.EncodeToString(sig)+":")
		return body
	}
}

func hashed(h crypto.Hash, b []byte) []byte {
	d := h.New()
	d.Write(b)
	return d.Sum(nil)
}

// recomputedPlants are mistakes that only a signature made otherwise can prove.
func recomputedPlants(t *testing.T) (plants []plant) {
	raw, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	private := raw.(*rsa.PrivateKey)
	pss := func(h crypto.Hash, salt int) func([]byte) ([]byte, error) {
		return func(b []byte) ([]byte, error) {
			return rsa.SignPSS(rand.Reader, private, h, hashed(h, b), &rsa.PSSOptions{SaltLength: salt})
		}
	}
	pkcs1 := func(h crypto.Hash) func([]byte) ([]byte, error) {
		return func(b []byte) ([]byte, error) { return rsa.SignPKCS1v15(nil, private, h, hashed(h, b)) }
	}
	r1, p1 := newPair(t, "r1", verify.RSAPSSSHA512), newPair(t, "p1", verify.RSAv15SHA256)
	e1, k2 := newPair(t, "e1", verify.ECDSAP256SHA256), newPair(t, "k2", verify.Ed25519)
	k3 := newPair(t, "k3", verify.Ed25519)
	strict := shop(r1, k2)
	strict.Scheme.(*verify.RFC9421).Algs = nil // the default, without PKCS #1
	rfc := func(name string, want explain.Cause, k keyPair, by any) {
		plants = append(plants, plant{name: name, scheme: "rfc9421", want: causes{want}, certain: true,
			config: one(shop(k, k3)), by: by, fields: idempotency})
	}
	rfc("PKCS #1 where PSS is configured", "algorithm", r1, r1.resigned(t, nil, pkcs1(crypto.SHA256)))
	plants[0].config = one(strict)
	rfc("PSS where PKCS #1 is configured", "algorithm", p1, p1.resigned(t, nil, pss(crypto.SHA512, 64)))
	rfc("PSS with SHA-256", "hash", r1, r1.resigned(t, nil, pss(crypto.SHA256, 32)))
	rfc("PSS with SHA-384", "hash", r1, r1.resigned(t, nil, pss(crypto.SHA384, 48)))
	rfc("PKCS #1 with SHA-512", "hash", p1, p1.resigned(t, nil, pkcs1(crypto.SHA512)))
	rfc("ECDSA with SHA-512", "hash", e1, e1.resigned(t, nil, func(b []byte) ([]byte, error) {
		r, s, err := ecdsa.Sign(rand.Reader, e1.by.Private.(*ecdsa.PrivateKey), hashed(crypto.SHA512, b))
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...), err
	}))
	ed := func(b []byte) ([]byte, error) { return k2.by.Private.Sign(nil, b, crypto.Hash(0)) }
	rfc("a base that ends with a newline", "content", k2, k2.resigned(t, func(b string) string { return b + "\n" }, ed))
	rfc("a base with CRLF", "content", k2, k2.resigned(t, func(b string) string {
		return strings.ReplaceAll(b, "\n", "\r\n")
	}, ed))
	for _, k := range []keyPair{k2, r1} {
		port := func(b string) string {
			return strings.Replace(b, "https://hooks.example/", "https://hooks.example:443/", 1)
		}
		sign := ed
		if k.key.ID == "r1" {
			sign = pss(crypto.SHA512, 64)
		}
		rfc("the default port in @target-uri", "url_port", k, k.resigned(t, port, sign))
	}
	c := *k2.by
	c.Components = []string{"@method", "@target-uri", "@authority", "content-digest", "content-type", "idempotency-key"}
	rfc("the default port in @authority", "url_port", k2, keyPair{k2.key, &c}.resigned(t, func(b string) string {
		return strings.Replace(b, `"@authority": hooks.example`, `"@authority": hooks.example:443`, 1)
	}, ed))
	return slices.Concat(plants, tokenAlgorithmPlants(t), digestPlants(t), orderPlants(), charsetPlants(t),
		basePlants(t), keyPlants(t))
}

// tokenAlgorithmPlants are tokens with RSA that are signed with another algorithm.
func tokenAlgorithmPlants(t *testing.T) (plants []plant) {
	private, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"", "RS256"} {
		for _, says := range []string{"RS256", "PS256"} {
			p := producer.Producer{Name: "token", Key: producer.JSON("id"), Contract: producer.Webhook,
				Scheme: &verify.JWT{Keys: tokenKeys(t, jwkOf(t, "k1", named, private)), Algorithms: []string{"RS256"},
					Audiences: []string{"us"}}}
			plants = append(plants, plant{name: fmt.Sprintf("PSS, the header says %s, the key %q", says, named),
				scheme: "jwt", want: causes{"algorithm"}, certain: true, config: one(p),
				by: func(r *http.Request, body []byte) []byte {
					r.Header.Set("Authorization", "Bearer "+tokenKey{"k1", says, "PS256", private}.sign(t,
						map[string]any{"aud": "us", "exp": signedAt.Unix() + 60}))
					return body
				}})
		}
	}
	return plants
}

// digestPlants sign a digest of the body in place of the body.
func digestPlants(t *testing.T) (plants []plant) {
	b64 := base64.StdEncoding.EncodeToString
	over := func(name string, p producer.Producer, of func(b []byte) string) {
		plants = append(plants, plant{name: "over the " + name, scheme: p.Name, want: causes{"over_hash"},
			certain: true, config: one(p), by: func(r *http.Request, body []byte) []byte {
				if err := p.Scheme.(signer).Sign(r, []byte(of(body)), signedAt); err != nil {
					t.Fatal(err)
				}
				return body
			}})
	}
	plain := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	for name, of := range map[string]func([]byte) string{
		"SHA-256 in capitals": func(b []byte) string { return fmt.Sprintf("%X", sha256.Sum256(b)) },
		"SHA-256":             func(b []byte) string { s := sha256.Sum256(b); return string(s[:]) },
		"SHA-512 in base64":   func(b []byte) string { s := sha512.Sum512(b); return b64(s[:]) },
		"SHA-512":             func(b []byte) string { s := sha512.Sum512(b); return string(s[:]) },
		"SHA-1 in hex":        func(b []byte) string { return fmt.Sprintf("%x", sha1.Sum(b)) },
		"MD5 in base64":       func(b []byte) string { s := md5.Sum(b); return b64(s[:]) },
		"SHA-256 of a field":  func(b []byte) string { s := sha256.Sum256(b); return "sha-256=:" + b64(s[:]) + ":" },
		"SHA-256 with a name": func(b []byte) string { return "sha256=" + plain(b) },
	} {
		over(name, custom(nil), of)
	}
	for _, p := range []producer.Producer{preset.GitHub(hexSecret), preset.Stripe("whsec_" + hexSecret),
		preset.Slack(hexSecret), preset.With("square", hexSecret), preset.With("zoom", hexSecret),
		preset.With("zendesk", hexSecret)} {
		over("SHA-256 in hex", p, plain)
	}
	return plants
}

// orderPlants sign the parts of the template in another order.
func orderPlants() []plant {
	const hook = "https://hooks.example/in?x=1"
	square := func(content string) *verify.HMAC {
		return &verify.HMAC{Headers: []string{"x-square-hmacsha256-signature"}, Encoding: verify.Base64,
			Content: content, Config: map[string]string{"signed_url": hook}, Malleable: true,
			Secrets: verify.Secrets(hexSecret)}
	}
	parts := custom(func(h *verify.HMAC) {
		h.Content = "{id}\n{timestamp}\n{header:X-App}\n{body}"
		h.TimestampHeaders, h.IDHeaders = []string{"X-Time"}, []string{"X-Id"}
	})
	others := custom(func(h *verify.HMAC) {
		h.Content = "{header:X-App}\n{id}\n{timestamp}\n{body}"
		h.TimestampHeaders, h.IDHeaders = []string{"X-Time"}, []string{"X-Id"}
	})
	order := func(name string, p producer.Producer, by any) plant {
		return plant{name: name, scheme: p.Name, want: causes{"content"}, certain: true, config: one(p), by: by,
			fields: map[string]string{"X-Id": "evt_1", "X-App": "kettle"}}
	}
	known, _ := preset.Find("square")
	registered := known.Open(preset.Settings{SignedURL: hook, Secrets: []string{hexSecret}})
	return []plant{
		order("the body before the URL", registered, square("{body}{config:signed_url}")),
		order("the body before its own URL", preset.With("square", hexSecret), square("{body}{url}")),
		order("a line between URL and body", registered,
			square("{config:signed_url}\n{body}")),
		order("a full stop between body and URL", registered,
			square("{body}.{config:signed_url}")),
		order("four parts", parts, others.Scheme),
	}
}

// charsetPlants have references of Adyen that were read in another charset.
func charsetPlants(t *testing.T) (plants []plant) {
	adyen, _ := preset.Find("adyen")
	settings := preset.Settings{Secrets: []string{hex.EncodeToString([]byte(hexSecret))}}
	reference := func(text string, body []byte) []byte {
		return []byte(strings.Replace(string(body), "order-17", text, 1))
	}
	for name, c := range map[string]struct{ signed, sent string }{
		"UTF-8 read as Latin-1":               {"café", "cafÃ©"},
		"UTF-8 read as Latin-1 by the sender": {"cafÃ©", "café"},
		"in escapes":                          {"café", `caf\u00c3\u00a9`},
		"in escapes, by the sender":           {"cafÃ©", `caf\u00e9`},
		"as Windows-1252":                     {"5 €", "5 â‚¬"},
		"as Windows-1252, by the sender":      {"5 â‚¬", "5 €"},
		"as Windows-1252, in escapes":         {"5 €", `5 \u00e2\u201a\u00ac`},
		"beside Chinese, which is not signed": {"café", `cafÃ©","note":"\u4e2d`},
	} {
		made := adyen.Open(settings)
		plants = append(plants, plant{name: name, scheme: "adyen", want: causes{"body_charset"}, certain: true,
			config: one(made), by: func(r *http.Request, _ []byte) []byte {
				sample, body, err := adyen.Sample(settings, r.URL.String(), "", "evt-1", signedAt)
				if err != nil {
					t.Fatal(err)
				}
				r.Header = sample.Header
				signs := made.Scheme.(interface {
					SignBody(*http.Request, []byte, time.Time) ([]byte, error)
				})
				good, err := signs.SignBody(r, reference(c.signed, body), signedAt)
				if err != nil {
					t.Fatal(err)
				}
				return []byte(strings.Replace(string(good), c.signed, c.sent, 1))
			}})
	}
	return plants
}
