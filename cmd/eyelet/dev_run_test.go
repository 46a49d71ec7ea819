package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/dedup"
)

// bundledRun opens the receiver of the bundled deliveries.
func bundledRun(t *testing.T) *devRun {
	t.Helper()
	s, err := config.Source{File: filepath.Join(unpacked(t), "eyelet.yaml")}.Load()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	run, err := newDevRun(context.Background(), p, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.close(); err != nil {
			t.Error(err)
		}
	})
	return run
}

func TestThePublicKeysAreAcceptedForOurOwnDeliveriesOnly(t *testing.T) {
	t.Parallel()
	run := bundledRun(t)
	recs, err := devRecordings(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, pass := range [][]string{nil, {""}, {"guess"}} {
		r, err := http.NewRequest(http.MethodPost, run.address+"/webhooks/shop",
			strings.NewReader(string(recs[0].Body)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range recs[0].Fields[1:] {
			r.Header.Set(f.Name, f.Value)
		}
		r.Header[passHeader] = pass
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("pass %q: status %d", pass, res.StatusCode)
		}
	}
	if o, err := run.deliver(context.Background(), recs[0]); err != nil || !o.OK {
		t.Errorf("our own delivery: %+v, %v", o, err)
	}
}

func TestTheStoreIsComparedWithTheAnswers(t *testing.T) {
	t.Parallel()
	run := bundledRun(t)
	claim := func(id string) {
		_, err := run.store.Claim(context.Background(), dedup.Claim{
			Key:     dedup.Key{Principal: "shop", Endpoint: "shop", ID: id},
			Payload: dedup.Payload{Producer: "shop", Endpoint: "shop"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	claim("a")
	claim("b")
	accepted := func(ids ...string) (list []devResult) {
		for _, id := range ids {
			list = append(list, devResult{File: id + ".http", Producer: "shop", ID: id, Verdict: verdictNew})
		}
		return append(list, devResult{Producer: "shop", ID: "c", Verdict: verdictRefused})
	}
	for _, tt := range []struct {
		ids  []string
		want string
	}{
		{[]string{"a", "b"}, ""},
		{[]string{"a"}, `"shop b" is in the store and was not accepted, or is there twice`},
		{[]string{"a", "b", "c"}, `"shop c" of c.http was accepted and is not in the store`},
	} {
		wrongs, _, err := run.compare(context.Background(), accepted(tt.ids...))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(wrongs, "; "); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.ids, got, tt.want)
		}
	}
}
