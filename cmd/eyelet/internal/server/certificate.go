package server

import (
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/internal/usage"
)

// certificateCheck is how often the files of a certificate are checked at most.
const certificateCheck = time.Second

// KeyPair names the PEM files of a certificate and its key.
type KeyPair struct {
	Cert, Key string
	// AskClients asks clients for a certificate. Its chain is checked if ClientCA, a PEM file with
	// authorities, is set; a client without a certificate may still connect.
	AskClients bool
	ClientCA   string
}

// certificateSettings are the settings of the certificates of deliveries and of operations.
var certificateSettings = [2]string{"tls", "operations_tls"}

// certificates are those of a port.
type certificates interface{ config() *tls.Config }

// swapCertificates are certificate files that a reload can replace by others.
type swapCertificates struct{ current atomic.Pointer[tls.Config] }

// set makes files those of new connections. Without resumption across two of them, a client
// certificate is checked as the newest ones say.
func (s *swapCertificates) set(f *certificateFiles, http2 bool) {
	c := f.config()
	if c.NextProtos = []string{"http/1.1"}; http2 {
		c.NextProtos = []string{"h2", "http/1.1"}
	}
	s.current.Store(c)
}

func (s *swapCertificates) config() *tls.Config {
	c := s.current.Load().Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current.Load(), nil }
	return c
}

// loadCertificates loads the certificates of deliveries and of operations; nil without TLS.
func (s *Server) loadCertificates() (c [2]certificates, err error) {
	for i, files := range []*KeyPair{s.TLS, s.OperationsTLS} {
		if files == nil {
			continue
		}
		loaded, err := s.loadCertificate(certificateSettings[i], files)
		if err != nil {
			return c, err
		}
		s.certificates[i].set(loaded, s.HTTP2)
		c[i] = &s.certificates[i]
	}
	if s.ACME != nil {
		s.acme = newACMECertificates(s.ACME, s.Log.Logger)
		c[0] = s.acme
	}
	return c, nil
}

// certificateFiles is a certificate that is reloaded when its files change, so that a renewed one
// needs no restart. The files are checked when a client connects. A pair that does not match, as
// while only one file is new, leaves the last good pair in use.
type certificateFiles struct {
	files   KeyPair
	clients *x509.CertPool // the authorities of clients; read once
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	checked time.Time
	seen    [2]fs.FileInfo // of the last pair that was loaded or failed to
}

// loadCertificate loads the certificate of a setting; nil without files.
func (o Options) loadCertificate(setting string, files *KeyPair) (*certificateFiles, error) {
	if files == nil {
		return nil, nil
	}
	f := &certificateFiles{files: *files, log: o.Log.Logger, now: time.Now, checked: time.Now()}
	f.seen, _ = f.stat() // load reports what is wrong
	if err := f.load(); err != nil {
		return nil, &usage.Error{At: o.Place(setting), What: setting + ": " + usage.Cause(err),
			Hint: "cert_file and key_file are PEM files, relative to the configuration file"}
	}
	if files.ClientCA == "" {
		return f, nil
	}
	authorities, err := os.ReadFile(files.ClientCA)
	f.clients = x509.NewCertPool()
	if err != nil || !f.clients.AppendCertsFromPEM(authorities) {
		what := "it holds no certificate in PEM"
		if err != nil {
			what = usage.Cause(err)
		}
		return nil, &usage.Error{At: o.Place(setting), What: setting + ": ca_file: " + what,
			Hint: "it holds the certificates of the authorities that issue those of your clients"}
	}
	return f, nil
}

// config returns the TLS configuration of a server.
func (f *certificateFiles) config() *tls.Config {
	c := &tls.Config{GetCertificate: f.get, MinVersion: tls.VersionTLS12}
	switch {
	case f.clients != nil:
		c.ClientCAs, c.ClientAuth = f.clients, tls.VerifyClientCertIfGiven
	case f.files.AskClients:
		c.ClientAuth = tls.RequestClientCert
	}
	return c
}

// CheckCertificates loads the certificates and returns what is wrong with them.
func (o Options) CheckCertificates() (found usage.Errors) {
	for setting, files := range map[string]*KeyPair{"tls": o.TLS, "operations_tls": o.OperationsTLS} {
		_, err := o.loadCertificate(setting, files)
		more, _ := usage.Find(err)
		found = append(found, more...)
	}
	return found
}

func (f *certificateFiles) load() error {
	pair, err := tls.LoadX509KeyPair(f.files.Cert, f.files.Key)
	if err == nil {
		f.current = &pair
	}
	return err
}

// stat returns the state of both files.
func (f *certificateFiles) stat() (seen [2]fs.FileInfo, err error) {
	for i, name := range []string{f.files.Cert, f.files.Key} {
		if seen[i], err = os.Stat(name); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

// get returns the certificate for a connection. It is the GetCertificate of a tls.Config.
func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); now.Sub(f.checked) >= certificateCheck || now.Before(f.checked) {
		f.checked = now
		f.renew()
	}
	return f.current, nil
}

func (f *certificateFiles) renew() {
	seen, err := f.stat()
	if err != nil || same(seen[0], f.seen[0]) && same(seen[1], f.seen[1]) {
		return // a missing file may be about to be replaced
	}
	f.seen = seen
	if err := f.load(); err != nil {
		f.log.Error("the certificate on disk cannot be used; the last one stays in use", "err", usage.Cause(err))
		return
	}
	f.log.Info("the certificate was read again", "not_after", f.current.Leaf.NotAfter)
}

// same reports whether a file was neither written nor replaced.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
