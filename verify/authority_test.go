package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"sync/atomic"
	"time"
)

// certAuthority is a root, an intermediate and a leaf.
type certAuthority struct {
	key        *rsa.PrivateKey // of the leaf
	root, mid  *x509.Certificate
	rootKey    *ecdsa.PrivateKey
	midKey     *ecdsa.PrivateKey
	serial     atomic.Int64
	begin, end time.Time
}

var newAuthority = sync.OnceValue(func() *certAuthority {
	a := &certAuthority{begin: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		end: time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)}
	a.key = newIssuer().rsa
	a.rootKey, a.root = a.makeCA("Test Root", nil, nil, a.begin, a.end)
	a.midKey, a.mid = a.makeCA("Test Intermediate", a.root, a.rootKey, a.begin,
		time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	return a
})

func (a *certAuthority) makeCA(name string, parent *x509.Certificate, by *ecdsa.PrivateKey,
	begin, end time.Time) (*ecdsa.PrivateKey, *x509.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial.Add(1)),
		Subject:      pkix.Name{CommonName: name}, NotBefore: begin, NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if parent == nil {
		parent, by = template, key
	}
	return key, a.sign(template, parent, &key.PublicKey, by)
}

func (a *certAuthority) sign(template, parent *x509.Certificate, public crypto.PublicKey,
	by crypto.Signer) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return cert
}

func (a *certAuthority) leaf(public crypto.PublicKey, names ...string) *x509.Certificate {
	return a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(a.serial.Add(1)), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: a.begin, NotAfter: a.end,
	}, a.mid, public, a.midKey)
}

func pemOf(certs ...*x509.Certificate) []byte {
	var text []byte
	for _, c := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}
