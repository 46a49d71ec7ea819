// Package inspect serves the events of a store over HTTP, for operators: as a page for browsers
// ([Page]) and as JSON.
//
// [API] gives every client all payloads in the store, and lets it purge them: put it behind
// authentication.
package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/duration"
)

// DefaultLimit is the length of a list without the parameter limit.
const DefaultLimit = 100

// listPatience is how long a client may take to read the next lines of a list.
const listPatience = 30 * time.Second

// NDJSON is the media type of lists: one JSON object per line.
const NDJSON = "application/x-ndjson"

// API serves the events of a store:
//
//	GET /events?state=dead&type=order.*   lines of [Event], newest first
//	GET /events/EVENT                     one [Detail]
//	GET /events/EVENT/raw                 the delivery as an *.http file
//	POST /events/EVENT/reopen             runs dead tasks again, and those that a [ChangeRequest]
//	                                      adds; returns the [Event]
//	POST /events/EVENT/rerun              runs its tasks again, also done ones, or those of the
//	                                      handlers in a [ChangeRequest]; returns the [Event]
//	POST /events/EVENT/retry              runs waiting tasks now; returns the [Event]
//	POST /events/EVENT/forget             forgets it and its quarantined copies, see [Forget]; 204
//	DELETE /events/EVENT                  forgets the event and its key; 204
//	POST /jobs                            makes the change of a [JobRequest]; lines of [JobLine]
//
// The parameters of a list are event, id (the idempotency identifier, or the sender's), ref
// (either, or the number or at least the first 4 characters of an event), producer, endpoint, type
// (also "prefix*"), handler, reason (of a task, which is that of the handler if one is given, or of
// a quarantine), state (several, or separated by commas), since (a duration, such as 1h), until
// (the time of RFC 3339 before which they were accepted), quarantined (true), text (in an
// identifier, the type, an attribute or the body), before (a seq, the cursor of the next page) and
// limit (0 is no limit). An unknown parameter is 400. A list that the store cannot finish ends with
// a line {"error": "..."}, and any other list with text with a line {"searched": [Searched]}.
//
// Errors are problems (RFC 9457): 400 for an invalid request, 404 for an unknown event, 409 for an
// event in another state, 413 for a body of more than 64 KiB (of a job 1 MiB), 501 for an optional
// interface that the store lacks, and 503 if the store fails. No run changes the stored response.
//
// API panics if the store is nil.
func API(store dedup.Store) http.Handler {
	if store == nil {
		panic("inspect: API(nil): open the store first")
	}
	return newAPI(&api{store: store, log: slog.New(slog.DiscardHandler), stopping: context.Background()})
}

func newAPI(a *api) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", a.list)
	mux.HandleFunc("GET /events/{event}", a.show)
	mux.HandleFunc("GET /events/{event}/raw", a.raw)
	for _, action := range changeActions {
		mux.HandleFunc("POST /events/{event}/"+action, a.change(action))
	}
	mux.HandleFunc("POST /jobs", a.job)
	mux.HandleFunc("GET /fences", a.fences)
	mux.HandleFunc("DELETE /fences", a.resetFences)
	mux.HandleFunc("DELETE /events/{event}", a.purge)
	return mux
}

type api struct {
	store    dedup.Store
	log      *slog.Logger    // of the events that jobs change
	stopping context.Context //nolint:containedctx // ends the jobs of clients
}

func (a *api) list(w http.ResponseWriter, r *http.Request) {
	filter, err := ParseFilter(r.URL.Query())
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	var searched dedup.Searched
	filter.Searched = &searched
	setHeaders(w, NDJSON)
	lines := json.NewEncoder(w)
	flush := http.NewResponseController(w)
	n := 0
	for rec, err := range a.store.List(r.Context(), filter) {
		if err != nil {
			_ = lines.Encode(map[string]string{"error": err.Error()}) // the client sees it, or is gone
			return
		}
		if lines.Encode(Summary(rec)) != nil {
			return
		}
		if n++; n%64 == 0 {
			_ = flush.Flush() // without flushing, lines are sent later
			// a long list takes longer than the server's write timeout
			_ = flush.SetWriteDeadline(time.Now().Add(listPatience))
		}
	}
	if filter.Text != "" {
		_ = lines.Encode(map[string]Searched{"searched": newSearched(searched)}) // the client may be gone
	}
}

