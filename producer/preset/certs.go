package preset

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
	"golang.org/x/sync/singleflight"
)

// Bounds of fetching certificates. A stranger can make us look at an address of the vendor, so that the number
// of fetches is bounded whatever is asked for.
const (
	certCacheSize   = 32               // addresses whose certificates are kept
	certCacheAge    = 12 * time.Hour   // until they are fetched again
	certFetchBudget = 20               // fetches within certFetchSpan
	certFetchSpan   = time.Minute      //
	certRetryAfter  = 10 * time.Second // what a sender is told while certificates cannot be had
	certMaxURL      = 512              // bytes of an address
)

// certStore fetches and judges the certificates of a vendor that names their address in each delivery. The zero
// value fetches over the network (https only, 5 seconds, 64 KiB, no redirect, no address inside the network)
// and trusts the system's roots. It is used by pointer and kept, because it holds the cache.
type certStore struct {
	// Fetch returns the PEM text at an address that the scheme found to be the vendor's. Defaults to the
	// network.
	Fetch func(ctx context.Context, address string) ([]byte, error)
	// Roots are the authorities to which the chain must lead. Defaults to the system's.
	Roots *x509.CertPool
	// SkipChain accepts the certificate without a chain: the address was the vendor's, and TLS proved it. For
	// vendors that publish the certificate without its issuer.
	SkipChain bool
	// Pinned are public keys by address, in place of a certificate that is fetched there. They have no dates.
	Pinned map[string]crypto.PublicKey
	// Now is the clock of the cache; certificates are judged by [verify.Tolerance.Check]. Defaults to time.Now.
	Now func() time.Time

	mu     sync.Mutex
	flight singleflight.Group
	cache  map[string]cachedCert
	recent []time.Time // when the last fetches began
}

// cachedCert is a certificate that was found good. It is proven once a delivery verified with it: old
// certificates, and other spellings of one address, are as good, and a stranger can name as many as there are.
type cachedCert struct {
	cert    *vendorCert
	fetched time.Time
	proven  bool
}

// vendorCert is a certificate that may verify signatures between two times.
type vendorCert struct {
	public              *rsa.PublicKey
	notBefore, notAfter time.Time
}

// certURL says what an address of a vendor's certificate looks like.
type certURL struct {
	host func(string) bool
	path func(string) bool
}

// allows reports whether the address is the vendor's: https, the vendor's host, no user, no port but 443.
func (c certURL) allows(address string) bool {
	if len(address) > certMaxURL || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return false
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Opaque != "" || u.Fragment != "" {
		return false
	}
	if port := u.Port(); port != "" && port != "443" {
		return false
	}
	return c.host(u.Hostname()) && (c.path == nil || c.path(u.Path))
}

// find returns the certificate at an address that was found to be the vendor's, for a subject of this name.
func (c *certStore) find(ctx context.Context, address string, isVendor func(*x509.Certificate) bool) (*vendorCert, error) {
	if key, ok := c.Pinned[address]; ok {
		public, isRSA := key.(*rsa.PublicKey)
		if !isRSA {
			return nil, &verify.Error{Code: verify.CertUntrusted, Err: errors.New("the pinned key is not RSA")}
		}
		return &vendorCert{public: public}, nil
	}
	if cert := c.cached(address); cert != nil {
		return cert, nil
	}
	// The fetch belongs to everybody who waits for it, so that one sender who hangs up does not end it.
	result := c.flight.DoChan(address, func() (any, error) {
		return c.fetch(context.WithoutCancel(ctx), address, isVendor)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			// While it cannot be fetched again, the last one serves; its own dates bound how long.
			if cert := c.last(address); cert != nil && verify.CodeOf(r.Err) == verify.KeysUnavailable {
				return cert, nil
			}
			return nil, r.Err
		}
		cert, _ := r.Val.(*vendorCert)
		return cert, nil
	case <-ctx.Done():
		return nil, &verify.Error{Code: verify.KeysUnavailable, RetryAfter: certRetryAfter, Err: ctx.Err()}
	}
}

func (c *certStore) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

func (c *certStore) cached(address string) *vendorCert {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one, ok := c.cache[address]; ok && c.now().Sub(one.fetched) < certCacheAge {
		return one.cert
	}
	return nil
}

// last returns the certificate that was last fetched from a proven address, however long ago.
func (c *certStore) last(address string) *vendorCert {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.cache[address]; one.proven {
		return one.cert
	}
	return nil
}

// prove notes that a delivery verified with the certificate of an address.
func (c *certStore) prove(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one, ok := c.cache[address]; ok && !one.proven {
		one.proven = true
		c.cache[address] = one
	}
}

