// Package inspect shows what a store holds, and lets a person decide about it, as JSON over HTTP.
//
// [API] gives whoever may call it every payload in the store, and lets them purge it: put it behind
// authentication.
package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// DefaultLimit is how many events a list holds when the request does not say.
const DefaultLimit = 100

// listPatience is how long a reader of a list may take for the next lines.
const listPatience = 30 * time.Second

// NDJSON is the media type of lists: one JSON object a line.
const NDJSON = "application/x-ndjson"

// API serves the events of a store:
//
//	GET /events?state=dead&type=order.*   lines of [Event], newest first
//	GET /events/EVENT                     one [Detail]
//	GET /events/EVENT/raw                 the delivery as an *.http file
//	POST /events/EVENT/reopen             dead tasks run again; answers the [Event]. A body {"tasks": [...]} of
//	                                      [NewTask] adds tasks of handlers that the event does not have
//	POST /events/EVENT/retry              waiting tasks run now; answers the [Event]
//	DELETE /events/EVENT                  forgets the event and its key; 204
//
// A list takes the parameters event, id (what the event is unique by, or what its sender gave), producer, endpoint, type ("prefix*" too), handler, reason (of a task,
// of that handler where one is named, or of a quarantine), state (several, or separated by commas), since (a duration, such as 1h),
// aside (true), before (a seq: the cursor of the next page) and limit (0 is without a limit). An unknown
// parameter is 400. A list that the store cannot finish ends with a line {"error": "..."}.
//
// Mistakes are problems (RFC 9457): 400 for what is asked wrongly, 404 for an unknown event, 409 for an event
// that is not in the state for it, 413 for a body of more than 64 KiB, 501 where the store has not the power,
// and 503 when it cannot work. Reopening never changes the answer that duplicates get.
func API(store dedup.Store) http.Handler {
	a := &api{store: store}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", a.list)
	mux.HandleFunc("GET /events/{event}", a.show)
	mux.HandleFunc("GET /events/{event}/raw", a.raw)
	mux.HandleFunc("POST /events/{event}/reopen", a.reopen)
	mux.HandleFunc("POST /events/{event}/retry", a.retry)
	mux.HandleFunc("DELETE /events/{event}", a.purge)
	return mux
}

type api struct{ store dedup.Store }

func (a *api) list(w http.ResponseWriter, r *http.Request) {
	filter, err := ParseFilter(r.URL.Query())
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	guard(w, NDJSON)
	lines := json.NewEncoder(w)
	flush := http.NewResponseController(w)
	n := 0
	for rec, err := range a.store.List(r.Context(), filter) {
		if err != nil {
			_ = lines.Encode(map[string]string{"error": err.Error()}) // the reader is gone, or learns of it
			return
		}
		if lines.Encode(Summary(rec)) != nil {
			return
		}
		if n++; n%64 == 0 {
			_ = flush.Flush()                                        // a writer that cannot flush sends later
			_ = flush.SetWriteDeadline(time.Now().Add(listPatience)) // a long list outlasts the server's bound
		}
	}
}

func (a *api) show(w http.ResponseWriter, r *http.Request) {
	rec, err := a.store.Get(r.Context(), r.PathValue("event"))
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, Details(rec))
}

// guard says what an answer is. It may hold what strangers sent: it is not kept on the way, and no browser takes it
// for anything else.
func guard(w http.ResponseWriter, kind string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

func answer(w http.ResponseWriter, what any) {
	guard(w, "application/json")
	_ = json.NewEncoder(w).Encode(what) // the reader is gone
}

func fail(w http.ResponseWriter, status int, title string) {
	guard(w, "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": title, "status": status}) // the reader is gone
}

// ParseFilter reads the parameters of a list. Its error names the one that is wrong.
func ParseFilter(q url.Values) (dedup.Filter, error) {
	f := dedup.Filter{Limit: DefaultLimit}
	for name, values := range q {
		if len(values) > 1 && name != "state" {
			return f, fmt.Errorf("parameter %q stands twice", name)
		}
		if err := setFilter(&f, name, values); err != nil {
			return f, fmt.Errorf("parameter %q: %w", name, err)
		}
	}
	return f, nil
}

func setFilter(f *dedup.Filter, name string, values []string) (err error) {
	value := values[0]
	switch name {
	case "event":
		f.Event = value
	case "id":
		f.ID = value
	case "producer":
		f.Producer = value
	case "endpoint":
		f.Endpoint = value
	case "type":
		f.Type = value
	case "handler":
		f.Handler = value
	case "reason":
		f.Reason = value
	case "state":
		f.States, err = parseStates(values)
	case "since":
		if f.Since, err = time.ParseDuration(value); err != nil || f.Since <= 0 {
			err = fmt.Errorf("%q is no time that has passed, such as 1h", value)
		}
	case "aside":
		if f.Quarantined, err = strconv.ParseBool(value); err != nil {
			err = fmt.Errorf("%q is neither true nor false", value)
		}
	case "before":
		if f.Before, err = strconv.ParseUint(value, 10, 64); err != nil {
			err = fmt.Errorf("%q is no seq of a list", value)
		}
	case "limit":
		if f.Limit, err = strconv.Atoi(value); err != nil || f.Limit < 0 {
			err = fmt.Errorf("%q is no number of events", value)
		}
	default:
		err = errors.New("not known here")
	}
	return err
}

func parseStates(values []string) ([]dedup.State, error) {
	var states []dedup.State
	for _, value := range values {
		for word := range strings.SplitSeq(value, ",") {
			state, ok := stateOf(word)
			if !ok {
				return nil, fmt.Errorf("%q is no state: pending, running, done and dead are", word)
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
