package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// objects reads the lines of an output, each of which must be a JSON object.
func objects(t *testing.T, out string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(out) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%q is not an object: %v", line, err)
		}
		all = append(all, o)
	}
	return all
}

func TestADryRunReportsUnknownEventsInJSON(t *testing.T) {
	t.Parallel()
	file := configured(t, "handlers:\n  - {producer: gh, type: push, exec: [/bin/false]}\n")
	r := launch(t, "serve", "--config", file)
	push(t, http.DefaultClient, r.deliveries, "one", "{}")
	known := listed(t, file)[0].Event
	out, _ := command(t, exitFailed, "", "events", "reopen", known, "nobody", "--dry-run", "-o", "json",
		"--config", file)
	all := objects(t, out)
	if len(all) != 2 || all[0]["event"] != known || all[1]["event"] != "nobody" || all[1]["result"] != "refused" ||
		all[1]["error"] == "" {
		t.Error(out)
	}
}

// tableless is a served store with a damaged table.
type tableless struct{ repairable }

func (*tableless) Repair(context.Context) ([]badgerstore.Repair, badgerstore.Report, error) {
	return nil, badgerstore.Report{Records: 7, Tables: "000001.sst"}, errors.New("it cannot be repaired")
}

// TestADamagedTableIsReportedByARepairAsByACheck: the server reports it, as a repair without a
// server does.
func TestADamagedTableIsReportedByARepairAsByACheck(t *testing.T) {
	t.Parallel()
	client := opsclient.New(server.MaintenanceAPI(&tableless{}, slog.New(slog.DiscardHandler)))
	if got, err := checkStore(t.Context(), client, "", true); err != nil || got.Sound() || got.Tables != "000001.sst" {
		t.Errorf("%+v, %v", got, err)
	}
}
