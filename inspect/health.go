package inspect

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// Status describes the process to the view of its health.
type Status struct {
	// Version is that of the program.
	Version string `json:"version,omitempty"`
	// Store is the name of the store, without credentials.
	Store string `json:"store,omitempty"`
	// Degraded are problems with which deliveries are still accepted.
	Degraded []string `json:"degraded,omitempty"`
	// Targets are those of forward handlers.
	Targets []Target `json:"targets,omitempty"`
	// Lists are the comparisons with the lists of vendors, by producer.
	Lists []List `json:"lists,omitempty"`
	// Reload is the last reload of the configuration; nil if there was none.
	Reload *Reload `json:"reload,omitempty"`
	// Handlers says which are paused.
	Handlers []receiver.Control `json:"handlers,omitempty"`
	// Retiring are handlers that were removed and still have tasks.
	Retiring []Retiring `json:"retiring,omitempty"`
}

// List is the last comparison with the list of a vendor, or the one that runs.
type List struct {
	Producer string    `json:"producer"`
	From     string    `json:"from"` // the host of the list
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"` // when it began; zero before the first
	Ended    bool      `json:"ended"`
	Listed   int       `json:"listed"`
	Missed   int       `json:"missed"`
	GivenUp  int       `json:"given_up"`
	// Unknown is the time before which it is not known whether an event is missing; zero for none.
	Unknown time.Time `json:"unknown,omitzero"`
	Problem string    `json:"problem,omitempty"` // why it stopped
}

// Reload is a reload of the configuration.
type Reload struct {
	Time    time.Time `json:"time"`
	Applied bool      `json:"applied"`
	Problem string    `json:"problem,omitempty"` // of one that was refused
}

// Retiring is a handler that was removed from the configuration and finishes its tasks.
type Retiring struct {
	Handler string `json:"handler"`
	Tasks   int    `json:"tasks"` // that it still has; -1 if they are not counted yet
}

// Target is the state of a target of a forward handler.
type Target struct {
	Name   string `json:"name"`
	On     bool   `json:"on"`
	Reason string `json:"reason,omitempty"` // of one that is off
}

// Health is the state of the receiver and its store.
type Health struct {
	Status
	// Accepting is whether deliveries are accepted, and Problem why not.
	Accepting bool      `json:"accepting"`
	Problem   string    `json:"problem,omitempty"`
	Started   time.Time `json:"started"`
	// Receiver is its name among those that share the store.
	Receiver string `json:"receiver,omitempty"`
	// The counts are those of [dedup.Stats]. Sizes are in bytes; Free is -1 if it is unknown.
	Records int64 `json:"records"`
	Pending int64 `json:"pending"`
	Running int64 `json:"running"`
	Dead    int64 `json:"dead"`
	Backlog int64 `json:"backlog_bytes"`
	Bytes   int64 `json:"bytes"`
	// Events is the part of Bytes that events fill; the rest is reserved. 0 if that is unknown.
	Events int64 `json:"event_bytes,omitempty"`
	Free   int64 `json:"free_bytes"`
	// Oldest is when the oldest event that waits for handlers was accepted.
	Oldest *time.Time `json:"oldest,omitempty"`
	// Flush is how long the last durable step took, in seconds; missing if that is unknown.
	Flush float64 `json:"flush,omitempty"`
	// Lanes are those with open events, the fullest first: at most 10, of the newest 1,000 open
	// events.
	Lanes []Lane `json:"lanes,omitempty"`
	// Durability is what an acknowledged event survives: none, process, machine or replicated.
	Durability string `json:"durability"`
	Shared     bool   `json:"shared"` // by several processes
}

// Lane is a lane with open events.
type Lane struct {
	Name string `json:"name"`
	Open int    `json:"open"` // tasks
	// Oldest is when the oldest of their events was accepted.
	Oldest time.Time `json:"oldest"`
}

const (
	maxLaneEvents = 1000
	maxLanes      = 10
)

// lanes returns the lanes of open events, the fullest first.
func lanes(ctx context.Context, store dedup.Store) ([]Lane, error) {
	open := map[string]*Lane{}
	f := dedup.Filter{States: []dedup.State{dedup.Pending, dedup.Running}, Limit: maxLaneEvents}
	for rec, err := range store.List(ctx, f) {
		if err != nil {
			return nil, err
		}
		for i := range rec.Tasks {
			t := &rec.Tasks[i]
			if t.Lane == "" || !t.Open() {
				continue
			}
			l := open[t.Lane]
			if l == nil {
				l = &Lane{Name: t.Lane}
				open[t.Lane] = l
			}
			l.Open++
			l.Oldest = rec.Accepted.UTC() // the list goes back in time
		}
	}
	var all []Lane
	for _, l := range open {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b Lane) int {
		return cmp.Or(b.Open-a.Open, a.Oldest.Compare(b.Oldest), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), maxLanes)], nil
}

// Health returns the state of the receiver and its store.
func (p *Inspector) Health(ctx context.Context) (Health, error) {
	st, err := p.o.Store.Stats(ctx)
	if err != nil {
		return Health{}, err
	}
	h := Health{
		Accepting: true, Started: p.began, Receiver: p.o.Receiver,
		Records: st.Records, Pending: st.Pending, Running: st.Running, Dead: st.Dead,
		Backlog: st.Backlog, Bytes: st.Bytes, Events: st.Events, Free: st.Free, Flush: st.Flush.Seconds(),
		Oldest:     timePtr(st.Oldest),
		Durability: p.o.Store.Guarantees().Durability.String(), Shared: p.o.Store.Guarantees().Shared,
	}
	if h.Lanes, err = lanes(ctx, p.o.Store); err != nil {
		return Health{}, err
	}
	if p.o.Status != nil {
		h.Status = p.o.Status(ctx)
	}
	if p.o.Controls != nil {
		h.Handlers = p.o.Controls.Controls()
	}
	if err := p.o.Store.Health(ctx); err != nil {
		h.Accepting, h.Problem = false, err.Error()
	}
	return h, nil
}

