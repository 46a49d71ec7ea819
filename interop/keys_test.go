package interop_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"
)

// keyKind is the form of a sender's secret.
type keyKind int

const (
	text        keyKind = iota
	whsec               // base64 after whsec_, of Standard Webhooks
	hexKey              // of Adyen
	ed25519Pair         // PEM: PKCS #8, and the public key as PKIX
	p256Pair
	rsaPair      // of 2,048 bits
	discordPair  // PEM, and the public key in hexadecimal digits
	sendGridPair // PEM, and the public key as the base64 of PKIX
)

// newKey returns a random secret as the sender has it, and what Eyelet is configured with.
func newKey(t *testing.T, kind keyKind) (signing, verifying string) {
	t.Helper()
	random := make([]byte, 32)
	_, _ = rand.Read(random) // returns no error
	switch kind {
	case whsec:
		signing = "whsec_" + base64.StdEncoding.EncodeToString(random)
		return signing, signing
	case ed25519Pair, discordPair:
		key := ed25519.NewKeyFromSeed(random)
		if kind == discordPair {
			return privatePEM(t, key), hex.EncodeToString(key.Public().(ed25519.PublicKey))
		}
		return privatePEM(t, key), publicPEM(t, key.Public())
	case rsaPair:
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		return privatePEM(t, key), publicPEM(t, key.Public())
	case p256Pair, sendGridPair:
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		public := publicPEM(t, key.Public())
		if block, _ := pem.Decode([]byte(public)); kind == sendGridPair {
			public = base64.StdEncoding.EncodeToString(block.Bytes)
		}
		return privatePEM(t, key), public
	}
	signing = hex.EncodeToString(random)
	return signing, signing
}

func privatePEM(t *testing.T, key crypto.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func publicPEM(t *testing.T, key crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// privateKey reads the PEM of privatePEM.
func privateKey[K crypto.PrivateKey](text string) (K, error) {
	var none K
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return none, errors.New("no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return none, err
	}
	k, ok := key.(K)
	if !ok {
		return none, fmt.Errorf("the key is %T", key)
	}
	return k, nil
}
