package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/eyelet-dev/eyelet/internal/usage"
)

// ACME orders the certificates of the port of deliveries from a certificate authority (RFC 8555),
// which connects to port 443 of each name to see whose it is (TLS-ALPN-01, RFC 8737).
type ACME struct {
	Hosts []string // in lower case; clients that name another one are refused
	Email string   // for messages of the authority; may be empty
	// Directory is the URL of the authority's directory. Defaults to Let's Encrypt's.
	Directory string
	// Cache is the folder of the account's key and the certificates. It is made with mode 0700.
	Cache string
}

// The pauses of the goroutine that orders: after a failure, doubled with each one, and between two
// looks at the certificates, which autocert renews by itself.
const (
	orderAgain    = time.Minute
	orderAgainMax = time.Hour
	certificateIn = 12 * time.Hour
)

// renewalLate is the rest of a certificate's life at which its renewal has failed for days:
// autocert begins 30 days before the end.
const renewalLate = 21 * 24 * time.Hour

// acmeCertificates has an ECDSA certificate for each host. One goroutine orders them: a client
// that connects orders nothing, because authorities count failed orders. The manager never gets
// what a client sent.
type acmeCertificates struct {
	manager autocert.Manager
	folder  string
	log     *slog.Logger
	hosts   []string

	mu     sync.Mutex
	expiry map[string]time.Time // of the hosts that have a certificate
}

func newACMECertificates(o *ACME, log *slog.Logger) *acmeCertificates {
	return &acmeCertificates{
		manager: autocert.Manager{
			Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(o.Cache),
			HostPolicy: autocert.HostWhitelist(o.Hosts...), Email: o.Email,
			Client: &acme.Client{DirectoryURL: o.Directory, UserAgent: "eyelet"},
		},
		folder: o.Cache, log: log, hosts: o.Hosts, expiry: map[string]time.Time{},
	}
}

func (a *acmeCertificates) config() *tls.Config {
	return &tls.Config{GetCertificate: a.get, MinVersion: tls.VersionTLS12, NextProtos: []string{acme.ALPNProto}}
}

// get returns the certificate for a connection. It is the GetCertificate of a tls.Config.
func (a *acmeCertificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	host := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if !slices.Contains(a.hosts, host) {
		return nil, fmt.Errorf("no certificate is configured for the name %q", hello.ServerName)
	}
	if challenge := []string{acme.ALPNProto}; slices.Equal(hello.SupportedProtos, challenge) {
		return a.manager.GetCertificate(&tls.ClientHelloInfo{ServerName: host, SupportedProtos: challenge})
	}
	a.mu.Lock()
	_, ordered := a.expiry[host]
	a.mu.Unlock()
	if !ordered {
		return nil, fmt.Errorf("the certificate of %s is not there yet", host)
	}
	return a.certificate(host)
}

// certificate returns the certificate of a host, and orders it if there is none.
func (a *acmeCertificates) certificate(host string) (*tls.Certificate, error) {
	return a.manager.GetCertificate(&tls.ClientHelloInfo{
		ServerName: host, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	})
}

// keep orders the certificates, and looks after their renewal until ctx ends. It returns false if
// it would create the folder and must not: a new store wants its directory for itself.
func (a *acmeCertificates) keep(ctx context.Context, create bool) bool {
	if _, err := os.Stat(a.folder); err != nil && !create {
		return false
	}
	for _, host := range a.hosts {
		go a.keepHost(ctx, host)
	}
	return true
}

func (a *acmeCertificates) keepHost(ctx context.Context, host string) {
	again := orderAgain
	for {
		pause := certificateIn
		if err := a.look(host, time.Now()); err != nil {
			a.log.Error("the certificate could not be ordered: is this port reached as port 443 of that name?",
				"host", host, "again_in", again, "error", usage.OneLine(err.Error()))
			pause, again = again, min(2*again, orderAgainMax)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// look notes the certificate of a host, orders it if there is none, and logs what has changed.
func (a *acmeCertificates) look(host string, now time.Time) error {
	c, err := a.certificate(host)
	if err != nil {
		return err
	}
	a.mu.Lock()
	before := a.expiry[host]
	a.expiry[host] = c.Leaf.NotAfter
	a.mu.Unlock()
	switch {
	case !c.Leaf.NotAfter.Equal(before):
		a.log.Info("the certificate is there", "host", host, "not_after", c.Leaf.NotAfter)
	case c.Leaf.NotAfter.Sub(now) < renewalLate:
		a.log.Error("the certificate could not be renewed: is this port reached as port 443 of that name?",
			"host", host, "not_after", c.Leaf.NotAfter)
	}
	return nil
}
