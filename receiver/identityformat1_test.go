package receiver_test

import (
	"archive/zip"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// TestIdentityVectorsOnStoresOfFormat1 delivers vectors whose first delivery an older program
// accepted.
//
// The receiver and the store of commit 6a1d976 of this repository, whose stores have format 1,
// wrote testdata/format1.zip: a store for each vector, at 2026-01-01T00:00:00Z. Each accepted
// the vector's first step with the vector's handlers and the first of identitySecrets, ran its
// handler, and was closed.
func TestIdentityVectorsOnStoresOfFormat1(t *testing.T) {
	t.Parallel()
	stores := map[string]string{
		"github push":                          "github",
		"shopify, one body, three topics":      "shopify",
		"twilio, one key pressed at one menu":  "call",
		"twilio, a message that was delivered": "message",
	}
	for _, v := range identityVectors(t) {
		folder, ok := stores[v.Name]
		if !ok {
			continue
		}
		delete(stores, v.Name)
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			clock := deduptest.NewClock()
			clock.Advance(time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC).Sub(clock.Now()))
			store, err := badgerstore.Open(format1Store(t, folder),
				badgerstore.Options{Clock: clock, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			v.Steps = slices.Clone(v.Steps)
			v.Steps[0].Outcome = "known"
			if v.Producer == "shopify" { // format 1 stores the identifier of the event, not that of the sending
				v.Steps[3].Outcome, v.Quarantined = "quarantined", v.Quarantined+1
			}
			v.IDs = v.IDs[min(1, len(v.IDs)):] // the older program had the first run
			r := newIdentityRun(t, v, clock, store)
			r.runs = []string{v.Steps[0].ID} // the run of the older program
			r.run()
		})
	}
	if len(stores) > 0 {
		t.Errorf("no vectors for %v", stores)
	}
}

// format1Store unpacks a store into a directory of its own.
func format1Store(t *testing.T, folder string) string {
	t.Helper()
	archive, err := zip.OpenReader("testdata/format1.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	packed, err := fs.Sub(archive, folder)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, packed); err != nil {
		t.Fatal(err)
	}
	return dir
}
