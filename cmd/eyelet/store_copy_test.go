package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// TestAServerMovesToPostgreSQL moves a server with its store, and delivers an event again.
func TestAServerMovesToPostgreSQL(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	handlers := "handlers: [{producer: gh, type: \"*\", stdout: true}]\n"
	old := configured(t, "store: badger:"+dir+"\n"+handlers)
	r := launch(t, "serve", "--config", old)
	if status, _ := push(t, http.DefaultClient, r.deliveries, "moved", "{}"); status != 200 {
		t.Fatalf("status %d", status)
	}
	eventually(t, "the event is done", func() bool { return state(t, old, "moved") == "done 1" })

	file := onPostgres(t, pgtest.URL(t), handlers)
	copied := func(args ...string) (code int, out, errs string) {
		return run(t, append([]string{"store", "copy", "--config", file}, args...)...)
	}
	fails := func(code int, why string, args ...string) {
		t.Helper()
		if got, _, errs := copied(args...); got != code || !strings.Contains(errs, why) {
			t.Errorf("%q: exit %d, want %d: %s, want %q", args, got, code, errs, why)
		}
	}
	fails(exitUsage, "write --from badger:DIR", "--from", dir)
	fails(exitUsage, "in use by another process", "--from", "badger:"+dir)
	r.stop()
	if code := <-r.ended; code != exitOK {
		t.Fatal(r.errs.String())
	}
	fails(exitUsage, "not one in PostgreSQL", "--from", "badger:"+dir, "--to", "memory:")
	fails(exitUsage, "there is no store", "--from", "badger:"+filepath.Join(dir, "other"))
	fails(exitUsage, "hint: eyelet store migrate --config "+file, "--from", "badger:"+dir)
	if code, _, errs := run(t, "store", "migrate", "--config", file); code != exitOK {
		t.Fatal(errs)
	}
	for _, to := range []string{
		"postgres://nobody:hunter2@127.0.0.1:1/none?connect_timeout=1", "postgres://nobody:hunter2@host:port/none",
	} {
		if code, out, errs := copied("--from", "badger:"+dir, "--to", to); code == exitOK ||
			strings.Contains(out+errs, "hunter2") {
			t.Errorf("%s: exit %d, %s%s", to, code, out, errs)
		}
	}

	code, out, errs := copied("--from", "badger:"+dir, "-o", "json", "--progress")
	var result pgstore.Copied
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != exitOK || result.Events != 1 ||
		result.Tasks != 1 || !strings.Contains(errs, "copied 1 of 1") {
		t.Fatalf("exit %d, %s%s, %v", code, out, errs, err)
	}
	fails(exitUsage, "of a copy that is finished", "--from", "badger:"+dir)
	r = launch(t, "serve", "--config", file)
	if status, _ := push(t, http.DefaultClient, r.deliveries, "moved", "{}"); status != 200 {
		t.Errorf("status %d", status)
	}
	if got := state(t, file, "moved"); got != "done 1" {
		t.Errorf("the event is %q", got)
	}
	r.stop()
	<-r.ended
}
