package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestWeakKeysAreRefused(t *testing.T) {
	t.Parallel()
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	big2048 := new(big.Int).Lsh(big.NewInt(1), 2047)
	for _, c := range []struct {
		name   string
		id     string
		alg    Alg
		public crypto.PublicKey
		want   string
	}{
		{"no id", "", "", p256.Public(), "needs an id"},
		{"RSA of 1024 bits", "k", RSAPSSSHA512, small.Public(), "1024 bits"},
		{"RSA of 16384 bits", "k", "", &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 16383), E: 65537},
			"16384 bits"},
		{"RSA with the exponent 1", "k", "", &rsa.PublicKey{N: big2048, E: 1}, "exponent"},
		{"RSA with an even exponent", "k", "", &rsa.PublicKey{N: big2048, E: 65536}, "exponent"},
		{"an empty RSA key", "k", "", &rsa.PublicKey{}, "empty"},
		{"a nil RSA key", "k", "", (*rsa.PublicKey)(nil), "empty"},
		{"P-521", "k", "", p521.Public(), "P-521"},
		{"a nil EC key", "k", "", (*ecdsa.PublicKey)(nil), "empty"},
		{"a short Ed25519 key", "k", "", ed25519.PublicKey("short"), "bytes"},
		{"a secret", "k", "", []byte("0123456789abcdef"), "not supported"},
		{"nothing", "k", "", nil, "not supported"},
		{"P-256 as P-384", "k", ECDSAP384SHA384, p256.Public(), "does not fit"},
		{"P-256 as HMAC", "k", HMACSHA256, p256.Public(), "does not fit"},
		{"an unknown algorithm", "k", "none", p256.Public(), "does not fit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := NewPublicKey(c.id, c.alg, c.public); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestEncodedKeysAreNotSecrets(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", ECDSAP256SHA256)
	text, err := MarshalPublicKey(p.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	private, err := MarshalPrivateKey(p.signer.Private)
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string][]byte{
		"15 bytes":              []byte("0123456789abcde"),
		"nothing":               nil,
		"PEM":                   text,
		"DER":                   block.Bytes,
		"DER in base64":         []byte(base64.StdEncoding.EncodeToString(block.Bytes)),
		"a private key":         private,
		"a certificate":         certificate(t, p, "host.example").Raw,
		"a JSON Web Key":        []byte(`{"kty":"OKP","crv":"Ed25519","x":"AAAA"}`),
		"a JSON Web Key Set":    []byte(`{"keys": []}` + strings.Repeat(" ", 16)),
		"PEM after other text ": append([]byte("key:\n"), text...),
	} {
		if _, err := NewHMACKey("k", secret); err == nil {
			t.Errorf("%s passes for a secret", name)
		}
	}
	if _, err := NewHMACKey("", []byte("0123456789abcdef")); err == nil {
		t.Error("a key without an id")
	}
	if _, err := NewHMACKey("k", []byte("0123456789abcdef")); err != nil {
		t.Error(err)
	}
}

