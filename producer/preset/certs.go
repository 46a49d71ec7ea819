package preset

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // signature version 1 of SNS is SHA-1 with RSA
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/eyelet-dev/eyelet/internal/publicnet"
	"github.com/eyelet-dev/eyelet/internal/sender"
	"github.com/eyelet-dev/eyelet/verify"
)

// Limits of fetching certificates. An unauthenticated delivery can make the receiver fetch any
// URL of the vendor.
const (
	certCacheSize   = 32               // certificates
	certCacheAge    = 12 * time.Hour   // until a certificate is fetched again
	certFetchBudget = 20               // fetches within certFetchSpan
	certFetchShare  = 5                // of them for one network
	certFetchSpan   = time.Minute      //
	certRetryAfter  = 10 * time.Second // the Retry-After while a certificate is unavailable
	certMaxURL      = 512              // bytes
)

// fetchFunc returns the text at a URL, and certFunc reports whether a certificate is the vendor's.
type (
	fetchFunc = func(ctx context.Context, address string) ([]byte, error)
	certFunc  = func(*x509.Certificate) bool
)

// certStore fetches, checks and caches the certificates of a vendor that puts their URL in each
// delivery.
type certStore struct {
	// Fetch returns the PEM text at a URL of the vendor. Defaults to HTTPS to public addresses
	// only, without redirects, within 5 seconds and 64 KiB.
	Fetch fetchFunc
	// Roots are the trusted authorities. Defaults to the system's.
	Roots *x509.CertPool
	// SkipChain accepts a certificate without a chain, for vendors that publish it without its
	// issuer. TLS authenticated the host it came from.
	SkipChain bool
	// Pinned are public keys by URL, in place of certificates fetched there. They do not expire.
	Pinned map[string]crypto.PublicKey
	// Now is the clock of the cache. [verify.Tolerance.Check] checks the dates of certificates.
	// Defaults to time.Now.
	Now func() time.Time

	mu      sync.Mutex
	fetches singleflight.Group
	cache   map[string]cachedCert
	recent  []certFetch // the last ones
}

// certFetch is when a fetch began, and the network whose delivery caused it.
type certFetch struct {
	at time.Time
	by netip.Prefix // zero if it is not known
}

// cachedCert is a valid certificate. It is proven once a delivery verified with it: an
// unauthenticated client can name many valid ones, old certificates or other URLs of the same one.
type cachedCert struct {
	cert    *vendorCert
	fetched time.Time
	proven  bool
}

// vendorCert is the key of a certificate with its dates.
type vendorCert struct {
	public              *rsa.PublicKey
	notBefore, notAfter time.Time
}

// isVendorURL reports whether a URL is the vendor's: https, its host, no user, no port but 443.
func isVendorURL(address string, isHost func(string) bool) bool {
	notASCII := func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }
	if len(address) > certMaxURL || strings.ContainsFunc(address, notASCII) {
		return false
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Opaque != "" || u.Fragment != "" {
		return false
	}
	return (u.Port() == "" || u.Port() == "443") && isHost(u.Hostname())
}

// find returns the certificate at a URL of the vendor. isVendor checks its subject.
func (c *certStore) find(ctx context.Context, address string, isVendor certFunc) (*vendorCert, error) {
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
	// Several deliveries may wait for one fetch: a client that disconnects must not cancel it.
	result := c.fetches.DoChan(address, func() (any, error) {
		return c.fetch(context.WithoutCancel(ctx), address, isVendor)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			// While it cannot be fetched again, use the last one. Its dates limit for how long.
			if one := c.last(address); one.proven && verify.CodeOf(r.Err) == verify.KeysUnavailable {
				return one.cert, nil
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

// last returns a certificate of any age.
func (c *certStore) last(address string) cachedCert {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cache[address]
}

func (c *certStore) cached(address string) *vendorCert {
	if one := c.last(address); c.now().Sub(one.fetched) < certCacheAge {
		return one.cert
	}
	return nil
}

// prove marks the certificate of a URL after a delivery verified with it.
func (c *certStore) prove(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one, ok := c.cache[address]; ok && !one.proven {
		one.proven = true
		c.cache[address] = one
	}
}

// keep caches a valid certificate. It evicts the oldest one, a proven one only if all are proven,
// so deliveries that do not verify cannot evict a certificate in use. Failures are not cached.
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

// leastNeeded returns the URL of the oldest unproven certificate, or of the oldest if all are
// proven.
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

// mayFetch reports whether the budget allows a fetch, and takes it. A network has a share only: a
// client that names many URLs must not keep the vendor's certificate from being fetched.
func (c *certStore) mayFetch(by netip.Prefix) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, own := c.now(), 0
	c.recent = slices.DeleteFunc(c.recent, func(f certFetch) bool { return now.Sub(f.at) >= certFetchSpan })
	for _, f := range c.recent {
		if f.by == by && by.IsValid() {
			own++
		}
	}
	if own >= certFetchShare || len(c.recent) >= certFetchBudget {
		return false
	}
	c.recent = append(c.recent, certFetch{now, by})
	return true
}

func (c *certStore) fetch(ctx context.Context, address string, isVendor certFunc) (*vendorCert, error) {
	if cert := c.cached(address); cert != nil {
		return cert, nil // another fetch ended in between
	}
	if !c.mayFetch(sender.NetworkOf(ctx)) {
		err := errors.New("too many fetches of certificates")
		return nil, &verify.Error{Code: verify.KeysUnavailable, RetryAfter: certFetchSpan, Err: err}
	}
	fetch := c.Fetch
	if fetch == nil {
		fetch = publicnet.Fetch
	}
	text, err := fetch(ctx, address)
	if err != nil {
		return nil, &verify.Error{Code: verify.KeysUnavailable, RetryAfter: certRetryAfter, Err: err}
	}
	cert, err := c.parse(text, isVendor)
	if err != nil {
		return nil, &verify.Error{Code: verify.CertUntrusted, Err: err}
	}
	c.keep(address, cert)
	return cert, nil
}

// parse checks the first certificate of a PEM text. The others are its intermediates.
func (c *certStore) parse(text []byte, isVendor certFunc) (*vendorCert, error) {
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

// checkChain finds a chain to a root and narrows the dates to those of the whole chain. It
// reads no clock: the chain must be valid at the start or the end of the leaf's dates.
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

// namedAs reports whether an alternative name of the certificate matches, or its common name if
// it has none.
func namedAs(cert *x509.Certificate, is func(string) bool) bool {
	if len(cert.DNSNames) == 0 {
		return is(strings.ToLower(cert.Subject.CommonName))
	}
	return slices.ContainsFunc(cert.DNSNames, func(name string) bool { return is(strings.ToLower(name)) })
}

// rsaHolds checks an RSA signature (PKCS #1 v1.5).
func rsaHolds(public *rsa.PublicKey, hash crypto.Hash, content, signature []byte) bool {
	var digest []byte
	switch hash {
	case crypto.SHA1:
		sum := sha1.Sum(content) //nolint:gosec // see the import
		digest = sum[:]
	default:
		sum := sha256.Sum256(content)
		digest = sum[:]
	}
	return rsa.VerifyPKCS1v15(public, hash, digest, signature) == nil
}

// decodeBase64Strict accepts one encoding of each value: padded, and without the line breaks that
// encoding/base64 skips.
func decodeBase64Strict(text string) ([]byte, bool) {
	out, err := base64.StdEncoding.Strict().DecodeString(text)
	return out, err == nil && text != "" && !strings.ContainsAny(text, "\r\n")
}
