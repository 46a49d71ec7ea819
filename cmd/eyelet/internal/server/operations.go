package server

import (
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/inspect"
)

// operations serves probes and metrics to every client, and the rest to those with the token.
func (s *Server) operations() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.rx.Ready(r.Context()); err != nil {
			http.Error(w, usage.OneLine(err.Error()), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, s.condition())
		writeDisabledTargets(w, s.Targets)
	})
	mux.Handle("/targets", s.state.authorized(s.logChanges(TargetsAPI(s.Targets))))
	registry := newRegistry(s.metrics, s.store, s.Targets, s.listeners)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /tail", s.state.authorized(s.tail))
	mux.Handle("/store/", s.state.authorized(s.logChanges(MaintenanceAPI(s.store, s.Log.Logger))))
	mux.Handle("/", s.state.authorized(s.logChanges(inspect.API(s.store))))
	return sameSite(s.operationsHost(), mux)
}

// startingOperations answers probes until the store is open: the process is alive but not ready.
func (s *Server) startingOperations() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "starting: the store is being opened", http.StatusServiceUnavailable)
	})
	return sameSite(s.operationsHost(), mux)
}

// operationsHost is the configured host; "" for a Unix socket, which no browser reaches.
func (s *Server) operationsHost() string {
	if strings.HasPrefix(s.Operations, opsapi.UnixScheme) {
		return ""
	}
	host, _, _ := net.SplitHostPort(s.Operations) // checked before
	return host
}

func healthy(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") }

// condition is the line of a server that is ready, with what is degraded.
func (s *Server) condition() string {
	var wrong []string
	if store, ok := s.store.(interface{ Degraded() error }); ok {
		if err := store.Degraded(); err != nil {
			wrong = append(wrong, usage.OneLine(err.Error())+"; see eyelet store check")
		}
	}
	if err := s.Log.failing(); err != nil {
		wrong = append(wrong, usage.OneLine(err.Error()))
	}
	if len(wrong) == 0 {
		return "ready"
	}
	return "ready, degraded: " + strings.Join(wrong, "; ")
}

// authorized requires the token.
func (s *stateFiles) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+opsapi.Realm+`"`)
			http.Error(w, "the token of "+opsapi.TokenFile+" is needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameSite refuses requests that a browser makes for a page of another site: those with a foreign
// Host (DNS rebinding) and those with a foreign Origin.
func sameSite(configured string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownHost(configured, r.Host) {
			http.Error(w, "this port does not serve that host", http.StatusMisdirectedRequest)
			return
		}
		if foreignOrigin(r) {
			http.Error(w, "cross-site requests are refused", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownHost accepts the configured name, loopback addresses, and any address if the port listens on
// all: unlike a name, an address cannot be made to point elsewhere.
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
	if !slices.Contains([]string{"", "none", "same-origin"}, r.Header.Get("Sec-Fetch-Site")) {
		return true
	}
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin != "" && (err != nil || u.Host != r.Host)
}

// logChanges logs the changes that were made through the operations port.
func (s *Server) logChanges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		s.Log.Info("change through the operations port", "method", r.Method, "path", r.URL.Path, "status", seen.status)
	})
}

// statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap implements the interface of http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
