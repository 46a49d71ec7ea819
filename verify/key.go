package verify

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// Bounds on keys. Larger RSA keys cost the verifier more than they add.
const (
	minSecret  = 16 // bytes of an HMAC secret
	minRSABits = 2048
	maxRSABits = 8192
)

// Key is one key of a producer. The constructors check its strength; a Key made without them
// verifies nothing. A Key prints its id and algorithm, never its secret.
type Key struct {
	ID        string // by which requests refer to the key
	Alg       Alg    // the only algorithm of the key
	Principal string // the identity that the key proves; empty is the producer itself

	material *material
}

// material is the immutable content of a key. It is behind a pointer, so printing a Key by
// reflection shows an address and no secret.
type material struct {
	alg         Alg // of check, even if Key.Alg is changed
	public      crypto.PublicKey
	fingerprint string
	check       primitive
	secret      func() Secret // the shared secret, which no printer by reflection can reach; or nil
}

// NewHMACKey makes a key for hmac-sha256 (RFC 9421 section 3.3.3) of a secret of at least 16
// bytes, which is copied. The text or encoding of a public or private key is refused as a
// secret: others know it (RFC 9421 section 7.3.6).
func NewHMACKey(id string, secret []byte) (Key, error) {
	if id == "" {
		return Key{}, errors.New("a key needs an id")
	}
	if len(secret) < minSecret {
		return Key{}, fmt.Errorf("key %q: the secret has %d bytes and needs at least %d", id, len(secret), minSecret)
	}
	if what := encodedKey(secret); what != "" {
		return Key{}, fmt.Errorf("key %q: the secret is %s, which is not a secret", id, what)
	}
	text := Secret(secret)
	return Key{ID: id, Alg: HMACSHA256, material: &material{
		alg: HMACSHA256, fingerprint: secretFingerprint(secret), check: newHMACPrimitive(bytes.Clone(secret)),
		secret: func() Secret { return text },
	}}, nil
}

// NewPublicKey makes a key of an *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey. The
// algorithm must fit the key; "" chooses it by the type of the key (rsa-pss-sha512 for RSA).
// rsa-v1_5-sha256 must be named here and listed in [RFC9421.Algs]. RSA keys have at least 2048
// bits.
func NewPublicKey(id string, alg Alg, public crypto.PublicKey) (Key, error) {
	if id == "" {
		return Key{}, errors.New("a key needs an id")
	}
	return newPublicKey(id, alg, public)
}

// newPublicKey is NewPublicKey for keys of a set, which need no id.
func newPublicKey(id string, alg Alg, public crypto.PublicKey) (Key, error) {
	fits, err := algsOf(public)
	if err != nil {
		return Key{}, fmt.Errorf("key %q: %w", id, err)
	}
	alg = cmp.Or(alg, fits[0])
	if !slices.Contains(fits, alg) {
		return Key{}, fmt.Errorf("key %q: algorithm %q does not fit a key for %s", id, alg, fits[0])
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return Key{}, fmt.Errorf("key %q: %w", id, err)
	}
	sum := sha256.Sum256(der)
	return Key{ID: id, Alg: alg, material: &material{
		alg: alg, public: public, fingerprint: hex.EncodeToString(sum[:]),
		check: newPublicPrimitive(alg, public),
	}}, nil
}

// algsOf checks the strength of a public key and returns the algorithms that fit it, the
// default first.
func algsOf(public crypto.PublicKey) ([]Alg, error) {
	switch k := public.(type) {
	case ed25519.PublicKey:
		if len(k) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("an Ed25519 key has %d bytes, not %d", ed25519.PublicKeySize, len(k))
		}
		if smallOrder(k) {
			return nil, errors.New("the Ed25519 key is a point of small order: anyone can sign for it")
		}
		return []Alg{Ed25519}, nil
	case *ecdsa.PublicKey:
		if k == nil || k.Curve == nil {
			return nil, errors.New("the EC key is empty")
		}
		if _, err := k.ECDH(); err != nil { // not a point of its curve
			return nil, errors.New("the EC key is not a point of a supported curve")
		}
		switch k.Curve {
		case elliptic.P256():
			return []Alg{ECDSAP256SHA256}, nil
		case elliptic.P384():
			return []Alg{ECDSAP384SHA384}, nil
		}
		return nil, fmt.Errorf("curve %s is not supported: P-256 and P-384 are", k.Curve.Params().Name)
	case *rsa.PublicKey:
		if k == nil || k.N == nil {
			return nil, errors.New("the RSA key is empty")
		}
		if n := k.N.BitLen(); n < minRSABits || n > maxRSABits {
			return nil, fmt.Errorf("the RSA key has %d bits: %d to %d are accepted", n, minRSABits, maxRSABits)
		}
		if k.E < 3 || k.E%2 == 0 {
			return nil, fmt.Errorf("the RSA key's exponent is %d", k.E)
		}
		return []Alg{RSAPSSSHA512, RSAv15SHA256}, nil
	}
	return nil, fmt.Errorf("keys of type %T are not supported: RSA, ECDSA and Ed25519 public keys are", public)
}