// ProducerState is a producer with what came from it since the start of the process.
type ProducerState struct {
	Name   string `json:"name"`
	Preset string `json:"preset,omitempty"`
	// URL is the address that the producer calls.
	URL string `json:"url,omitempty"`
	// Window is how long its keys are remembered, in seconds.
	Window float64 `json:"window"`
	// Signature describes how it signs, and Keys name its secrets by their positions, and its keys.
	// They are empty if the scheme does not say.
	Signature string   `json:"signature,omitempty"`
	Keys      []string `json:"keys,omitempty"`
	// UniqueBy says what makes its events distinct, and Past and Future how far back and ahead a
	// signed time is accepted, in seconds.
	UniqueBy string  `json:"unique_by"`
	Past     float64 `json:"past"`
	Future   float64 `json:"future"`
	// Retire is when its endpoint ends, if that is planned.
	Retire *time.Time `json:"retire,omitempty"`
	// MonitorUntil is when it will refuse deliveries that do not verify, if it does not yet.
	MonitorUntil *time.Time `json:"monitor_until,omitempty"`
	Traffic
}

// ProducerStates returns the producers of the receiver, in the order of its configuration.
func (p *Inspector) ProducerStates(ctx context.Context) []ProducerState {
	all := []ProducerState{}
	for _, one := range p.o.Producers {
		one = one.WithDefaults()
		s := ProducerState{Name: one.Name, Preset: one.Preset, URL: one.URL, Window: one.Window.Seconds(),
			UniqueBy: one.Class().UniqueBy(), Past: one.Tolerance.Past.Seconds(),
			Future: one.Tolerance.Future.Seconds(), Retire: timePtr(one.Retire), Traffic: p.activity.of(one.Name)}
		if time.Now().Before(one.MonitorUntil) {
			s.MonitorUntil = timePtr(one.MonitorUntil)
		}
		if scheme, ok := one.Scheme.(fmt.Stringer); ok {
			s.Signature = scheme.String()
		}
		if scheme, ok := one.Scheme.(verify.Alternator); ok && !one.Tenants.On() {
			for _, offer := range scheme.Offers(ctx) {
				s.Keys = append(s.Keys, offer.Name)
			}
		}
		if s.URL == "" && p.o.URL != "" {
			s.URL = p.o.URL + "/webhooks/" + one.Name
		}
		if one.Tenants.On() {
			s.URL += "/TENANT"
		}
		all = append(all, s)
	}
	return all
}

// API serves the JSON of the page, beside [API], which it includes. Every response has the field
// Eyelet-API: 1.
//
//	GET /producers   an array of [ProducerState]
//	GET /health      the [Health]
//	GET /series      an array of [Point], the oldest first, with the parameter step: 1m (default)
//	                 and 15m for a day, 1h and 6h for 30 days. Steps are missing in which the
//	                 process did not run
//	GET /jobs        an array of [Job], newest first
//
// With [Options.Controls] it also has [HandlersAPI].
//
// It asks for no token: put it behind authentication.
func (p *Inspector) API() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /producers", func(w http.ResponseWriter, r *http.Request) {
		respond(w, p.ProducerStates(r.Context()), nil)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		h, err := p.Health(r.Context())
		respond(w, h, err)
	})
	mux.Handle("GET /series", p.history)
	mux.HandleFunc("GET /jobs", func(w http.ResponseWriter, _ *http.Request) { respond(w, p.jobs.list(), nil) })
	if p.o.Controls != nil {
		mux.Handle("/handlers", HandlersAPI(p.o.Controls))
		mux.Handle("/handlers/", HandlersAPI(p.o.Controls))
	}
	mux.Handle("/", newAPI(&api{store: p.o.Store, log: p.o.Log, stopping: p.jobs.ctx}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Eyelet-API", "1")
		mux.ServeHTTP(w, r)
	})
}

func (p *Inspector) producers(w http.ResponseWriter, r *http.Request, s *session) {
	p.show(w, r, s, http.StatusOK, "producers",
		shell{Title: "Producers", Tab: "producers", View: p.ProducerStates(r.Context())})
}

func (p *Inspector) health(w http.ResponseWriter, r *http.Request, s *session) {
	h, err := p.Health(r.Context())
	if err != nil {
		p.showError(w, r, s, err)
		return
	}
	p.show(w, r, s, http.StatusOK, "health", shell{Title: "Health", Tab: "health", View: struct {
		Health
		Reserved int64
		Charts   charts
	}{h, h.Bytes - h.Events, p.history.charts(r.FormValue("range"), p.o.Prefix+"/")}})
}

// controlHandler takes the forms of the view of the health.
func (p *Inspector) controlHandler(w http.ResponseWriter, r *http.Request, s *session) {
	name, action := r.PostFormValue("handler"), r.PostFormValue("action")
	if p.o.Controls == nil {
		p.unknown(w, r, s)
		return
	}
	request := HandlerRequest{Handler: name, Reason: r.PostFormValue("reason")}
	if err := setPaused(r.Context(), p.o.Controls, action, request); err != nil {
		p.showFault(w, r, s, controlStatus(err), err.Error())
		return
	}
	p.o.Log.Info("a handler was changed from the page", "handler", name, "action", action)
	p.back(w, r, "/health", map[bool]string{true: "Paused.", false: "Resumed."}[action == "pause"])
}
