package main

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
)

// The files through which `eyelet events` finds a running server.
const (
	tokenFile   = "operations.token"
	addressFile = "operations.addr"
	// operationsRealm names the port to whoever has no token, and to our own commands.
	operationsRealm = "eyelet operations"
)

// stateFolder holds the token that the operations port wants, and the address of that port.
type stateDir struct {
	dir   string
	token string
}

// stateFolder returns the folder: that of the store, or one of the user's caches for a store in memory.
func stateFolder(c *config.Settings) (string, error) {
	kind, dir, err := c.StoreKind()
	if err != nil {
		return "", err
	}
	if kind == "badger" {
		return dir, nil
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		caches = filepath.Join(os.TempDir(), fmt.Sprintf("eyelet-%d", os.Getuid()))
	}
	full, err := filepath.Abs(c.File)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(full))
	return filepath.Join(caches, "eyelet", hex.EncodeToString(sum[:8])), nil
}

// claimState makes a token for this run and writes it, and the address, where only we can read them.
func claimState(c *config.Settings, address string) (*stateDir, error) {
	dir, err := stateFolder(c)
	if err != nil {
		return nil, usage.Errorf("", "%v", err)
	}
	s := &stateDir{dir: dir, token: rand.Text()}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, usage.Errorf("", "folder for the operations token %s: %s", dir, usage.Cause(err))
	}
	for name, text := range map[string]string{tokenFile: s.token, addressFile: address} {
		if err := writeWhole(filepath.Join(dir, name), content(text+"\n")); err != nil {
			return nil, usage.Errorf("", "%s: %s", filepath.Join(dir, name), usage.Cause(err))
		}
	}
	return s, nil
}

func (s *stateDir) release() {
	if _, token, err := readState(s.dir); err == nil && token != s.token {
		return // another server has come, as one with a store in memory can
	}
	for _, name := range []string{tokenFile, addressFile} {
		_ = os.Remove(filepath.Join(s.dir, name)) // they say nothing any more; the next start writes new ones
	}
}

// operations serves probes and metrics to everybody who can reach the port, and the events to those who have
// the token.
func (s *server) operations() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.rx.Ready(r.Context()); err != nil {
			http.Error(w, usage.OneLine(err.Error()), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, s.condition())
		tellOff(w, s.plan.Targets)
	})
	mux.Handle("/targets", s.state.authorized(s.changes(targetsAPI(s.plan.Targets))))
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /tail", s.state.authorized(s.feed))
	mux.Handle("/store/", s.state.authorized(s.changes(s.maintenance())))
	mux.Handle("/", s.state.authorized(s.changes(inspect.API(s.store))))
	return sameSite(operationsHost(s.settings), mux)
}

// startingOperations answers probes until the store is open: the process lives, and is not ready.
func startingOperations(c *config.Settings) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "starting: the store is being opened", http.StatusServiceUnavailable)
	})
	return sameSite(operationsHost(c), mux)
}

// operationsHost is the configured name of the operations port. A Unix socket has none, and no browser reaches it.
func operationsHost(c *config.Settings) string {
	if _, unix := c.UnixPath(c.Operations); unix {
		return ""
	}
	host, _, _ := net.SplitHostPort(c.Operations) // checked before
	return host
}

func healthy(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") }

// condition is the line of a server that accepts deliveries, although something may be wrong.
func (s *server) condition() string {
	var wrong []string
	if err := degraded(s.store); err != nil {
		wrong = append(wrong, usage.OneLine(err.Error())+"; see eyelet store check")
	}
	if err := s.logTo.failing(); err != nil {
		wrong = append(wrong, usage.OneLine(err.Error()))
	}
	if len(wrong) == 0 {
		return "ready"
	}
	return "ready, degraded: " + strings.Join(wrong, "; ")
}

// degraded says what is wrong with a store that accepts deliveries all the same.
func degraded(store dedup.Store) error {
	if s, ok := store.(interface{ Degraded() error }); ok {
		return s.Degraded()
	}
	return nil
}

// authorized lets requests with the token pass.
func (s *stateDir) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+operationsRealm+`"`)
			http.Error(w, "the token of "+tokenFile+" is needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameSite refuses requests that a page of another site made a browser send: those with a foreign Host (a name
// that was made to point here) and those with a foreign Origin.
func sameSite(configured string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownHost(configured, r.Host) {
			http.Error(w, "not a host of this port", http.StatusMisdirectedRequest)
			return
		}
		if foreignOrigin(r) {
			http.Error(w, "requests of other sites are refused", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownHost accepts the configured name, loopback, and any address when we listen on all of them: an address, as
// opposed to a name, cannot be made to point elsewhere.
func ownHost(configured, host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if strings.EqualFold(name, "localhost") || strings.EqualFold(name, configured) && name != "" {
		return true
	}
	address, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	all, err := netip.ParseAddr(configured)
	return address.IsLoopback() || configured == "" || err == nil && all.IsUnspecified()
}

func foreignOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}
