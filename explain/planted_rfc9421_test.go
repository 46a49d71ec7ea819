package explain_test

import (
	"crypto"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// keyPair is a key of RFC 9421 with its signer.
type keyPair struct {
	key verify.Key
	by  *verify.Signer
}

var algs = []verify.Alg{
	verify.HMACSHA256, verify.Ed25519, verify.ECDSAP256SHA256, verify.ECDSAP384SHA384, verify.RSAPSSSHA512,
	verify.RSAv15SHA256,
}

func newPair(t *testing.T, id string, alg verify.Alg) keyPair {
	t.Helper()
	if alg == verify.HMACSHA256 {
		return secretPair(t, id, string(verify.GenerateSecret()))
	}
	generate := func() (crypto.Signer, error) { return verify.GenerateKey(alg) }
	if alg == verify.RSAPSSSHA512 || alg == verify.RSAv15SHA256 {
		generate = rsaKey
	}
	private, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	return publicPair(t, id, alg, private)
}

// rsaKey is the key of all RSA pairs, because it takes long to find one.
var rsaKey = sync.OnceValues(func() (crypto.Signer, error) { return verify.GenerateKey(verify.RSAPSSSHA512) })

func publicPair(t *testing.T, id string, alg verify.Alg, private crypto.Signer) keyPair {
	t.Helper()
	key, err := verify.NewPublicKey(id, alg, private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{key, &verify.Signer{KeyID: id, Alg: alg, Private: private}}
}

func secretPair(t *testing.T, id, secret string) keyPair {
	t.Helper()
	key, err := verify.NewHMACKey(id, []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{key, &verify.Signer{KeyID: id, Secret: []byte(secret)}}
}

func shop(pairs ...keyPair) producer.Producer {
	var keys []verify.Key
	for _, p := range pairs {
		keys = append(keys, p.key)
	}
	p := producer.Signed("shop", verify.StaticKeys(keys...))
	p.Scheme.(*verify.RFC9421).Algs = algs
	return p
}

var idempotency = map[string]string{"Idempotency-Key": `"evt_1"`}

func rfcPlants(t *testing.T) []plant {
	var plants []plant
	for _, alg := range algs {
		pair := newPair(t, "k1", alg)
		plants = append(plants, plant{name: "http in place of https", scheme: "rfc9421 " + string(alg),
			want: causes{"url_scheme"}, config: one(shop(pair)), by: pair.by, fields: idempotency,
			url: "http://hooks.example/webhooks/shop", after: called(at("/webhooks/shop"))})
	}
	k1, k2, k3 := newPair(t, "k1", verify.Ed25519), newPair(t, "k2", verify.Ed25519), newPair(t, "k3", verify.Ed25519)
	secret := secretPair(t, "h1", hexSecret)
	ec := newPair(t, "e1", verify.ECDSAP256SHA256)
	rsa := newPair(t, "r1", verify.RSAPSSSHA512)
	lab := shop(k3)
	lab.Name = "lab"
	rfc := func(name string, by *verify.Signer, want explain.Cause, config ...producer.Producer) plant {
		if config == nil {
			config = one(shop(k1, k2, secret, ec, rsa))
		}
		return plant{name: name, scheme: "rfc9421", want: causes{want}, config: config, by: by, fields: idempotency}
	}
	as := func(by *verify.Signer, f func(*verify.Signer)) *verify.Signer {
		c := *by
		f(&c)
		return &c
	}
	labelled := shop(k1)
	labelled.Scheme.(*verify.RFC9421).Label = "sig1"
	other := rfc("another body", k1.by, "digest_of_other_body")
	other.sent = `{"id":"evt_2"}`
	compact := rfc("the digest of the compact body", k1.by, "body_rewritten")
	compact.signed, compact.sent = `{"id":"1","n":2}`, "{\n  \"id\": \"1\",\n  \"n\": 2\n}"
	media := rfc("Content-Type changed on the way", k1.by, "header_changed")
	media.after = set("Content-Type", "application/json; charset=utf-8")
	gone := rfc("Content-Type removed on the way", k1.by, "header_removed")
	gone.after = func(r *http.Request) { r.Header.Del("Content-Type") }
	quotes := rfc("the key's quotes removed on the way", k1.by, "header_changed")
	quotes.after = set("Idempotency-Key", "evt_1")
	method := rfc("POST turned into PUT", k1.by, "method_changed")
	method.after = func(r *http.Request) { r.Method = http.MethodPut }
	method.config[0].Methods = []string{http.MethodPost, http.MethodPut}
	undated := rfc("without a time", k1.by, "no_time")
	undated.after = changed("Signature-Input", func(v string) string {
		return strings.Replace(v, "created=", "made=",
			1)
	})
	ends := rfc("expired in a queue", as(k1.by, func(s *verify.Signer) { s.Expires = time.Minute }), "expired")
	ends.late = 4 * time.Minute
	return append(plants,
		rfc("key of another producer", as(k3.by, func(s *verify.Signer) { s.KeyID = "k1" }), "other_key", shop(k1),
			lab),
		rfc("another own key", as(k2.by, func(s *verify.Signer) { s.KeyID = "k1" }), "other_key"),
		rfc("a known key under another id", as(k1.by, func(s *verify.Signer) { s.KeyID = "prod-1" }), "key_id"),
		rfc("an unknown key", as(k3.by, func(s *verify.Signer) { s.KeyID = "zz" }), "key_unknown"),
		rfc("the algorithm is not the key's", as(rsa.by, func(s *verify.Signer) {
			s.Alg,
				s.NameAlg = verify.RSAv15SHA256, true
		}), "algorithm"),
		rfc("the secret under the id of a public key", as(secret.by, func(s *verify.Signer) {
			s.KeyID,
				s.NameAlg = "k1", true
		}), "other_key"),
		rfc("PKCS #1 in place of PSS", as(rsa.by, func(s *verify.Signer) { s.Alg = verify.RSAv15SHA256 }), "algorithm"),
		rfc("the key is not covered", as(k1.by, func(s *verify.Signer) {
			s.Components = []string{"@method", "@target-uri", "content-digest", "content-type"}
		}), "not_covered"),
		rfc("another label", as(k1.by, func(s *verify.Signer) { s.Label = "other" }), "label", labelled),
		rfc("a shared secret decoded from hex", as(secret.by, func(s *verify.Signer) {
			s.Secret = []byte("\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef")
		}), "secret_encoding"),
		rfc("a newline after the shared secret", as(secret.by,
			func(s *verify.Signer) { s.Secret = []byte(hexSecret + "\n") }),
			"secret_characters"),
		rfc("lab's good delivery", k3.by, "other_endpoint", shop(k1), lab),
		rfc("ECDSA in DER", ec.by, "encoding").der(t, ec),
		other, compact, media, gone, quotes, method, undated, ends,
	)
}
