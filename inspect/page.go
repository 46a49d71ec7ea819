package inspect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// DefaultPrefix is the path of the page.
const DefaultPrefix = "/ui"

// maxForm bounds the body of a form, in bytes.
const maxForm = 4 * maxEdited

// Options configure the page.
type Options struct {
	// Store holds the events. Required: [Page] panics without it.
	Store dedup.Store
	// Token opens the page, and ReadToken opens it for reading only. Without either
	// no login succeeds. They should be random, with at least 128 bits.
	Token, ReadToken string
	// ReadOnly lets no one change anything.
	ReadOnly bool
	// Prefix is the path below which the page is served, such as the default [DefaultPrefix].
	Prefix string
	// Producers are those of the receiver, for their own view.
	Producers []producer.Producer
	// Handlers returns the names of a producer's handlers. One of them can run an event that none
	// wanted. If it is nil the page offers that for no event.
	Handlers func(producer string) []string
	// URL is the public base of the receiver, as in [receiver.Config].
	URL string
	// Receiver names this one among those that share the store: every view shows it. May be empty.
	Receiver string
	// Refused holds the refused deliveries. If it is nil the page has only the codes of the last
	// ones.
	Refused RefusedSource
	// Explain finds out why the refused delivery with this number was refused. A secret that is
	// not empty is one that the operator suspects: it is tried, too, and must not be kept or
	// shown. ok is false if the delivery is not kept. If it is nil no cause is shown.
	Explain func(ctx context.Context, number uint64, secret string) (why Explanation, ok bool)
	// Redact are places in requests that the page does not show: header:NAME, query:NAME, or
	// json:MEMBER.MEMBER. With json rules a body that is not JSON is not shown at all. The search
	// is then for identifiers only, because one of bodies would find what is hidden. [Page] panics
	// if a rule is invalid. The JSON of [API] shows everything.
	Redact []string
	// Send sends the delivery of an event with another body through the whole path of the receiver,
	// signed again, with [FieldEdited]. If it is nil nothing can be sent from the page.
	Send func(ctx context.Context, event dedup.Record, body []byte) (Sent, error)
	// Controls are the handlers that can be paused: those of a [receiver.Receiver]. Defaults to
	// none.
	Controls Handlers
	// SeriesFile keeps the time series across a restart: a file of about 100 KiB, which is written
	// every 5 minutes and by [Inspector.Close]. One that is damaged or of another version is
	// ignored with a warning. Defaults to none.
	SeriesFile string
	// Status describes the process. May be nil.
	Status func(context.Context) Status
	// Log gets logins and changes. Defaults to discarding them.
	Log *slog.Logger
}

// Inspector serves the page for people, and the JSON of its views.
type Inspector struct {
	o         Options
	access    *access
	activity  *activity
	history   *history
	causes    *causes
	redaction *redaction
	jobs      *jobs
	began     time.Time
	handler   http.Handler
}

// Page returns an inspector, an http.Handler: the page below its prefix. It wants a login with a
// token, or with a login code, which a client with the token gets. Pass [Inspector.Observe] to the
// receiver, and close the inspector before its store.
//
//	page := inspect.Page(inspect.Options{Store: store, Token: os.Getenv("INSPECT_TOKEN")})
//	defer page.Close()
//	http.Handle("/ui/", page)
//
// The page is for the port of operators. Requests from other sites are refused by their Origin and
// Sec-Fetch-Site, but the Host is for the server to check.
func Page(o Options) *Inspector {
	if o.Store == nil {
		panic("inspect: Options.Store is nil: open the store first")
	}
	o.Prefix = "/" + strings.Trim(cmp.Or(o.Prefix, DefaultPrefix), "/")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Inspector{
		o: o, redaction: newRedaction(o.Redact), causes: &causes{}, began: time.Now().UTC(),
		history: &history{store: o.Store, file: o.SeriesFile, log: o.Log},
	}
	p.history.load()
	p.activity = newActivity(p.history)
	p.access = &access{
		token: o.Token, readToken: o.ReadToken, readOnly: o.ReadOnly,
		sessions: map[string]*session{}, codes: map[string]code{},
	}
	p.jobs = &jobs{store: o.Store, log: p.logJob}
	p.jobs.ctx, p.jobs.end = context.WithCancel(context.Background())
	p.jobs.group.Go(func() { p.history.keep(p.jobs.ctx) })
	p.handler = http.NewCrossOriginProtection().Handler(p.routes())
	return p
}

