package config

import (
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

func TestPresetsNeedTheirSecret(t *testing.T) {
	t.Parallel()
	for _, vendor := range preset.All() {
		err := buildText(t, t.TempDir(), "url: https://hooks.example\nproducers:\n  x:\n    preset: "+vendor.Name+"\n")
		ms, ok := usage.Find(err)
		if !ok || len(ms) == 0 || ms[0].At.Line != 3 {
			t.Errorf("%s: %v", vendor.Name, err)
		}
	}
}

func TestLimitsOfTheReceiver(t *testing.T) {
	t.Parallel()
	const wait = receiver.DefaultInFlightWait
	type limits struct {
		omitErrors    bool
		wait, orphans time.Duration
	}
	for text, want := range map[string]limits{
		"log: {level: info}\n":           {wait: wait},
		"log: {omit_errors: true}\n":     {omitErrors: true, wait: wait},
		"limits: {in_flight_wait: 0s}\n": {wait: -1},
		"limits: {orphan_after: 0s}\n":   {wait: wait, orphans: -1},
		"limits: {orphan_after: 2h}\n":   {wait: wait, orphans: 2 * time.Hour},
	} {
		c, err := parse(t, text)
		check(t, err)
		var rc receiver.Config
		c.applyLimits(&rc)
		if got := (limits{rc.OmitErrors, rc.InFlightWait, rc.OrphanAfter}); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
