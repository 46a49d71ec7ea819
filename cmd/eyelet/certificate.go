package main

import (
	"crypto/tls"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

// certificateCheck is how often, at most, the files of the certificate are looked at.
const certificateCheck = time.Second

// certificates are those of the two ports; nil where a port is served without TLS.
type certificates struct{ deliveries, operations *certificateFiles }

// openCertificates loads the certificates of the settings.
func openCertificates(c *config.Settings, log *slog.Logger) (certificates, error) {
	deliveries, err := openCertificate(c, "tls", c.TLS, log)
	if err != nil {
		return certificates{}, err
	}
	operations, err := openCertificate(c, "operations_tls", c.OperationsTLS, log)
	return certificates{deliveries, operations}, err
}

// certificateFiles is a certificate of the settings. The files are looked at when a client connects, and read
// again when one of them is another than before, so that a renewed certificate needs no restart. A pair that
// does not fit, as while one file is new and the other still old, leaves the last good one in use.
type certificateFiles struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	looked  time.Time
	seen    [2]fs.FileInfo // of the pair that was tried last
}

// openCertificate loads the certificate of a setting; nil without it.
func openCertificate(c *config.Settings, setting string, t *config.TLS, log *slog.Logger) (*certificateFiles, error) {
	if t == nil {
		return nil, nil
	}
	f := &certificateFiles{cert: c.Path(t.CertFile), key: c.Path(t.KeyFile), log: log, now: time.Now}
	f.seen, _ = f.look() // loading tells what is wrong
	if err := f.load(); err != nil {
		return nil, &usage.Error{At: c.Place(setting), What: setting + ": " + usage.Cause(err), Hint: "cert_file and key_file are PEM files, relative to the configuration file"}
	}
	f.looked = f.now()
	return f, nil
}

func (f *certificateFiles) load() error {
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err == nil {
		f.current = &pair
	}
	return err
}

// look describes the files as they are now.
func (f *certificateFiles) look() (seen [2]fs.FileInfo, err error) {
	for i, name := range []string{f.cert, f.key} {
		if seen[i], err = os.Stat(name); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

// get returns the certificate for a connection. It is a GetCertificate of tls.Config.
func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); now.Sub(f.looked) >= certificateCheck || now.Before(f.looked) {
		f.looked = now
		f.renew()
	}
	return f.current, nil
}

func (f *certificateFiles) renew() {
	seen, err := f.look()
	if err != nil || same(seen[0], f.seen[0]) && same(seen[1], f.seen[1]) {
		return // a file that is being replaced is there the next time
	}
	f.seen = seen
	if err := f.load(); err != nil {
		f.log.Error("the certificate on disk cannot be used; the last one stays in use", "err", usage.Cause(err))
		return
	}
	f.log.Info("the certificate was read again", "not_after", f.current.Leaf.NotAfter)
}

// same reports whether nothing was written to a file, or put in its place.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
