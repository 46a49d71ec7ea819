package inspect

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Handlers are handlers that can be paused: those of a [receiver.Receiver].
type Handlers interface {
	Controls() []receiver.Control
	Pause(ctx context.Context, handler, reason string) error
	Resume(ctx context.Context, handler string) error
}

// HandlerRequest is the body of a request to pause or resume a handler.
type HandlerRequest struct {
	Handler string `json:"handler"`
	Reason  string `json:"reason,omitempty"` // of a pause
}

// HandlersAPI pauses and resumes handlers:
//
//	GET /handlers           an array of [receiver.Control]
//	POST /handlers/pause    pauses that of a [HandlerRequest]; 204
//	POST /handlers/resume   resumes it; 204
//
// Errors are problems, as those of [API]: 404 for an unknown handler, 409 for one that answers
// requests.
func HandlersAPI(h Handlers) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /handlers", func(w http.ResponseWriter, _ *http.Request) { respond(w, h.Controls(), nil) })
	for _, action := range []string{"pause", "resume"} {
		mux.HandleFunc("POST /handlers/"+action, func(w http.ResponseWriter, r *http.Request) {
			request, err := readRequest[HandlerRequest](w, r, maxRequestBody)
			if err != nil {
				failRequest(w, err)
			} else if err := setPaused(r.Context(), h, action, request); err != nil {
				fail(w, controlStatus(err), err.Error())
			} else {
				w.WriteHeader(http.StatusNoContent)
			}
		})
	}
	return mux
}

func setPaused(ctx context.Context, h Handlers, action string, r HandlerRequest) error {
	if action == "pause" {
		return h.Pause(ctx, r.Handler, cmp.Or(strings.TrimSpace(r.Reason), "a person paused it"))
	}
	return h.Resume(ctx, r.Handler)
}

func controlStatus(err error) int {
	switch {
	case errors.Is(err, receiver.ErrUnknownHandler):
		return http.StatusNotFound
	case errors.Is(err, receiver.ErrAnswering):
		return http.StatusConflict
	case errors.Is(err, dedup.ErrInvalid):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}
