package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/internal/usage"
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
			since, reason := t.Since.Format(time.RFC3339), usage.OneLine(t.Reason)
			_, _ = fmt.Fprintf(w, "target %s is switched off since %s: %s\n", t.Name, since, reason)
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
		_ = e.Encode(listTargets(state)) //nolint:contextcheck // a client that is gone asks again
	})
	mux.HandleFunc("POST /targets", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		var err error
		switch q.Get("switch") {
		case "on":
			err = state.SwitchOn(q.Get("name")) //nolint:contextcheck // it has its own time
		case "off":
			err = state.SwitchOff(q.Get("name"), q.Get("reason"), time.Now()) //nolint:contextcheck // as above
		default:
			http.Error(w, "switch is neither on nor off", http.StatusBadRequest)
			return
		}
		switch {
		case errors.Is(err, forward.ErrUnknownTarget):
			http.Error(w, err.Error(), http.StatusNotFound)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	return mux
}
