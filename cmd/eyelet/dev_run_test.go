package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/dedup"
)

// bundledRun opens the receiver of the bundled deliveries.
func bundledRun(t *testing.T) *devRun {
	t.Helper()
	s, err := config.Source{File: filepath.Join(unpacked(t), "eyelet.yaml")}.Load()
	check(t, err)
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	run, err := newDevRun(context.Background(), p, s, senderFlags{})
	check(t, err)
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
	path := filepath.Join(filepath.Dir(run.settings.File), "shop", "01-order-new.http")
	trials, err := readTrials([]string{path}, []string{"shop"}, "")
	check(t, err)
	for _, pass := range [][]string{nil, {""}, {"guess"}} {
		r, err := http.NewRequest(http.MethodPost, run.address+"/webhooks/shop",
			strings.NewReader(string(trials[0].rec.Body)))
		check(t, err)
		for _, f := range trials[0].rec.Fields[1:] {
			r.Header.Set(f.Name, f.Value)
		}
		r.Header[passHeader] = pass
		res, err := http.DefaultClient.Do(r)
		check(t, err)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("pass %q: status %d", pass, res.StatusCode)
		}
	}
	if o, err := run.deliver(context.Background(), trials[0]); err != nil || !o.OK {
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
		check(t, err)
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
		sum, err := run.compare(context.Background(), accepted(tt.ids...))
		check(t, err)
		if got := strings.Join(sum.Wrong, "; "); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.ids, got, tt.want)
		}
	}
}

// TestDevServesTheConfigurationAfterwards: its endpoints, with the store of the deliveries before.
func TestDevServesTheConfigurationAfterwards(t *testing.T) {
	t.Parallel()
	file := configured(t, "handlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	payload := filepath.Join(filepath.Dir(file), "gh-push.json")
	check(t, os.WriteFile(payload, []byte(`{"ref":"refs/heads/first"}`), 0o600))
	r := launch(t, "dev", "--config", file, "--serve-at", "127.0.0.1:0", payload)
	if out := r.out.String(); !strings.Contains(out, "serving as configured in "+file) ||
		!strings.Contains(out, "refs/heads/first") {
		t.Errorf("printed:\n%s", out)
	}
	if status, _ := push(t, http.DefaultClient, r.deliveries, "g-2", `{"ref":"refs/heads/second"}`); status != 200 {
		t.Errorf("status %d", status)
	}
	eventually(t, "the second push is handled", func() bool { return strings.Contains(r.out.String(), "heads/second") })
	if events, err := os.ReadDir(filepath.Dir(file)); err != nil || len(events) != 2 {
		t.Errorf("beside the two files: %v %v", events, err)
	}
	r.stop()
	if code := <-r.ended; code != exitOK {
		t.Errorf("exit %d: %s", code, r.errs.String())
	}
}

// TestDevSaysWhyNoHandlerRan: its type, or the conditions.
func TestDevSaysWhyNoHandlerRan(t *testing.T) {
	t.Parallel()
	for handler, want := range map[string]string{
		`type: star, stdout: true`:                             "no handler: none matches the type push",
		`type: "*", stdout: true, when: 'json:ref == "x"'`:     "no handler: conditions not met: gh/*/stdout",
		`type: "*", stdout: true, when: 'json:ref prefix "r"'`: "refs/heads/first",
	} {
		file := configured(t, "handlers: [{producer: gh, "+handler+"}]\n")
		payload := filepath.Join(filepath.Dir(file), "gh-push.json")
		check(t, os.WriteFile(payload, []byte(`{"ref":"refs/heads/first"}`), 0o600))
		if code, out, errs := run(t, "dev", "--once", "--config", file, payload); code != exitOK ||
			!strings.Contains(out, want) {
			t.Errorf("exit %d:\n%s%s", code, out, errs)
		}
	}
}

// TestDevLeavesTheConfiguredStoreAlone: a database that does not exist, and the state directory, in
// which refused deliveries would be.
func TestDevLeavesTheConfiguredStoreAlone(t *testing.T) {
	t.Parallel()
	file := configured(t, "store: postgres://eyelet@127.0.0.1:1/none\nschema: hooks\nstate: state\nrefused: disk\n"+
		"handlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	payload := filepath.Join(filepath.Dir(file), "gh-push.json")
	check(t, os.WriteFile(payload, []byte(`{"ref":"refs/heads/first"}`), 0o600))
	r := launch(t, "dev", "--config", file, "--serve-at", "127.0.0.1:0", payload)
	unsigned, err := http.Post(r.deliveries+"/webhooks/gh", "application/json", strings.NewReader("{}"))
	check(t, err)
	_ = unsigned.Body.Close()
	if unsigned.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d", unsigned.StatusCode)
	}
	r.stop()
	if code := <-r.ended; code != exitOK {
		t.Errorf("exit %d: %s", code, r.errs.String())
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 2 {
		t.Errorf("beside the two files: %v %v", entries, err)
	}
}

func TestDevKeepsNothingOfTheConfiguredStore(t *testing.T) {
	t.Parallel()
	file := configured(t, "store: badger:data\nstate: state\n"+
		"limits: {min_free: 1GiB, workers: 3}\n")
	dir := t.TempDir()
	s, err := (&devCmd{program: &program{}, senderFlags: senderFlags{config: file}}).settings(dir, nil)
	check(t, err)
	state, err := s.StateDir()
	if want := filepath.Join(dir, "store"); err != nil || state != want || s.Store != "badger:"+want {
		t.Errorf("the store is %s, and the state in %s (%v), want both in %s", s.Store, state, err, want)
	}
	if s.Limits.MinFree != 0 || s.Limits.Workers != 3 {
		t.Errorf("limits are %+v", s.Limits)
	}
}

// TestAPageThatIsOffOrOnlyReadsStaysSo: dev and listen add sending to a page that may change.
func TestAPageThatIsOffOrOnlyReadsStaysSo(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]server.Inspector{
		"off": {Off: true}, "read": {ReadOnly: true}, "change": {Send: true}, "send": {Send: true},
	} {
		file := configured(t, "inspector: "+mode+"\n")
		s, err := config.Source{File: file}.Load()
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		p := &program{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
		check(t, serveWithKeys(ctx, p, s, func(o *server.Options) {
			got := server.Inspector{Off: o.Inspector.Off, ReadOnly: o.Inspector.ReadOnly, Send: o.Inspector.Send}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("inspector: %s (-want +got):\n%s", mode, diff)
			}
			cancel()
		}))
	}
}