// Searched is how far a list with text looked: see [dedup.Searched]. Before is missing when nothing
// older is left.
type Searched struct {
	Records int        `json:"records"`
	Dropped int        `json:"dropped"`
	Back    *time.Time `json:"back,omitempty"`
	Before  uint64     `json:"before,omitempty"`
}

func newSearched(s dedup.Searched) Searched {
	return Searched{Records: s.Records, Dropped: s.Dropped, Back: timePtr(s.Back), Before: s.Before}
}

func (a *api) show(w http.ResponseWriter, r *http.Request) {
	rec, err := a.store.Get(r.Context(), r.PathValue("event"))
	respond(w, Details(rec), err)
}

// setHeaders sets the fields of a response. It may hold data of unauthenticated clients: it must
// not be cached, and browsers must not guess its type.
func setHeaders(w http.ResponseWriter, kind string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// respond writes a value, or with the error of the store.
func respond(w http.ResponseWriter, what any, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	setHeaders(w, "application/json")
	_ = json.NewEncoder(w).Encode(what) // the client may be gone
}

func fail(w http.ResponseWriter, status int, title string) {
	setHeaders(w, "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": title, "status": status}) // the client may be gone
}

// ParseFilter parses the parameters of a list. Its error names the wrong one.
func ParseFilter(q url.Values) (dedup.Filter, error) {
	f := dedup.Filter{Limit: DefaultLimit}
	for name, values := range q {
		if len(values) > 1 && name != "state" {
			return f, fmt.Errorf("parameter %q is given twice", name)
		}
		if err := setFilter(&f, name, values); err != nil {
			return f, fmt.Errorf("parameter %q: %w", name, err)
		}
	}
	return f, nil
}

func setFilter(f *dedup.Filter, name string, values []string) (err error) {
	value := values[0]
	text := map[string]*string{
		"event": &f.Event, "id": &f.ID, "ref": &f.Ref, "producer": &f.Producer, "endpoint": &f.Endpoint,
		"type": &f.Type, "handler": &f.Handler, "reason": &f.Reason, "text": &f.Text,
	}[name]
	if text != nil {
		*text = value
		return nil
	}
	switch name {
	case "state":
		f.States, err = parseStates(values)
	case "since":
		if f.Since, err = duration.Parse(value); err != nil || f.Since <= 0 {
			err = fmt.Errorf("%q is not a past duration, such as 1h", value)
		}
	case "until":
		if f.Until, err = time.Parse(time.RFC3339, value); err != nil {
			err = fmt.Errorf("%q is not a time, such as 2006-01-02T15:04:05Z", value)
		}
	case "quarantined":
		if f.Quarantined, err = strconv.ParseBool(value); err != nil {
			err = fmt.Errorf("%q is neither true nor false", value)
		}
	case "before":
		if f.Before, err = strconv.ParseUint(value, 10, 64); err != nil {
			err = fmt.Errorf("%q is not a seq of a list", value)
		}
	case "limit":
		if f.Limit, err = strconv.Atoi(value); err != nil || f.Limit < 0 {
			err = fmt.Errorf("%q is not a number of events", value)
		}
	default:
		err = errors.New("unknown")
	}
	return err
}

func parseStates(values []string) ([]dedup.State, error) {
	var states []dedup.State
	for _, value := range values {
		for word := range strings.SplitSeq(value, ",") {
			state, ok := stateOf(word)
			if !ok {
				return nil, fmt.Errorf("%q is not a state: pending, running, done or dead", word)
			}
			states = append(states, state)
		}
	}
	return states, nil
}

func stateOf(word string) (dedup.State, bool) {
	for _, s := range []dedup.State{dedup.Pending, dedup.Running, dedup.Done, dedup.Dead} {
		if s.String() == word {
			return s, true
		}
	}
	return 0, false
}
