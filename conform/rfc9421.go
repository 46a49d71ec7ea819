package conform

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// signer signs and verifies with one key of one algorithm of RFC 9421 section 3.3.
type signer interface {
	sign(base []byte) []byte
	verify(base, signature []byte) bool
}

// signers returns the key of the profile, and another key for its algorithm.
func (p *Profile) signers() (key, foreign signer, err error) {
	if p.Signature.Alg == "hmac-sha256" {
		secret, err := p.secret()
		if err == nil && len(secret) == 0 {
			err = errors.New("the secret is empty: set it, or the variable that it names")
		}
		return hmacKey(secret), hmacKey("not the secret of the profile"), err
	}
	data, err := os.ReadFile(p.Signature.Key)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, nil, fmt.Errorf("%s has no PEM block", p.Signature.Key)
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("%s has neither a PKCS #8 private key nor a public key", p.Signature.Key)
		}
		return &keyPair{alg: p.Signature.Alg, public: public}, nil, nil
	}
	own, ok := private.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("%s has no key that signs", p.Signature.Key)
	}
	other, err := newKey(p.Signature.Alg)
	if err != nil {
		return nil, nil, err
	}
	if fmt.Sprintf("%T", other) != fmt.Sprintf("%T", own) {
		return nil, nil, fmt.Errorf("%s has no key for %s", p.Signature.Key, p.Signature.Alg)
	}
	return &keyPair{p.Signature.Alg, own, own.Public()}, &keyPair{p.Signature.Alg, other, other.Public()}, nil
}

func newKey(alg string) (crypto.Signer, error) {
	switch alg {
	case "ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	case "ecdsa-p256-sha256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "rsa-pss-sha512", "rsa-v1_5-sha256":
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return nil, fmt.Errorf("alg %q is not hmac-sha256, ed25519, ecdsa-p256-sha256, rsa-pss-sha512 "+
		"or rsa-v1_5-sha256", alg)
}

type hmacKey []byte

func (k hmacKey) sign(base []byte) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write(base)
	return mac.Sum(nil)
}

func (k hmacKey) verify(base, signature []byte) bool { return hmac.Equal(k.sign(base), signature) }

// keyPair is a key of any other algorithm. Without private it only verifies.
type keyPair struct {
	alg     string
	private crypto.Signer
	public  crypto.PublicKey
}

var pssOptions = &rsa.PSSOptions{SaltLength: 64, Hash: crypto.SHA512}

func (k *keyPair) sign(base []byte) []byte {
	var out []byte
	var err error
	switch sum, wide := sha256.Sum256(base), sha512.Sum512(base); k.alg {
	case "ed25519":
		out, err = k.private.Sign(nil, base, crypto.Hash(0))
	case "rsa-pss-sha512":
		out, err = k.private.Sign(rand.Reader, wide[:], pssOptions)
	case "rsa-v1_5-sha256":
		out, err = k.private.Sign(rand.Reader, sum[:], crypto.SHA256)
	default:
		var r, s *big.Int
		own, ok := k.private.(*ecdsa.PrivateKey)
		if !ok {
			panic("conform: the key of the profile is not one of " + k.alg)
		}
		if r, s, err = ecdsa.Sign(rand.Reader, own, sum[:]); err == nil {
			out = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		}
	}
	if err != nil {
		panic(fmt.Sprintf("conform: signing with %s: %v", k.alg, err))
	}
	return out
}