// Renewed returns an inspector with other options in the place of p, for a receiver that was
// reloaded. Store and tokens must be those of p. Logins, jobs, and what was observed are shared:
// observing, stopping or closing one of them does so for both. A change of ReadOnly ends all
// logins.
func (p *Inspector) Renewed(o Options) *Inspector {
	o.Prefix = "/" + strings.Trim(cmp.Or(o.Prefix, DefaultPrefix), "/")
	o.Log = cmp.Or(o.Log, p.o.Log)
	next := &Inspector{
		o: o, redaction: newRedaction(o.Redact), access: p.access, activity: p.activity, history: p.history,
		causes: p.causes, jobs: p.jobs, began: p.began,
	}
	p.access.setReadOnly(o.ReadOnly)
	next.handler = http.NewCrossOriginProtection().Handler(next.routes())
	return next
}

// Observe is for [receiver.Config]: without it the page shows the store only.
func (p *Inspector) Observe(ctx context.Context, o receiver.Observation) { p.activity.observe(ctx, o) }

// Stop ends live views and stops jobs, so that the server can end.
func (p *Inspector) Stop() { p.jobs.end() }

// Close stops and waits for the jobs, and saves the time series.
func (p *Inspector) Close() {
	p.Stop()
	p.jobs.group.Wait()
	p.history.save()
}

func (p *Inspector) logJob(j Job) {
	p.o.Log.Info("dead letters were reopened from the page", "job", j.ID, "what", j.What, "reopened", j.Reopened,
		"refused", j.Refused, "error", j.Error)
}

// ServeHTTP implements http.Handler.
func (p *Inspector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "+
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	p.handler.ServeHTTP(w, r)
}

func (p *Inspector) routes() http.Handler {
	mux := http.NewServeMux()
	at := func(pattern string, serve http.HandlerFunc) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+p.o.Prefix+path, serve)
	}
	for _, name := range []string{"page.css", "page.js", "page.svg"} {
		at("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, pageFiles, "page/"+name)
		})
	}
	at("GET /login", p.login)
	at("POST /login", p.login)
	at("POST /code", p.code)
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request, *session){
		"GET /{$}":                      p.deliveries,
		"GET /stream":                   p.stream,
		"GET /events/{event}":           p.event,
		"GET /events/{event}/raw":       p.eventRaw,
		"POST /events/{event}/{action}": p.changeEvent,
		"GET /refused/{number}":         p.refused,
		"POST /refused/{number}":        p.refused,
		"GET /refused/{number}/raw":     p.refusedRaw,
		"GET /dead":                     p.deadLetters,
		"POST /dead":                    p.reopenDead,
		"GET /jobs/{job}":               p.job,
		"POST /jobs/{job}/stop":         p.stopJob,
		"GET /producers":                p.producers,
		"GET /health":                   p.health,
		"POST /handlers":                p.controlHandler,
		"POST /logout":                  p.logout,
		"GET /":                         p.unknown,
	} {
		at(pattern, p.member(serve))
	}
	return mux
}

// member requires a session. A change needs more: its right, and the token of the session's forms.
func (p *Inspector) member(serve func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, ok := p.access.find(r)
		switch {
		case !ok && r.Method == http.MethodGet && r.Header.Get("Eyelet-Part") == "" &&
			r.Header.Get("Accept") != streamType:
			http.Redirect(w, r, p.o.Prefix+"/login", http.StatusSeeOther)
		case !ok:
			p.showLogin(w, http.StatusUnauthorized, "")
		case r.Method != http.MethodPost:
			serve(w, r, &s)
		case subtle.ConstantTimeCompare([]byte(r.PostFormValue("form")), []byte(s.form)) == 0:
			p.showFault(w, r, &s, http.StatusForbidden,
				"This form is from another login. Open the page again and repeat it.")
		case s.readOnly && !strings.HasSuffix(r.URL.Path, "/logout"):
			p.showFault(w, r, &s, http.StatusForbidden, "This login can only read.")
		default:
			serve(w, r, &s)
		}
	}
}

// login takes the form with the token, or the link with a login code.
func (p *Inspector) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		text := r.FormValue("code")
		if text == "" || r.Method == http.MethodHead { // a look uses up no code
			p.showLogin(w, http.StatusOK, "")
			return
		}
		id, ok := p.access.useCode(text)
		if !ok {
			p.showLogin(w, http.StatusUnauthorized,
				"This link was used already or is more than a minute old. Run eyelet open again.")
			return
		}
		p.enter(w, r, id)
		return
	}
	id, busy := p.access.login(strings.TrimSpace(r.PostFormValue("token")))
	switch {
	case busy:
		w.Header().Set("Retry-After", "60")
		p.showLogin(w, http.StatusTooManyRequests, "Too many wrong tokens. Wait a minute, or run eyelet open.")
	case id == "":
		p.o.Log.Warn("a login to the page with a wrong token", "peer", r.RemoteAddr)
		p.showLogin(w, http.StatusUnauthorized, "That is not the token.")
	default:
		p.enter(w, r, id)
	}
}

