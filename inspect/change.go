package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/replay"
)

// maxRequestBody bounds the body of a request, in bytes.
const maxRequestBody = 64 << 10

// ChangeRequest is the optional body of a request to change an event.
type ChangeRequest struct {
	// Tasks are added to an event that is reopened, for handlers that it does not have yet. The
	// caller must know that the handlers exist: a task of an unknown handler becomes a dead letter
	// with that reason.
	Tasks []NewTask `json:"tasks,omitempty"`
	// Handlers are those that run again when an event is rerun. Defaults to all of the event.
	Handlers []string `json:"handlers,omitempty"`
	// Force also runs the tasks of a rerun that are stale. Without it their event is refused.
	Force bool `json:"force,omitempty"`
}

// NewTask asks for a task of one handler.
type NewTask struct {
	Handler string `json:"handler"`
	Lane    string `json:"lane,omitempty"`
}

// The changes of an event.
const (
	actionReopen = "reopen"
	actionRerun  = "rerun"
	actionRetry  = "retry"
	actionForget = "forget"
)

// changeActions are the changes that the API makes, of one event or of many.
var changeActions = []string{actionReopen, actionRerun, actionRetry, actionForget}

// change is a change of an event, for the API, for jobs and for the page.
type change struct {
	store  dedup.Store
	action string // of changeActions
	ChangeRequest
	copies copies // of all events to forget; nil to list those of each
}

// check returns what is wrong in the request.
func (c *change) check() error {
	switch {
	case !slices.Contains(changeActions, c.action):
		return fmt.Errorf("%q is no action: want one of %s", c.action, strings.Join(changeActions, ", "))
	case len(c.Tasks) > 0 && c.action != actionReopen:
		return errors.New("tasks are for reopen")
	case len(c.Handlers) > 0 && c.action != actionRerun:
		return errors.New("handlers are for rerun")
	case c.Force && c.action != actionRerun:
		return errors.New("force is for rerun")
	case slices.ContainsFunc(c.Tasks, func(t NewTask) bool { return t.Handler == "" }):
		return errors.New("a task without a handler")
	}
	return nil
}

// apply changes one event, and returns it; of a forgotten one nothing is left.
func (c *change) apply(ctx context.Context, event string) (dedup.Record, error) {
	switch c.action {
	case actionRerun:
		return c.rerun(ctx, event)
	case actionRetry:
		return c.store.RunNow(ctx, event)
	case actionForget:
		return dedup.Record{}, forget(ctx, c.store, event, c.copies)
	}
	var tasks []dedup.NewTask
	for _, t := range c.Tasks {
		tasks = append(tasks, dedup.NewTask{Handler: t.Handler, Lane: t.Lane})
	}
	return c.store.Reopen(ctx, event, tasks...)
}

// change returns a handler that makes a change of one event.
func (a *api) change(action string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, err := readRequest[ChangeRequest](w, r, maxRequestBody)
		c := change{store: a.store, action: action, ChangeRequest: request}
		if err == nil {
			err = c.check()
		}
		if err != nil {
			failRequest(w, err)
			return
		}
		rec, err := c.apply(r.Context(), r.PathValue("event"))
		if err == nil && action == actionForget {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		respond(w, Summary(rec), err)
	}
}

func failRequest(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		status = http.StatusRequestEntityTooLarge
	}
	fail(w, status, err.Error())
}

// readRequest reads the body. It refuses unknown members, and forms, because browsers send those
// across sites.
func readRequest[T any](w http.ResponseWriter, r *http.Request, limit int64) (o T, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil || len(body) == 0 {
		return o, err
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return o, errors.New("the body is not application/json")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, fmt.Errorf("the body is not a %s request: %w", path.Base(r.URL.Path), err)
	}
	if d.More() {
		return o, errors.New("the body holds more than one request")
	}
	return o, nil
}

func (a *api) purge(w http.ResponseWriter, r *http.Request) {
	if err := a.store.Purge(r.Context(), r.PathValue("event")); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *api) raw(w http.ResponseWriter, r *http.Request) {
	rec, err := a.store.Get(r.Context(), r.PathValue("event"))
	if err != nil {
		refuse(w, err)
		return
	}
	writeRaw(w, rec, false)
}

// writeRaw responds with the delivery of a record as a file, which may not have all of it.
func writeRaw(w http.ResponseWriter, rec dedup.Record, hidden bool) {
	file, err := replay.Export(rec)
	switch {
	case errors.Is(err, dedup.ErrNoPayload):
		refuse(w, err)
		return
	case err != nil:
		fail(w, http.StatusConflict, err.Error())
		return
	}
	if hidden {
		file.SetNote("body", "redacted")
	}
	if code := rec.Payload.Attributes[receiver.UnverifiedAttribute]; code != "" {
		file.SetNote("unverified", code) // it is not signed again
	}
	writeFile(w, file)
}

// writeFile responds with a recording. Browsers must not display it.
func writeFile(w http.ResponseWriter, file *replay.Recording) {
	data := file.Bytes()
	h := w.Header()
	setHeaders(w, "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": file.Name}))
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // the client may be gone
}

// Forget erases an event, and first the deliveries that were quarantined because of it: one of them
// may have the same body. Nothing is erased while the event is open ([dedup.ErrOpen]).
func Forget(ctx context.Context, store dedup.Store, event string) error {
	return forget(ctx, store, event, nil)
}

func forget(ctx context.Context, store dedup.Store, event string, known copies) error {
	rec, err := store.Get(ctx, event)
	if err != nil {
		return err
	}
	if rec.Open() {
		return dedup.ErrOpen
	}
	if known == nil {
		if known, err = copiesIn(ctx, store); err != nil {
			return err
		}
	}
	if err := known.purge(ctx, store, event); err != nil {
		return err
	}
	return store.Purge(ctx, event)
}

// copies are quarantined deliveries by the event that each resembles.
type copies map[string][]string

func copiesIn(ctx context.Context, store dedup.Store) (copies, error) {
	all := copies{}
	for r, err := range store.List(ctx, dedup.Filter{Quarantined: true}) {
		if err != nil {
			return nil, err
		}
		all[r.Original] = append(all[r.Original], r.Event)
	}
	return all, nil
}

// purge erases the copies of an event that are still there.
func (c copies) purge(ctx context.Context, store dedup.Store, event string) error {
	for _, one := range c[event] {
		if err := store.Purge(ctx, one); err != nil && !errors.Is(err, dedup.ErrNotFound) {
			return err
		}
	}
	return nil
}

// refuse responds to an error of the store, which names the event and no payload.
func refuse(w http.ResponseWriter, err error) {
	if row, ok := refusalOf(err); ok {
		fail(w, row.status, row.err.Error())
		return
	}
	fail(w, http.StatusServiceUnavailable, err.Error())
}

// refusal is an error of the store that concerns one event, with its status.
type refusal struct {
	err    error
	status int
}

func refusalOf(err error) (refusal, bool) {
	for _, row := range []refusal{
		{dedup.ErrNotFound, http.StatusNotFound}, {dedup.ErrNotDead, http.StatusConflict},
		{dedup.ErrNotWaiting, http.StatusConflict}, {dedup.ErrNoPayload, http.StatusConflict},
		{dedup.ErrOpen, http.StatusConflict}, {dedup.ErrNoTask, http.StatusConflict},
		{dedup.ErrQuarantined, http.StatusConflict}, {errStaleRerun, http.StatusConflict},
	} {
		if errors.Is(err, row.err) {
			return row, true
		}
	}
	return refusal{}, false
}
