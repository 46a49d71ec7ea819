package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/replay"
)

// maxRequestBody bounds the body of a request, in bytes.
const maxRequestBody = 64 << 10

// ReopenRequest is the optional body of a request to reopen an event.
type ReopenRequest struct {
	// Tasks are added to the event, for handlers that it does not have yet. The caller must know
	// that the handlers exist: a task of an unknown handler becomes a dead letter with that reason.
	Tasks []NewTask `json:"tasks,omitempty"`
}

// NewTask asks for a task of one handler.
type NewTask struct {
	Handler string `json:"handler"`
	Lane    string `json:"lane,omitempty"`
}

// RerunRequest is the optional body of a request to run an event again.
type RerunRequest struct {
	// Handlers are those that run again. Defaults to all of the event.
	Handlers []string `json:"handlers,omitempty"`
}

func (a *api) reopen(w http.ResponseWriter, r *http.Request) {
	order, err := readRequest[ReopenRequest](w, r)
	if err == nil && slices.ContainsFunc(order.Tasks, func(t NewTask) bool { return t.Handler == "" }) {
		err = errors.New("a task without a handler")
	}
	if err != nil {
		failRequest(w, err)
		return
	}
	var tasks []dedup.NewTask
	for _, t := range order.Tasks {
		tasks = append(tasks, dedup.NewTask(t))
	}
	rec, err := a.store.Reopen(r.Context(), r.PathValue("event"), tasks...)
	respond(w, Summary(rec), err)
}

func (a *api) rerun(w http.ResponseWriter, r *http.Request) {
	order, err := readRequest[RerunRequest](w, r)
	if err != nil {
		failRequest(w, err)
		return
	}
	rec, err := a.store.Rerun(r.Context(), r.PathValue("event"), order.Handlers...)
	respond(w, Summary(rec), err)
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
func readRequest[T any](w http.ResponseWriter, r *http.Request) (o T, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBody))
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

func (a *api) retry(w http.ResponseWriter, r *http.Request) {
	rec, err := a.store.RunNow(r.Context(), r.PathValue("event"))
	respond(w, Summary(rec), err)
}

func (a *api) forget(w http.ResponseWriter, r *http.Request) {
	respondGone(w, Forget(r.Context(), a.store, r.PathValue("event")))
}

func (a *api) purge(w http.ResponseWriter, r *http.Request) {
	respondGone(w, a.store.Purge(r.Context(), r.PathValue("event")))
}

// respondGone responds to a request that erases an event.
func respondGone(w http.ResponseWriter, err error) {
	if err != nil {
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
		{dedup.ErrQuarantined, http.StatusConflict},
	} {
		if errors.Is(err, row.err) {
			return row, true
		}
	}
	return refusal{}, false
}
