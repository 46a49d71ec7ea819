package preset

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/big"
	"net/http"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/verify"
)

// keySigner signs a sample with [Settings.SigningKey], as a vendor with a private key does. It
// returns the body.
type keySigner func(s Settings, r *http.Request, body []byte, now time.Time) ([]byte, error)

// payPalSampleCert is the address that samples name as that of the vendor's certificate.
const payPalSampleCert = "https://api.paypal.com/v1/notifications/certs/CERT-sample"

// signsContent returns a signer of time and body, with the key that the scheme's entry is for.
func signsContent(scheme *verify.HMAC) keySigner {
	return func(s Settings, r *http.Request, body []byte, now time.Time) ([]byte, error) {
		stamp := strconv.FormatInt(now.Unix(), 10)
		content := append([]byte(stamp), body...)
		var signed []byte
		var err error
		switch key := s.SigningKey.(type) {
		case ed25519.PrivateKey:
			signed = ed25519.Sign(key, content)
		case *ecdsa.PrivateKey:
			sum := sha256.Sum256(content)
			signed, err = ecdsa.SignASN1(rand.Reader, key, sum[:])
		default:
			err = errors.New("the key is neither of Ed25519 nor for ECDSA")
		}
		text := hex.EncodeToString(signed)
		if scheme.Encoding == verify.Base64 {
			text = base64.StdEncoding.EncodeToString(signed)
		}
		r.Header.Set(scheme.TimestampHeaders[0], stamp)
		r.Header.Set(scheme.Headers[0], text)
		return body, err
	}
}

func signPayPal(s Settings, r *http.Request, body []byte, now time.Time) ([]byte, error) {
	id, stamp := madeFrom(string(body))[7], now.UTC().Format(time.RFC3339)
	content := fmt.Sprintf("%s|%s|%s|%d", id, stamp, s.account(), crc32.ChecksumIEEE(body))
	sig, err := signRSA(s.SigningKey, []byte(content), nil)
	for name, value := range map[string]string{
		"Paypal-Transmission-Id": id, "Paypal-Transmission-Time": stamp, "Paypal-Auth-Algo": "SHA256withRSA",
		"Paypal-Cert-Url": payPalSampleCert, "Paypal-Transmission-Sig": base64.StdEncoding.EncodeToString(sig),
	} {
		r.Header.Set(name, value)
	}
	return body, err
}

func signSNS(s Settings, r *http.Request, body []byte, _ time.Time) ([]byte, error) {
	message, err := strictjson.ParseObject(body)
	if err != nil {
		return nil, err
	}
	content, err := snsContent(message)
	if err != nil {
		return nil, err
	}
	sig, err := signRSA(s.SigningKey, content, nil)
	if err != nil {
		return nil, err
	}
	kind, _ := message.Text("Type")
	r.Header.Set("X-Amz-Sns-Message-Type", kind)
	empty, full := []byte(`"Signature":""`), strconv.Quote(base64.StdEncoding.EncodeToString(sig))
	return bytes.Replace(body, empty, []byte(`"Signature":`+full), 1), nil
}

// signBearer sends a token of Google (RFC 7515) beside the body.
func signBearer(s Settings, r *http.Request, body []byte, now time.Time) ([]byte, error) {
	claims, err := json.Marshal(map[string]any{
		"aud": first(s.Audience), "iss": issuerOf(s), "email": s.Email, "email_verified": true, "sub": "17",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	})
	if err != nil {
		return nil, err
	}
	token, err := compactJWS(s, "RS256", claims, time.Time{})
	r.Header.Set("Authorization", "Bearer "+string(token))
	return body, err
}

// signAsToken returns a signer that makes the body a token (RFC 7515). With times in its header
// it ends after an hour.
func signAsToken(alg string, headerTimes bool) keySigner {
	return func(s Settings, _ *http.Request, body []byte, now time.Time) ([]byte, error) {
		if !headerTimes {
			now = time.Time{}
		}
		return compactJWS(s, alg, body, now)
	}
}

// compactJWS returns a signed token in the compact serialization (RFC 7515 section 3.1).
func compactJWS(s Settings, alg string, payload []byte, at time.Time) ([]byte, error) {
	head := map[string]any{"alg": alg, "typ": "JWT"}
	if s.SigningKeyID != "" {
		head["kid"] = s.SigningKeyID
	}
	if !at.IsZero() {
		head["iat"], head["exp"] = at.Unix(), at.Add(time.Hour).Unix()
	}
	header, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	b64 := base64.RawURLEncoding
	signed := []byte(b64.EncodeToString(header) + "." + b64.EncodeToString(payload))
	var sig []byte
	switch alg {
	case "ES256":
		sig, err = signES256(s.SigningKey, signed)
	case "PS256":
		pss := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
		sig, err = signRSA(s.SigningKey, signed, pss)
	default:
		sig, err = signRSA(s.SigningKey, signed, nil)
	}
	return append(append(signed, '.'), b64.EncodeToString(sig)...), err
}

// signRSA signs with SHA-256: PKCS #1 v1.5 without options (RFC 8017).
func signRSA(key crypto.Signer, content []byte, pss crypto.SignerOpts) ([]byte, error) {
	if _, ok := key.Public().(*rsa.PublicKey); !ok {
		return nil, errors.New("the key is not of RSA")
	}
	if pss == nil {
		pss = crypto.SHA256
	}
	sum := sha256.Sum256(content)
	return key.Sign(rand.Reader, sum[:], pss)
}

// signES256 returns r and s, 32 bytes each (RFC 7518 section 3.4).
func signES256(key crypto.Signer, content []byte) ([]byte, error) {
	if public, ok := key.Public().(*ecdsa.PublicKey); !ok || public.Curve.Params().BitSize != 256 {
		return nil, errors.New("the key is not of P-256")
	}
	sum := sha256.Sum256(content)
	der, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &pair); err != nil {
		return nil, err
	}
	return append(pair.R.FillBytes(make([]byte, 32)), pair.S.FillBytes(make([]byte, 32))...), nil
}

// settingsIn are the placeholders of settings that a body must contain.
func settingsIn(s Settings) []string {
	return []string{"{aud}", first(s.Audience), "{iss}", issuerOf(s), "{merchant}", first(s.Account),
		"{topic}", first(s.Topics), "{host}", cmp.Or(hostOf(first(s.Allow)), "cloud.example"),
		"{actor}", keyOwner(sampleKeyID(s))}
}

func issuerOf(s Settings) string {
	if len(s.Issuers) == 0 {
		return "https://accounts.google.com"
	}
	return s.Issuers[0]
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