func (p *Inspector) enter(w http.ResponseWriter, r *http.Request, id string) {
	p.o.Log.Info("login to the page", "peer", r.RemoteAddr)
	setCookie(w, r, p.o.Prefix, id)
	http.Redirect(w, r, p.o.Prefix+"/", http.StatusSeeOther)
}

// code returns a login code to a client with the token.
func (p *Inspector) code(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	text, ok := p.access.newCode(token)
	if !ok {
		fail(w, http.StatusUnauthorized, "no login code: the token is wrong, or there were 16 codes in a minute")
		return
	}
	setHeaders(w, "application/json")
	// the client may be gone
	_ = json.NewEncoder(w).Encode(map[string]string{"path": p.o.Prefix + "/login?code=" + text})
}

func (p *Inspector) logout(w http.ResponseWriter, r *http.Request, _ *session) {
	p.access.change(r, func(id string, _ *session) { delete(p.access.sessions, id) })
	http.Redirect(w, r, p.o.Prefix+"/login", http.StatusSeeOther)
}

//go:embed page
var pageFiles embed.FS

// pages are parsed by the first view, as most commands have none.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"clean": clean, "clock": clock, "ago": ago, "bytes": byteSize, "took": duration.Rough, "short": short,
		"num": grouped, "words": func(code string) string { return clean(words(code)) }, "rowsOf": rowsOf,
		"survives": survives, "seconds": roughly, "age": signedAge,
		"before": func(s, end string) string { before, _, _ := strings.Cut(s, end); return before },
	}).ParseFS(pageFiles, "page/*.html"))
})

// shell is what every view has.
type shell struct {
	Prefix, Title, Tab string
	Form               string
	Refresh            bool // without JavaScript, every 2 seconds
	ReadOnly           bool
	Flash              string
	Dead               int64 // dead letters
	Fault              string
	State              string // of the receiver
	Receiver           string
	View               any
}

// show renders a view, or only its part for the script: that replaces the part in the page.
func (p *Inspector) show(w http.ResponseWriter, r *http.Request, s *session, status int, name string, v shell) {
	v.Prefix, v.Form, v.ReadOnly, v.Receiver = p.o.Prefix, s.form, s.readOnly, p.o.Receiver
	w.Header().Set("Vary", "Eyelet-Part")
	if part := r.Header.Get("Eyelet-Part"); part != "" {
		p.render(w, status, name+"-"+part, v)
		return
	}
	p.access.change(r, func(_ string, s *session) { v.Flash, s.flash = s.flash, "" })
	st, err := p.o.Store.Stats(r.Context())
	v.Dead, v.State = st.Dead, "accepting"
	if err = cmp.Or(err, p.o.Store.Health(r.Context())); err != nil {
		v.State = "not accepting"
	}
	p.render(w, status, name, v)
}

func (p *Inspector) render(w http.ResponseWriter, status int, name string, v shell) {
	var b bytes.Buffer
	if pages().Lookup(name) == nil {
		name, status = "empty", http.StatusNotFound
	}
	if err := pages().ExecuteTemplate(&b, name, v); err != nil {
		p.o.Log.Error("the page could not be made", "template", name, "error", err)
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may be gone
}

func (p *Inspector) showLogin(w http.ResponseWriter, status int, fault string) {
	p.render(w, status, "login", shell{Prefix: p.o.Prefix, Title: "Log in", Fault: fault})
}

func (p *Inspector) showFault(w http.ResponseWriter, r *http.Request, s *session, status int, fault string) {
	p.show(w, r, s, status, "fault", shell{Title: http.StatusText(status), Fault: fault})
}

func (p *Inspector) unknown(w http.ResponseWriter, r *http.Request, s *session) {
	p.showFault(w, r, s, http.StatusNotFound, "There is no such page.")
}

// showError responds to an error of the store.
func (p *Inspector) showError(w http.ResponseWriter, r *http.Request, s *session, err error) {
	text, status := err.Error(), http.StatusServiceUnavailable
	if row, ok := refusalOf(err); ok {
		text, status = row.err.Error(), row.status
	}
	if errors.Is(err, dedup.ErrNotFound) {
		text = "There is no such event. It may have been forgotten, or its window has ended."
	}
	p.showFault(w, r, s, status, text)
}

// back redirects after a change, with what to say there.
func (p *Inspector) back(w http.ResponseWriter, r *http.Request, path, flash string) {
	p.access.change(r, func(_ string, s *session) { s.flash = flash })
	http.Redirect(w, r, p.o.Prefix+path, http.StatusSeeOther)
}