// checkTokenKey checks the strength of a public key for tokens: one for HTTP signatures, or one of
// P-521, which only tokens use (ES512, RFC 7518 section 3.4).
func checkTokenKey(public crypto.PublicKey) error {
	ec, ok := public.(*ecdsa.PublicKey)
	if !ok || ec == nil || ec.Curve != elliptic.P521() {
		_, err := algsOf(public)
		return err
	}
	if _, err := ec.ECDH(); err != nil {
		return errors.New("the EC key is not a point of its curve")
	}
	return nil
}

// encodedKey describes a secret that is an encoded key, or returns "".
func encodedKey(secret []byte) string {
	text := bytes.TrimSpace(secret)
	if b, _ := pem.Decode(text); b != nil || bytes.Contains(text, []byte("-----BEGIN ")) {
		return "PEM text"
	}
	var jwk struct {
		Type string          `json:"kty"`
		Keys json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(text, &jwk) == nil && (jwk.Type != "" || jwk.Keys != nil) {
		return "a JSON Web Key"
	}
	der := secret
	for range 2 { // as it is, then decoded from base64
		_, err1 := x509.ParsePKIXPublicKey(der)
		if _, err2 := x509.ParsePKCS1PublicKey(der); err1 == nil || err2 == nil {
			return "a public key"
		}
		if _, err := x509.ParseCertificate(der); err == nil {
			return "a certificate"
		}
		if _, err := x509.ParsePKCS8PrivateKey(der); err == nil {
			return "a private key"
		}
		decoded, err := base64.StdEncoding.DecodeString(string(text))
		if err != nil {
			break
		}
		der = decoded
	}
	return ""
}

// secretFingerprint identifies a secret. It is a MAC with the secret as the key, so it reveals
// nothing to anyone who cannot guess the whole secret.
func secretFingerprint(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("eyelet key fingerprint"))
	return hex.EncodeToString(mac.Sum(nil))
}

// Public returns the public key, or nil for a shared secret.
func (k Key) Public() crypto.PublicKey {
	if k.material == nil {
		return nil
	}
	return k.material.public
}

// Fingerprint returns 64 hexadecimal digits that identify the key material, whatever its id and
// algorithm: the SHA-256 of the public key's PKIX encoding, or a MAC with the secret. It is
// empty for a Key that no constructor made.
func (k Key) Fingerprint() string {
	if k.material == nil {
		return ""
	}
	return k.material.fingerprint
}

// String returns the id and the algorithm.
func (k Key) String() string { return fmt.Sprintf("key %q (%s)", k.ID, k.Alg) }

// GoString returns the id and the algorithm.
func (k Key) GoString() string { return fmt.Sprintf("verify.Key{ID:%q, Alg:%q}", k.ID, k.Alg) }

// LogValue returns the id and the algorithm.
func (k Key) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", k.ID), slog.String("alg", string(k.Alg)))
}

// MarshalJSON returns the id, the algorithm and the principal.
func (k Key) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID        string `json:"id"`
		Alg       Alg    `json:"alg"`
		Principal string `json:"principal,omitempty"`
	}{k.ID, k.Alg, k.Principal})
}

// IsTestKey reports whether the key was published for tests, as those of RFC 9421 appendix B.1:
// anyone can sign with it.
func IsTestKey(k Key) bool {
	_, ok := testKeys[k.Fingerprint()]
	return ok
}

// smallOrderPoints are the y-coordinates of the Ed25519 points whose order divides 8, as
// encoded in a key (RFC 8032 section 5.1.2), in every encoding that a verifier accepts.
// Signatures for such a key can be made without a private key.
var smallOrderPoints = [][ed25519.PublicKeySize]byte{
	point("0000000000000000000000000000000000000000000000000000000000000000"), // order 4
	point("0100000000000000000000000000000000000000000000000000000000000000"), // order 1
	point("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), // order 8
	point("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), // order 8
	point("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"), // order 2
	point("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"), // order 4, y = p
	point("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"), // order 1, y = p + 1
}

func point(digits string) (y [ed25519.PublicKeySize]byte) {
	_, _ = hex.Decode(y[:], []byte(digits)) // a constant
	return y
}

// smallOrder reports whether a key of the right length is a point of small order, with either
// sign of x.
func smallOrder(key ed25519.PublicKey) bool {
	y := [ed25519.PublicKeySize]byte(key)
	y[len(y)-1] &= 0x7f
	return slices.Contains(smallOrderPoints, y)
}

// testKeys are the fingerprints of keys that were published for tests, private halves included.
var testKeys = map[string]string{
	// RFC 9421 appendix B.1
	"c73eecd318bd3813f2402a660d8a90010ca35d609d19377d5ee7af200713229f": "test-key-rsa",
	"72859cbaf21a0b398b1f25712bbed148b1d85a0c6b824176eb306405caa6f0b2": "test-key-rsa-pss",
	"55f96361b78cbb84f1fc604b0718e82bd91abb46d8fc25ae871b35fbbf8b7974": "test-key-ecc-p256",
	"34571606cb7a0d71be377e671ddcccae2a169ed7733598214129231cd30c4a3c": "test-key-ed25519",
	"586642c6a191a9281dc595811486c27f4fc49722103f98d07227aa72c6c047a4": "test-shared-secret",
	"17c9e7cbd01ca1718a8e7669cb5d6f90b06e092a2f4d7d8cb3e6904856cd3e22": "test-shared-secret, not decoded from base64",
}
