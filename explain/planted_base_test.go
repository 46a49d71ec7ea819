package explain_test

import (
	"cmp"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// changedScheme returns the producer with another scheme of RFC 9421.
func changedScheme(p producer.Producer, change func(*verify.RFC9421)) producer.Producer {
	change(p.Scheme.(*verify.RFC9421))
	return p
}

// signedLike returns the signer with the encodings of a scheme.
func (k keyPair) signedLike(like *verify.RFC9421) *verify.Signer {
	by := *k.by
	by.Like = like
	return &by
}

// covering returns the pair with a signer of these components.
func (k keyPair) covering(components ...string) keyPair {
	by := *k.by
	by.Components = append(components, "content-digest", "content-type", "idempotency-key")
	return keyPair{k.key, &by}
}

func inBase(before, after string) func(string) string {
	return func(base string) string {
		if !strings.Contains(base, before) {
			panic(before + " is not in " + base)
		}
		return strings.Replace(base, before, after, 1)
	}
}

// inOrder returns a base with its components in another order.
func inOrder(order func(lines []string)) func(string) string {
	return func(base string) string {
		lines := strings.SplitAfter(base, "\n")
		order(lines[:len(lines)-1])
		return strings.Join(lines, "")
	}
}

// basePlants are signatures in another encoding, or over another base.
func basePlants(t *testing.T) (plants []plant) {
	k2, e1, r1 := newPair(t, "k2", verify.Ed25519), newPair(t, "e1", verify.ECDSAP256SHA256),
		newPair(t, "r1", verify.RSAPSSSHA512)
	ed := func(b []byte) ([]byte, error) { return k2.by.Private.Sign(nil, b, crypto.Hash(0)) }
	add := func(name string, want explain.Cause, p producer.Producer, by any, signed, arrived string) {
		one := plant{name: name, scheme: "rfc9421", want: causes{want}, certain: true, config: one(p), by: by,
			fields: idempotency, url: at("/webhooks/shop" + cmp.Or(signed, arrived))}
		if signed != "" {
			one.after = called(at("/webhooks/shop" + arrived))
		}
		plants = append(plants, one)
	}
	inURL := r1.signedLike(&verify.RFC9421{Encoding: verify.Base64URL})
	add("base64url in place of base64", "encoding", shop(r1), inURL, "", "")
	add("base64 in place of base64url", "encoding",
		changedScheme(shop(r1), func(s *verify.RFC9421) { s.Encoding = verify.Base64URL }), r1.by, "", "")
	add("r and s in place of DER", "encoding", changedScheme(shop(e1), func(s *verify.RFC9421) { s.DER = true }),
		e1.by, "", "")
	reversed := inOrder(slices.Reverse[[]string])
	add("components in reverse order", "content", shop(k2), k2.resigned(t, reversed, ed), "", "")
	add("the last component first", "content", shop(k2), k2.resigned(t, inOrder(func(lines []string) {
		last := lines[len(lines)-1]
		copy(lines[1:], lines)
		lines[0] = last
	}), ed), "", "")
	parts := k2.covering("@path", "@method", "@authority", "@query")
	for name, order := range map[string]func([]string){
		"of seven components, reversed": slices.Reverse[[]string], "sorted": slices.Sort[[]string],
		"with two exchanged": func(lines []string) { lines[2], lines[3] = lines[3], lines[2] },
	} {
		add("the order "+name, "content", shop(k2), parts.resigned(t, inOrder(order), ed), "", "?a=1")
	}
	for name, query := range map[string][2]string{
		"without its question mark": {"?a=b%20c&d=%2f", "a=b%20c&d=%2f"}, "decoded": {"?a=b%20c&d=%2f", "?a=b c&d=/"},
		"decoded and without its question mark": {"?a=b%20c&d=%2f", "a=b c&d=/"}, "empty": {"?a=1", ""},
		"alone": {"?a=1", "?"}, "none, as an empty text": {"?", ""},
		"encoded again":            {"?d=%2f&a=b%20c", "?d=%2F&a=b+c"},
		"encoded again with %20":   {"?d=%2f&a=b+c", "?d=%2F&a=b%20c"},
		"encoded again and sorted": {"?d=%2f&a=b+c", "?a=b+c&d=%2F"},
	} {
		before, after := `"@query": `+query[0]+"\n", `"@query": `+query[1]+"\n"
		add("@query "+name, "url_query", shop(k2), parts.resigned(t, inBase(before, after), ed), "",
			strings.TrimSuffix(query[0], "?"))
	}
	escaped := func(normal bool) producer.Producer {
		p := changedScheme(shop(k2), func(s *verify.RFC9421) { s.NormalPath = normal })
		p.URL = at("/webhooks/shop%7e%2f")
		return p
	}
	for _, c := range []struct {
		name, to string
		normal   bool
	}{
		{"in normal form", "/webhooks/shop~%2F", false}, {"decoded", "/webhooks/shop~/", false},
		{"as it is sent", "/webhooks/shop%7e%2f", true},
	} {
		for component, pair := range map[string]keyPair{"@path": parts, "@target-uri": k2} {
			by := pair.resigned(t, inBase("/webhooks/shop%7e%2f", c.to), ed)
			add(component+" "+c.name, "url_escapes", escaped(c.normal), by, "%7e%2f", "")
		}
	}
	return plants
}

// published serves a key set, and at /revoked a list of revoked keys that one of the keys signs.
func published(t *testing.T, cfg verify.JWKSConfig, by keyPair, keys ...string) producer.Producer {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/revoked" {
			fmt.Fprintf(w, `{"keys":[%s]}`, strings.Join(keys, ","))
			return
		}
		b64 := base64.RawURLEncoding.EncodeToString
		list, _ := json.Marshal(map[string]any{"issuer": server.URL, "updated": time.Now(),
			"next_update": time.Now().Add(time.Hour), "revoked_kids": []string{"k1"}})
		head := fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"typ":"adcp-gov-revocation+jws"}`, by.key.ID)
		text := b64([]byte(head)) + "." + b64(list)
		sig, _ := by.by.Private.Sign(nil, []byte(text), crypto.Hash(0))
		_, _ = w.Write([]byte(text + "." + b64(sig)))
	}))
	t.Cleanup(server.Close)
	if cfg.URL = server.URL; cfg.Revoked != "" {
		cfg.Revoked = server.URL + "/revoked"
	}
	set, err := verify.NewJWKS(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close() })
	return producer.Signed("shop", set)
}

// keyPlants are signed with keys that the sender publishes and that are not for signatures.
func keyPlants(t *testing.T) (plants []plant) {
	k1, k2 := newPair(t, "k1", verify.Ed25519), newPair(t, "k2", verify.Ed25519)
	other := jwkOf(t, "k2", "", k2.by.Private)
	purposes := map[string][]string{"adcp_use": {"webhook-signing"}}
	for _, c := range []struct {
		name, members string
		cfg           verify.JWKSConfig
		want          explain.Cause
	}{
		{"use is enc", `,"use":"enc"`, verify.JWKSConfig{}, "key_purpose"},
		{"key_ops without verify", `,"key_ops":["encrypt"]`, verify.JWKSConfig{}, "key_purpose"},
		{"without adcp_use", ``, verify.JWKSConfig{Purposes: purposes}, "key_purpose"},
		{"on the list of revoked keys", ``, verify.JWKSConfig{Revoked: "/"}, "key_revoked"},
	} {
		key := strings.TrimSuffix(jwkOf(t, "k1", "", k1.by.Private), "}") + c.members + "}"
		plants = append(plants, plant{name: "a key " + c.name, scheme: "rfc9421", want: causes{c.want}, certain: true,
			config: one(published(t, c.cfg, k2, key, other)), by: k1.by, fields: idempotency})
	}
	return plants
}