// certificate returns a certificate of the key for a host.
func certificate(t *testing.T, p testPair, host string) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: testNow, NotAfter: testNow.Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, p.signer.Private.Public(), p.signer.Private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestSecretsOfAnyLengthMakeTheSameMAC(t *testing.T) {
	t.Parallel()
	for _, n := range []int{16, 63, 64, 65, 200} {
		secret := bytes.Repeat([]byte("s"), n)
		key, err := NewHMACKey("k", secret)
		if err != nil {
			t.Fatal(err)
		}
		p := testPair{key, Signer{KeyID: "k", Secret: secret}}
		r := newDelivery(t, testBody)
		p.sign(t, r, testBody)
		clear(secret) // the Key has a copy
		if _, err := (&RFC9421{Keys: StaticKeys(key)}).Verify(r, bodyOf(testBody)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestAKeyNeverPrintsItsSecret(t *testing.T) {
	t.Parallel()
	secret := "correct horse battery staple"
	key, err := NewHMACKey("k1", []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", key, "keys", []Key{key})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", key, "pointer", &key)
	asJSON, err := json.Marshal(map[string]any{"key": key, "pointer": &key})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{log.String(), string(asJSON)}
	hidden := struct{ keys []Key }{[]Key{key}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(format, key), fmt.Sprintf(format, &key), fmt.Sprintf(format, []Key{key}),
			fmt.Sprintf(format, hidden), fmt.Sprintf(format, StaticKeys(key)))
	}
	for _, text := range texts {
		for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%d", []byte(secret))[1:20]} {
			if strings.Contains(text, form) {
				t.Errorf("%s reveals the secret", text)
			}
		}
	}
	if got, want := fmt.Sprintf("%#v", key), `verify.Key{ID:"k1", Alg:"hmac-sha256"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !strings.Contains(log.String(), "k1") {
		t.Errorf("the log does not name the key: %s", log.String())
	}
}

func TestPublishedTestKeysAreRecognized(t *testing.T) {
	t.Parallel()
	keys := loadVectorKeys(t, rfcVectors+"/rfc9421")
	if len(keys) != 5 {
		t.Fatalf("%d keys, want the 5 of RFC 9421 appendix B.1", len(keys))
	}
	for id, k := range keys {
		if k.ID = "another id"; !IsTestKey(k) {
			t.Errorf("%s (%s) is not known", id, k.Fingerprint())
		}
	}
	undecoded, err := NewHMACKey("k",
		[]byte("uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ=="))
	if err != nil || !IsTestKey(undecoded) {
		t.Errorf("the shared secret's text is not known: %v", err)
	}
	for _, k := range []Key{{}, {ID: "k"}, newPair(t, "k", HMACSHA256).key, newPair(t, "k", Ed25519).key} {
		if IsTestKey(k) {
			t.Errorf("%v passes for a test key", k)
		}
	}
}

func TestPublicKeysAreReadInEveryForm(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", ECDSAP256SHA256)
	rsaPair := newPair(t, "k", RSAPSSSHA512)
	spki, err := MarshalPublicKey(p.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, ok := rsaPair.key.Public().(*rsa.PublicKey)
	if !ok {
		t.Fatal("no RSA key")
	}
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(rsaKey)})
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate(t, p, "host.example").Raw})
	for name, c := range map[string]struct {
		text []byte
		want Key
	}{
		"PKIX": {spki, p.key}, "PKCS #1": {pkcs1, rsaPair.key}, "a certificate": {cert, p.key},
		"JWK": {jwkOf(t, "j", "ES256", p.key.Public()), p.key},
	} {
		got, err := ParsePublicKey("k", "", c.text)
		if err != nil || got.Fingerprint() != c.want.Fingerprint() || got.Alg != c.want.Alg || got.ID != "k" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	two, err := ParsePublicKeys("k", "", append(append([]byte{}, spki...), cert...))
	if err != nil || len(two) != 2 {
		t.Errorf("two blocks: %v, %v", two, err)
	}
}

func TestInvalidPublicKeyTexts(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", ECDSAP256SHA256)
	rsaPair := newPair(t, "k", RSAPSSSHA512)
	spki, err := MarshalPublicKey(p.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	private, err := MarshalPrivateKey(p.signer.Private)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		alg  Alg
		text string
		want string
	}{
		"nothing":           {"", "", "neither PEM"},
		"words":             {"", "a key", "neither PEM"},
		"text after it":     {"", string(spki) + "and more", "neither PEM"},
		"a private key":     {"", string(private), "private key"},
		"both":              {"", string(spki) + string(private), "private key"},
		"two keys":          {"", string(spki) + string(spki), "2 keys"},
		"another algorithm": {Ed25519, string(spki), "does not fit"},
		"an unknown block":  {"", "-----BEGIN DOG-----\nAAAA\n-----END DOG-----\n", "DOG"},
		"broken DER":        {"", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "parsed"},
		"broken JSON":       {"", "{", "not JSON"},
		"not a JWK":         {"", "{}", "cannot be parsed"},
		"an empty set":      {"", `{"keys":[]}`, "empty"},
		"a symmetric JWK":   {"", `{"kty":"oct","k":"c2VjcmV0LXNlY3JldC1zZWNyZXQ"}`, "symmetric"},
		"a private JWK": {"",
			`{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",` +
				`"d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}`, "private"},
		"a JWK for encryption": {"", string(jwkWith(t, p.key.Public(), `"use":"enc"`)), "not for signatures"},
		"RS256 without saying": {"", string(jwkOf(t, "j", "RS256", rsaPair.key.Public())), "rsa-v1_5-sha256"},
		"RS256 as PSS":         {RSAPSSSHA512, string(jwkOf(t, "j", "RS256", rsaPair.key.Public())), "RS256"},
		"PS256":                {"", string(jwkOf(t, "j", "PS256", rsaPair.key.Public())), "PS256"},
	} {
		_, err := ParsePublicKey("k", c.alg, []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if k, err := ParsePublicKey("", "", jwkOf(t, "", "ES256", p.key.Public())); err == nil {
		t.Errorf("a JWK without an id: %v", k)
	}
	if k, err := ParsePublicKey("k", RSAv15SHA256, jwkOf(t, "j", "RS256", rsaPair.key.Public())); err != nil ||
		k.Alg != RSAv15SHA256 {
		t.Errorf("RS256 when named: %v, %v", k, err)
	}
}

// jwkOf encodes a public key as a JSON Web Key.
func jwkOf(t testing.TB, kid, alg string, public crypto.PublicKey) []byte {
	t.Helper()
	return jwkWith(t, public, fmt.Sprintf(`"kid":%q,"alg":%q`, kid, alg))
}

func jwkWith(t testing.TB, public crypto.PublicKey, members string) []byte {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	var key string
	switch k := public.(type) {
	case ed25519.PublicKey:
		key = fmt.Sprintf(`"kty":"OKP","crv":"Ed25519","x":%q`, b64(k))
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		n := len(point) / 2
		key = fmt.Sprintf(`"kty":"EC","crv":%q,"x":%q,"y":%q`,
			k.Curve.Params().Name, b64(point[1:1+n]), b64(point[1+n:]))
	case *rsa.PublicKey:
		key = fmt.Sprintf(`"kty":"RSA","n":%q,"e":%q`, b64(k.N.Bytes()), b64(big.NewInt(int64(k.E)).Bytes()))
	}
	return []byte("{" + members + "," + key + "}")
}

func TestPrivateKeysAreReadInEveryForm(t *testing.T) {
	t.Parallel()
	for _, alg := range []Alg{Ed25519, ECDSAP256SHA256, ECDSAP384SHA384, RSAPSSSHA512} {
		private := newPair(t, "k", alg).signer.Private
		text, err := MarshalPrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParsePrivateKey(text)
		if err != nil {
			t.Fatal(err)
		}
		if k, ok := again.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !k.Equal(private.Public()) {
			t.Errorf("%s: got another key", alg)
		}
	}
	public, err := MarshalPublicKey(newPair(t, "k", Ed25519).key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"", "key", string(public), "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
	} {
		if _, err := ParsePrivateKey([]byte(text)); err == nil {
			t.Errorf("%q passes for a private key", text)
		}
	}
	if _, err := GenerateKey(HMACSHA256); err == nil {
		t.Error("a key pair for hmac-sha256")
	}
}
