package inspect

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Fence is how far a lane of a handler was handled ([dedup.Fence]): older events of it do not run.
type Fence struct {
	// ID names it: the first 12 hex digits of the hash of its key.
	ID        string `json:"id"`
	Endpoint  string `json:"endpoint"`
	Principal string `json:"principal"`
	Handler   string `json:"handler"`
	Lane      string `json:"lane"`
	// Version and Event are of the newest event that was handled, and Moved is when that was.
	Version string    `json:"version"`
	Event   string    `json:"event"`
	Moved   time.Time `json:"moved"`
}

// eachFence calls do for the fences of an endpoint, or for all of the store if it is empty.
func (a *api) eachFence(ctx context.Context, endpoint string, do func(dedup.Key, Fence) error) error {
	for note, err := range a.store.Notes(ctx, dedup.SpaceFence) {
		if err != nil {
			return err
		}
		f, ok := dedup.FenceIn(note)
		if !ok || endpoint != "" && endpoint != f.Endpoint {
			continue
		}
		hash := note.Key.Hash()
		err = do(note.Key, Fence{
			ID: hex.EncodeToString(hash[:6]), Endpoint: f.Endpoint, Principal: f.Principal, Handler: f.Handler,
			Lane: f.Lane, Version: f.Version, Event: f.Event, Moved: f.Moved.UTC(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fences lists the fences, with the parameter producer those of its endpoint.
func (a *api) fences(w http.ResponseWriter, r *http.Request) {
	setHeaders(w, NDJSON)
	lines := json.NewEncoder(w)
	write := func(_ dedup.Key, f Fence) error { return lines.Encode(f) }
	if err := a.eachFence(r.Context(), r.FormValue("producer"), write); err != nil {
		_ = lines.Encode(map[string]string{"error": err.Error()}) // the client sees it, or is gone
	}
}

// resetFences removes the fences that the parameters id name, or those of a producer, and responds
// with them. It removes none if one of them is unknown.
func (a *api) resetFences(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	ids, endpoint := q["id"], q.Get("producer")
	if (len(ids) == 0) == (endpoint == "") {
		failRequest(w, errors.New("want id or producer"))
		return
	}
	removed, keys := []Fence{}, []dedup.Key{}
	err := a.eachFence(r.Context(), endpoint, func(k dedup.Key, f Fence) error {
		if endpoint != "" || slices.Contains(ids, f.ID) {
			removed, keys = append(removed, f), append(keys, k)
		}
		return nil
	})
	for _, id := range ids {
		if err == nil && !slices.ContainsFunc(removed, func(f Fence) bool { return f.ID == id }) {
			fail(w, http.StatusNotFound, "there is no fence "+id)
			return
		}
	}
	for _, k := range keys {
		if err == nil {
			err = a.store.ChangeNote(r.Context(), k, func(string) (string, error) { return "", nil })
		}
	}
	respond(w, removed, err)
}

// errStaleRerun refuses to run an event again that may undo a newer one.
var errStaleRerun = errors.New("a newer event of its lane was handled: it runs again only with force (--force)")

// stale returns the handlers of the tasks that the change makes run, or made run, although they are
// older than what was handled in their lanes. They do not run.
func (c *change) stale(ctx context.Context, r *dedup.Record) (handlers []string, err error) {
	for i := range r.Tasks {
		t := &r.Tasks[i]
		runs := t.State != dedup.Done
		if c.action == actionRerun {
			runs = !t.Open() && (len(c.Handlers) == 0 || slices.Contains(c.Handlers, t.Handler))
		}
		key, fenced := r.FenceOf(i)
		if !runs || !fenced {
			continue
		}
		note, err := c.store.Note(ctx, key)
		if err != nil {
			return nil, err
		}
		if r.Stale(i, note) {
			handlers = append(handlers, t.Handler)
		}
	}
	return handlers, nil
}

// rerun runs an event again. Only its stale tasks are forced.
func (c *change) rerun(ctx context.Context, event string) (dedup.Record, error) {
	rec, err := c.store.Get(ctx, event)
	if err != nil {
		return rec, err
	}
	stale, err := c.stale(ctx, &rec)
	switch {
	case err != nil:
		return rec, err
	case len(stale) == 0:
		return c.store.Rerun(ctx, event, dedup.Rerun{Handlers: c.Handlers})
	case !c.Force:
		return rec, errStaleRerun
	}
	others := slices.Clone(c.Handlers)
	for i := range rec.Tasks {
		if len(c.Handlers) == 0 {
			others = append(others, rec.Tasks[i].Handler)
		}
	}
	others = slices.DeleteFunc(others, func(name string) bool { return slices.Contains(stale, name) })
	if len(others) > 0 { // it refuses what the other call would, before anything runs
		if rec, err = c.store.Rerun(ctx, event, dedup.Rerun{Handlers: others}); err != nil {
			return rec, err
		}
	}
	return c.store.Rerun(ctx, event, dedup.Rerun{Handlers: stale, Force: true})
}