// keep remembers a good certificate. The oldest one makes room, and a proven one only when all are. Failures are
// not kept. So a stranger cannot push a certificate out that is in use.
func (c *certStore) keep(address string, cert *vendorCert) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cache == nil {
		c.cache = map[string]cachedCert{}
	}
	known := c.cache[address]
	if known.cert == nil && len(c.cache) >= certCacheSize {
		delete(c.cache, c.leastNeeded())
	}
	c.cache[address] = cachedCert{cert: cert, fetched: c.now(), proven: known.proven}
}

// leastNeeded returns the address of the oldest certificate, of those that are not proven if there are any.
func (c *certStore) leastNeeded() string {
	least := ""
	for address, one := range c.cache {
		if other := c.cache[least]; least == "" || one.proven != other.proven && other.proven ||
			one.proven == other.proven && one.fetched.Before(other.fetched) {
			least = address
		}
	}
	return least
}

// mayFetch takes one fetch from the budget.
func (c *certStore) mayFetch() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.recent = slices.DeleteFunc(c.recent, func(t time.Time) bool { return now.Sub(t) >= certFetchSpan })
	if len(c.recent) >= certFetchBudget {
		return false
	}
	c.recent = append(c.recent, now)
	return true
}

func (c *certStore) fetch(ctx context.Context, address string, isVendor func(*x509.Certificate) bool) (*vendorCert, error) {
	if cert := c.cached(address); cert != nil {
		return cert, nil // a fetch ended between the look at the cache and this one
	}
	if !c.mayFetch() {
		return nil, &verify.Error{Code: verify.KeysUnavailable, RetryAfter: certFetchSpan, Err: errors.New("too many fetches of certificates")}
	}
	fetch := c.Fetch
	if fetch == nil {
		fetch = verify.FetchPublic
	}
	text, err := fetch(ctx, address)
	if err != nil {
		return nil, &verify.Error{Code: verify.KeysUnavailable, RetryAfter: certRetryAfter, Err: err}
	}
	cert, err := c.judge(text, isVendor)
	if err != nil {
		return nil, &verify.Error{Code: verify.CertUntrusted, Err: err}
	}
	c.keep(address, cert)
	return cert, nil
}

// judge checks the first certificate of a PEM text, with the others as its intermediates.
func (c *certStore) judge(text []byte, isVendor func(*x509.Certificate) bool) (*vendorCert, error) {
	bundle, err := parseCerts(text)
	if err != nil {
		return nil, err
	}
	leaf := bundle[0]
	public, ok := leaf.PublicKey.(*rsa.PublicKey)
	if !ok || public.N.BitLen() < 2048 {
		return nil, errors.New("the certificate's key is not RSA of at least 2048 bits")
	}
	if !isVendor(leaf) {
		return nil, errors.New("the certificate is not the vendor's")
	}
	good := &vendorCert{public: public, notBefore: leaf.NotBefore, notAfter: leaf.NotAfter}
	if c.SkipChain {
		return good, nil
	}
	return good, c.checkChain(bundle, good)
}

func parseCerts(text []byte) ([]*x509.Certificate, error) {
	var bundle []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil && len(bundle) < 8; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("a certificate cannot be parsed")
		}
		bundle = append(bundle, cert)
	}
	if len(bundle) == 0 {
		return nil, errors.New("no certificate at the address")
	}
	return bundle, nil
}

// checkChain finds a chain to a root and narrows the dates to those at which all of it is good. No clock is
// read: the chain is built at the beginning of the leaf's time, or at its end.
func (c *certStore) checkChain(bundle []*x509.Certificate, good *vendorCert) error {
	opts := x509.VerifyOptions{
		Roots: c.Roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	for _, cert := range bundle[1:] {
		opts.Intermediates.AddCert(cert)
	}
	var chains [][]*x509.Certificate
	var err error
	for _, at := range []time.Time{good.notBefore, good.notAfter} {
		opts.CurrentTime = at
		if chains, err = bundle[0].Verify(opts); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("no chain to a trusted root: %w", err)
	}
	best := vendorCert{}
	for _, chain := range chains {
		from, to := chain[0].NotBefore, chain[0].NotAfter
		for _, cert := range chain[1:] {
			if cert.NotBefore.After(from) {
				from = cert.NotBefore
			}
			if cert.NotAfter.Before(to) {
				to = cert.NotAfter
			}
		}
		if to.After(best.notAfter) {
			best.notBefore, best.notAfter = from, to
		}
	}
	good.notBefore, good.notAfter = best.notBefore, best.notAfter
	return nil
}

// namedAs reports whether the certificate is for the name, in its alternative names or else as its common name.
func namedAs(cert *x509.Certificate, is func(string) bool) bool {
	if len(cert.DNSNames) == 0 {
		return is(strings.ToLower(cert.Subject.CommonName))
	}
	return slices.ContainsFunc(cert.DNSNames, func(name string) bool { return is(strings.ToLower(name)) })
}
