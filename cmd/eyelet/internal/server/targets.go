package server

import (
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"

	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

func listTargets(state *forward.State) []opsapi.Target {
	all := []opsapi.Target{}
	for _, s := range state.List() {
		t := opsapi.Target{Name: s.Name, On: !s.Off, Since: s.Since, Reason: s.Reason, Terminals: s.Terminals,
			Sunset: s.Sunset, Legal: s.Legal}
		if s.Moved != "" {
			t.Moved = forward.RedactURL(s.Moved)
		}
		all = append(all, t)
	}
	return all
}

// writeDisabledTargets lists the targets that are switched off in the readiness response. The
// receiver is still ready: it accepts events, and they wait.
func writeDisabledTargets(w io.Writer, state *forward.State) {
	for _, t := range listTargets(state) {
		if !t.On {
			_, _ = fmt.Fprintf(w, "target %s is switched off since %s: %s\n", t.Name, t.Since.Format(time.RFC3339),
				usage.OneLine(t.Reason))
		}
	}
}

// TargetsAPI serves GET /targets, a JSON array, and POST
// /targets?name=NAME&switch=on|off&reason=TEXT.
func TargetsAPI(state *forward.State) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /targets", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)           // <secret>
		_ = e.Encode(listTargets(state)) // a client that is gone asks again
	})
	mux.HandleFunc("POST /targets", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		err := switchTarget(state, q.Get("name"), q.Get("switch"), q.Get("reason"))
		switch {
		case errors.Is(err, forward.ErrUnknownTarget):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, errSwitch):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case err != nil:
			http.Error(w, "done, but a restart would undo it: "+err.Error(), http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	return mux
}

var errSwitch = errors.New("switch is neither on nor off")

func switchTarget(state *forward.State, name, to, reason string) error {
	switch to {
	case "on":
		return state.SwitchOn(name)
	case "off":
		return state.SwitchOff(name, reason, time.Now())
	}
	return errSwitch
}
