package verify

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
)

// ParsePublicKey reads one public key: a PEM block "PUBLIC KEY" (RFC 5280), "RSA PUBLIC KEY"
// (PKCS #1) or "CERTIFICATE", or a JSON Web Key (RFC 7517). The algorithm must fit the key; ""
// takes that of the JSON Web Key or of the key's type. A private key is refused.
func ParsePublicKey(id string, alg Alg, text []byte) (Key, error) {
	keys, err := ParsePublicKeys(id, alg, text)
	if err != nil {
		return Key{}, err
	}
	if len(keys) != 1 {
		return Key{}, fmt.Errorf("key %q: there are %d keys, not one", id, len(keys))
	}
	if keys[0].ID == "" {
		return Key{}, errors.New("a key needs an id")
	}
	return keys[0], nil
}

// ParsePublicKeys reads all keys of a text in the forms of [ParsePublicKey]. They all get the
// given id; with an empty one, those of a JSON Web Key Set keep their own.
func ParsePublicKeys(id string, alg Alg, text []byte) ([]Key, error) {
	if t := bytes.TrimSpace(text); len(t) > 0 && t[0] == '{' {
		return parseJWKText(id, alg, t)
	}
	var keys []Key
	for rest := text; ; {
		block, after := pem.Decode(rest)
		if block == nil {
			if len(bytes.TrimSpace(rest)) > 0 || len(keys) == 0 {
				return nil, fmt.Errorf("key %q: the text is neither PEM nor a JSON Web Key", id)
			}
			return keys, nil
		}
		public, err := publicOf(block)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", id, err)
		}
		k, err := NewPublicKey(id, alg, public)
		if err != nil {
			return nil, err
		}
		keys, rest = append(keys, k), after
	}
}

func publicOf(block *pem.Block) (crypto.PublicKey, error) {
	switch block.Type {
	case "PUBLIC KEY":
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return pssPublicKey(block.Bytes)
		}
		return public, nil
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return c.PublicKey, nil
	case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY":
		return nil, errors.New("this is a private key: a receiver needs only the public one")
	}
	return nil, fmt.Errorf("a PEM block %q is not a public key", block.Type)
}

// oidRSAPSS marks RSA keys for PSS only (RFC 4055 section 3.1), which crypto/x509 does not read.
var oidRSAPSS = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}

func pssPublicKey(der []byte) (crypto.PublicKey, error) {
	var spki struct {
		Algorithm pkix.AlgorithmIdentifier
		PublicKey asn1.BitString
	}
	rest, err := asn1.Unmarshal(der, &spki)
	if err != nil || len(rest) > 0 || !spki.Algorithm.Algorithm.Equal(oidRSAPSS) {
		return nil, errors.New("the public key cannot be parsed")
	}
	return x509.ParsePKCS1PublicKey(spki.PublicKey.RightAlign())
}

// ParsePrivateKey reads a private key for a [Signer]: a PEM block "PRIVATE KEY" (PKCS #8), "RSA
// PRIVATE KEY" (PKCS #1) or "EC PRIVATE KEY" (RFC 5915). Other blocks are skipped.
func ParsePrivateKey(text []byte) (crypto.Signer, error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("no PEM block holds a private key")
		}
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			if key, err = x509.ParsePKCS8PrivateKey(block.Bytes); err != nil {
				key, err = pssPrivateKey(block.Bytes)
			}
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("the private key is encrypted")
		default:
			continue
		}
		if err != nil {
			return nil, errors.New("the private key cannot be parsed") // not wrapped: it may quote the key
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("a private key of type %T cannot sign", key)
		}
		return signer, nil
	}
}

func pssPrivateKey(der []byte) (*rsa.PrivateKey, error) {
	var pkcs8 struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}
	if _, err := asn1.Unmarshal(der, &pkcs8); err != nil || !pkcs8.Algorithm.Algorithm.Equal(oidRSAPSS) {
		return nil, errors.New("the private key cannot be parsed")
	}
	return x509.ParsePKCS1PrivateKey(pkcs8.Key)
}

// MarshalPublicKey writes a public key as a PEM block "PUBLIC KEY".
func MarshalPublicKey(public crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// MarshalPrivateKey writes a private key as a PEM block "PRIVATE KEY" (PKCS #8).
func MarshalPrivateKey(private crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