func (k *keyPair) verify(base, signature []byte) bool {
	sum, wide := sha256.Sum256(base), sha512.Sum512(base)
	switch public := k.public.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(public, base, signature)
	case *ecdsa.PublicKey:
		return len(signature) == 64 && ecdsa.Verify(public, sum[:],
			new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	case *rsa.PublicKey:
		if k.alg == "rsa-pss-sha512" {
			return rsa.VerifyPSS(public, crypto.SHA512, wide[:], signature, pssOptions) == nil
		}
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}

// signing is how a delivery is signed with RFC 9421. Checks change it before the delivery is
// signed.
type signing struct {
	key        signer
	label      string
	components []string // as they are written: "@method", "content-digest", and their parameters
	params     []field  // in their order, the values as they are written; empty ones are made by sign
	digest     string   // the value of Content-Digest; made if empty
}

func newSigning(p *Profile, key signer) *signing {
	s := &signing{key: key, label: p.Signature.Label, components: slices.Clone(p.Signature.Components)}
	for _, param := range []field{
		{"created", ""}, {"keyid", quoted(p.Signature.KeyID)}, {"alg", quoted(p.Signature.Alg)},
		{"tag", quoted(p.Signature.Tag)}, {"nonce", ""},
	} {
		switch {
		case slices.Contains(p.Signature.Omit, param.name), param.value == `""`:
		case param.name == "nonce" && !p.Signature.Nonce:
		default:
			s.params = append(s.params, param)
		}
	}
	return s
}

func quoted(text string) string { return `"` + text + `"` }

// param sets a parameter, as it is written; an empty value removes it.
func (s *signing) param(name, value string) {
	i := slices.IndexFunc(s.params, func(f field) bool { return f.name == name })
	s.params = slices.Clone(s.params)
	switch {
	case i < 0 && value == "":
	case i < 0:
		s.params = append(s.params, field{name, value})
	case value == "":
		s.params = slices.Delete(s.params, i, i+1)
	default:
		s.params[i].value = value
	}
}

// sign sets Content-Digest, if it is covered, Signature-Input and Signature.
func (s *signing) sign(d *delivery) {
	if slices.ContainsFunc(s.components, func(c string) bool { return strings.HasPrefix(c, `"content-digest"`) }) {
		d.set("Content-Digest", cmp.Or(s.digest, digestOf(d.body)))
	}
	input := s.input(d)
	d.set("Signature-Input", s.label+"="+input)
	base := signatureBase(s.components, input, func(c string) string {
		return component(c, d.method, d.s.url.Scheme, d.host, d.target, d.lines)
	})
	d.set("Signature", s.label+"="+binary(s.key.sign(base)))
}

// binary returns a Byte Sequence of structured fields.
func binary(data []byte) string { return ":" + base64.StdEncoding.EncodeToString(data) + ":" }

// digestOf returns the value of Content-Digest.
func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha-256=" + binary(sum[:])
}

// input returns the covered components and the parameters of the signature.
func (s *signing) input(d *delivery) string {
	var b strings.Builder
	b.WriteString("(" + strings.Join(s.components, " ") + ")")
	for _, p := range s.params {
		switch {
		case p.value != "":
		case p.name == "created":
			p.value = strconv.FormatInt(d.at.Unix(), 10)
		case p.name == "nonce":
			p.value = quoted(d.s.id())
		}
		b.WriteString(";" + p.name + "=" + p.value)
	}
	return b.String()
}

// signatureBase returns that of RFC 9421 section 2.5.
func signatureBase(components []string, input string, value func(component string) string) []byte {
	var b strings.Builder
	for _, c := range components {
		b.WriteString(c + ": " + value(c) + "\n")
	}
	b.WriteString(`"@signature-params": ` + input)
	return []byte(b.String())
}

// component returns the value of a component (RFC 9421 sections 2.1 and 2.2) of a request. One that
// is not known has no value: checks send those to see them refused.
func component(c, method, scheme, host, target string, fields func(name string) []string) string {
	name, params, _ := strings.Cut(strings.TrimPrefix(c, `"`), `"`)
	path, query, hasQuery := strings.Cut(target, "?")
	switch name {
	case "@method":
		return method
	case "@scheme":
		return scheme
	case "@authority":
		host = strings.ToLower(host)
		if port := map[string]string{"http": ":80", "https": ":443"}[scheme]; strings.HasSuffix(host, port) {
			host = strings.TrimSuffix(host, port)
		}
		return host
	case "@target-uri":
		return scheme + "://" + host + target
	case "@request-target":
		return target
	case "@path":
		return cmp.Or(path, "/")
	case "@query":
		return "?" + query
	case "@query-param":
		_, wanted, _ := strings.Cut(params, `name="`)
		values, err := url.ParseQuery(query)
		if err != nil || !hasQuery {
			return ""
		}
		text := url.QueryEscape(values.Get(strings.TrimSuffix(wanted, `"`)))
		return strings.ReplaceAll(text, "+", "%20")
	}
	all := fields(name)
	for i, v := range all {
		all[i] = strings.Trim(v, " \t")
		if strings.Contains(params, ";bs") {
			all[i] = binary([]byte(all[i]))
		}
	}
	value := strings.Join(all, ", ")
	if _, key, ok := strings.Cut(params, `;key="`); ok {
		return members(all)[strings.TrimSuffix(key, `"`)]
	}
	return value
}
