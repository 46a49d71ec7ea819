package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// reading is a context that counts its checks: a check of the store asks at every value.
type reading struct {
	context.Context
	asked atomic.Int64
}

// Err implements context.Context.
func (r *reading) Err() error {
	r.asked.Add(1)
	return r.Context.Err()
}

// TestARepairByCommandReadsTheStoreTwice: once to find the damage, once for the report.
func TestARepairByCommandReadsTheStoreTwice(t *testing.T) {
	t.Parallel()
	const values = 200
	dir := filepath.Join(t.TempDir(), "data")
	store, err := badgerstore.Open(dir, quietOptions())
	check(t, err)
	for i := range values {
		body := []byte(`{}`)
		if i == 7 {
			body = []byte(marked)
		}
		claim := dedup.Claim{
			Key:     dedup.Key{Principal: "gh", Endpoint: "gh", ID: strconv.Itoa(i)},
			Payload: dedup.Payload{Endpoint: "gh", Body: body}, Window: dedup.DefaultWindow,
			Tasks: []dedup.NewTask{{Handler: "h"}},
		}
		if _, err := store.Claim(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	check(t, store.Close())
	spoilMarked(t, dir)
	for _, tc := range []struct {
		how           string
		scans, repair int
	}{{"damaged", 2, 1}, {"sound", 1, 0}} {
		ctx := &reading{Context: t.Context()}
		got, err := checkStore(ctx, nil, dir, true)
		if err != nil || len(got.Repaired) != tc.repair || !got.Sound() || got.Records != values {
			t.Errorf("%s: %+v, %v", tc.how, got, err)
		}
		if scans := int(ctx.asked.Load()+values/2) / values; scans != tc.scans {
			t.Errorf("%s: everything was read %d times, want %d", tc.how, scans, tc.scans)
		}
	}
}

// repairable is a served store that counts checks and repairs.
type repairable struct {
	dedup.Store
	checks, repairs int
}

func (r *repairable) Check(context.Context) (badgerstore.Report, error) {
	r.checks++
	return badgerstore.Report{Records: 7}, nil
}

func (r *repairable) Repair(context.Context) ([]badgerstore.Repair, badgerstore.Report, error) {
	r.repairs++
	return []badgerstore.Repair{{Key: "e:00", Done: "done"}}, badgerstore.Report{Records: 7}, nil
}

// Backup fails after a part.
func (r *repairable) Backup(_ context.Context, w io.Writer) error {
	_, _ = w.Write([]byte("half"))
	return errors.New("the disk fails")
}

func TestABackupThatEndsEarlyIsAnError(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	client := opsclient.New(server.MaintenanceAPI(&repairable{}, slog.New(slog.DiscardHandler)))
	if err := client.Backup(t.Context(), &got); err == nil || got.String() != "half" {
		t.Errorf("%q, %v", got.String(), err)
	}
}

func TestARepairIsOneRequest(t *testing.T) {
	t.Parallel()
	store := &repairable{}
	asked := 0
	api := server.MaintenanceAPI(store, slog.New(slog.DiscardHandler))
	client := opsclient.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		api.ServeHTTP(w, r)
	}))
	got, err := checkStore(t.Context(), client, "", true)
	if err != nil || len(got.Repaired) != 1 || got.Records != 7 || !got.Sound() {
		t.Errorf("%+v, %v", got, err)
	}
	if asked != 1 || store.repairs != 1 || store.checks != 0 {
		t.Errorf("%d requests, %d repairs, %d checks beside them", asked, store.repairs, store.checks)
	}
}
