package server

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/receiver"
)

// operations serves probes and metrics to every client, and the rest to those with the token.
func (s *Server) operations(g *generation) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := g.rx.Ready(r.Context()); err != nil {
			http.Error(w, usage.OneLine(err.Error()), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, s.condition())
		writeDisabledTargets(w, g.Targets) //nolint:contextcheck // it has its own time
	})
	mux.Handle("/targets", s.state.authorized(s.logChanges(TargetsAPI(g.Targets)), true))
	registry := newRegistry(s.metrics, s.store, g.Targets, s.ring, s.listeners, s.Inspector.Version)
	registry.MustRegister(append(s.reloads.metrics(), handlerMetrics{g.rx})...)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/refused", s.state.authorized(s.refusedAPI(), true))
	mux.Handle("GET /refused/{number}/explain", s.state.authorized(http.HandlerFunc(g.explainAPI), true))
	mux.Handle("/refused/", s.state.authorized(s.refusedAPI(), true))
	mux.Handle("GET /tail", s.state.authorized(s.tail, true))
	mux.Handle("/store/", s.state.authorized(s.logChanges(MaintenanceAPI(s.store, s.Log.Logger)), false))
	mux.Handle("/", s.state.authorized(s.logChanges(g.page.API()), true))
	mux.Handle("POST /jobs", s.state.authorized(g.page.API(), false)) // it logs each event that it changes
	mux.Handle("POST /reload", s.state.authorized(s.logChanges(http.HandlerFunc(s.reloadAPI)), false))
	mux.Handle("POST /reconcile/{producer}", s.state.authorized(s.logChanges(http.HandlerFunc(g.reconcileAPI)), false))
	if !g.Inspector.Off {
		prefix := cmp.Or(g.Inspector.Prefix, inspect.DefaultPrefix) + "/"
		mux.Handle(prefix, g.page)
		mux.Handle("GET /{$}", http.RedirectHandler(prefix, http.StatusSeeOther))
	}
	return sameSite(s.operationsHost(), mux)
}

// refusedAPI serves the refused deliveries that are kept.
func (s *Server) refusedAPI() http.Handler {
	if s.ring != nil {
		return inspect.RefusedAPI(s.ring)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, http.StatusNotFound, errors.New("refused deliveries are not kept: the configuration of the "+
			"server has refused: off"))
	})
}

// pageOptions are those of the inspector, whose API is served even if its page is not.
func (s *Server) pageOptions(g *generation) inspect.Options {
	o := inspect.Options{
		Store: s.store, Token: s.state.token, ReadToken: s.state.readToken, ReadOnly: g.Inspector.ReadOnly,
		Prefix: g.Inspector.Prefix, Redact: g.Inspector.Redact, Producers: g.Receiver.Producers, URL: g.Receiver.URL,
		Log: s.Log.Logger, Receiver: s.receiverName(), Handlers: g.handlersOf, Controls: controlsOf{g},
		SeriesFile: s.stateFile(seriesFile),
		Status: func(ctx context.Context) inspect.Status {
			st := inspect.Status{Version: s.Inspector.Version, Store: s.StoreName, Degraded: s.degraded(),
				Reload: s.lastReload(), Retiring: g.retiring(), Lists: g.comparing.lists(ctx)}
			for _, t := range listTargets(g.Targets) { //nolint:contextcheck // it has its own time
				st.Targets = append(st.Targets, inspect.Target{Name: t.Name, On: t.On, Reason: t.Reason})
			}
			return st
		},
	}
	if g.Inspector.Send {
		o.Send = sender{s}.send
	}
	if s.ring != nil {
		o.Refused, o.Explain = s.ring, g.explanation
	}
	return o
}

// startingOperations answers probes until the store is open: the process is alive but not ready.
func (s *Server) startingOperations() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		text := "starting: the store is being opened"
		if why := s.why(); why != "" {
			text += ": " + why
		}
		http.Error(w, text, http.StatusServiceUnavailable)
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
	wrong := s.degraded()
	if len(wrong) == 0 {
		return "ready"
	}
	return "ready, degraded: " + strings.Join(wrong, "; ")
}

// degraded are problems with which deliveries are still accepted.
func (s *Server) degraded() (wrong []string) {
	if store, ok := s.store.(interface{ Degraded() error }); ok {
		if err := store.Degraded(); err != nil {
			wrong = append(wrong, usage.OneLine(err.Error())+"; see eyelet store check")
		}
	}
	if err := s.Log.failing(); err != nil {
		wrong = append(wrong, usage.OneLine(err.Error()))
	}
	if last := s.lastReload(); last != nil && !last.Applied {
		wrong = append(wrong, "the configuration was not reloaded: "+last.Problem)
	}
	for _, h := range s.current.Load().rx.Controls() {
		if h.Paused {
			wrong = append(wrong, fmt.Sprintf("handler %s is paused: %s", h.Handler, usage.OneLine(h.Reason)))
		}
	}
	return wrong
}

// controlsOf are the handlers of a generation, whose receiver is not there yet when its page is
// made.
type controlsOf struct{ g *generation }

// Controls implements [inspect.Handlers].
func (h controlsOf) Controls() []receiver.Control { return h.g.rx.Controls() }

// Pause implements [inspect.Handlers].
func (h controlsOf) Pause(ctx context.Context, handler, reason string) error {
	return h.g.rx.Pause(ctx, handler, reason)
}

// Resume implements [inspect.Handlers].
func (h controlsOf) Resume(ctx context.Context, handler string) error {
	return h.g.rx.Resume(ctx, handler)
}

// authorized requires the token, or where readers may read the token for that.
func (s *stateFiles) authorized(next http.Handler, readers bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		same := func(want string) bool { return subtle.ConstantTimeCompare([]byte(token), []byte(want)) == 1 }
		reads := readers && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		if !same(s.token) && (!reads || !same(s.readToken)) {
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

// foreignOrigin goes by Sec-Fetch-Site where it is sent, which only the browser can set: a form of
// a page with Referrer-Policy: no-referrer has the Origin null.
func foreignOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return false
	case "", "none":
	default:
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
