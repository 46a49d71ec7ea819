package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// eyelet runs the program and returns its output.
func eyelet(t *testing.T, want int, args ...string) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: &o, Err: &e}
	if code := p.Run(context.Background(), args...); code != want {
		t.Fatalf("%v: exit %d, want %d: %s%s", args, code, want, o.String(), e.String())
	}
	return o.String(), e.String()
}

func get(t *testing.T, address string) (status int, body string) {
	t.Helper()
	res, err := http.Get(address)
	check(t, err)
	defer func() { _ = res.Body.Close() }()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, b.String()
}

// marked is a payload that can be found in the files of the store.
var marked = `{"marker":"` + strings.Repeat("spoil me ", 60) + `"}`

// spoilMarked changes a byte of that payload.
func spoilMarked(t *testing.T, data string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(data, "values", "*.values"))
	check(t, err)
	spoiled := 0
	for _, name := range logs {
		b, err := os.ReadFile(name)
		check(t, err)
		if at := bytes.Index(b, []byte("spoil me")); at >= 0 {
			spoiled++
			b[at] ^= 1
			check(t, os.WriteFile(name, b, 0o600))
		}
	}
	if spoiled == 0 {
		t.Fatal("the payload is not in the value files")
	}
}

// TestADamagedRecordIsNeverNewOnTheWire damages the payload of a finished event in the files of the
// store. A duplicate gets its response, which is intact. A delivery that has to be compared with
// the payload is answered 503, others are accepted, and readiness, the log and the check report it.
func TestADamagedRecordIsNeverNewOnTheWire(t *testing.T) {
	t.Parallel()
	file := configured(t, "handlers:\n  - {producer: gh, type: nothing, stdout: true}\n")
	data := filepath.Join(filepath.Dir(file), "data")
	r := launch(t, "serve", "--config", file)
	push(t, http.DefaultClient, r.deliveries, "bad", marked)
	for _, id := range []string{"good", "good 2", "good 3"} {
		push(t, http.DefaultClient, r.deliveries, id, `{}`)
	}
	r.stop()
	<-r.ended
	spoilMarked(t, data)
	out, _ := eyelet(t, exitFailed, "store", "check", "--config", file)
	if !strings.Contains(out, "1 value") || !strings.Contains(out, "STATE") {
		t.Error(out)
	}
	r = launch(t, "serve", "--config", file)
	if status, _ := push(t, http.DefaultClient, r.deliveries, "bad", marked); status != http.StatusOK {
		t.Errorf("a duplicate of the damaged event: %d", status)
	}
	status, after := push(t, http.DefaultClient, r.deliveries, "bad under another name", marked)
	if status != http.StatusServiceUnavailable || after == "" {
		t.Errorf("a delivery of the damaged event: %d, Retry-After %q", status, after)
	}
	for _, id := range []string{"good", "another"} {
		if status, _ := push(t, http.DefaultClient, r.deliveries, id, `{}`); status != http.StatusOK {
			t.Errorf("%s: %d", id, status)
		}
	}
	if status, body := get(t, r.operations+"/readyz"); status != http.StatusOK ||
		!strings.Contains(body, "degraded: 1 stored value is damaged") {
		t.Errorf("readiness: %d %s", status, body)
	}
	if !strings.Contains(r.errs.String(), "stored value is damaged") {
		t.Errorf("it is not logged: %s", r.errs.String())
	}
	out, _ = eyelet(t, exitFailed, "store", "check", "--config", file, "-o", "json") // the server reports it
	var report badgerstore.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Damaged) != 1 || report.Records != 5 {
		t.Errorf("%s: %v", out, err)
	}
	served := t.Run("repaired while it is served", func(t *testing.T) {
		out, _ := eyelet(t, exitOK, "store", "check", "--repair", "--config", file)
		if !strings.Contains(out, "REPAIRED") || !strings.Contains(out, "the payload is lost") ||
			!strings.Contains(out, "0 values") {
			t.Error(out)
		}
		if status, body := get(t, r.operations+"/readyz"); status != http.StatusOK ||
			strings.Contains(body, "degraded") {
			t.Errorf("readiness: %d %s", status, body)
		}
		if status, _ := push(t, http.DefaultClient, r.deliveries, "bad", marked); status != http.StatusOK {
			t.Errorf("a delivery of the event, which is known: %d", status)
		}
		out, _ = eyelet(t, exitOK, "store", "check", "--repair", "--config", file, "-o", "json")
		if strings.Contains(out, "repaired") {
			t.Errorf("a sound store is repaired: %s", out)
		}
	})
	r.stop()
	<-r.ended
	if !served {
		return
	}
	out, _ = eyelet(t, exitOK, "store", "check", "--config", file)
	if !strings.Contains(out, "0 values") {
		t.Error(out)
	}
}

func TestAStoreThatIsNotServedIsRepaired(t *testing.T) {
	t.Parallel()
	file := configured(t, "handlers:\n  - {producer: gh, type: nothing, stdout: true}\n")
	r := launch(t, "serve", "--config", file)
	push(t, http.DefaultClient, r.deliveries, "bad", marked)
	r.stop()
	<-r.ended
	data := filepath.Join(filepath.Dir(file), "data")
	spoilMarked(t, data)
	eyelet(t, exitFailed, "store", "check", "--dir", data)
	out, _ := eyelet(t, exitOK, "store", "check", "--dir", data, "--repair", "-o", "json")
	var report opsapi.CheckReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Repaired) != 1 || !report.Sound() ||
		report.Records != 1 {
		t.Errorf("%s: %v", out, err)
	}
	empty := t.TempDir()
	_, said := eyelet(t, exitUsage, "store", "check", "--dir", empty, "--repair")
	if entries, _ := os.ReadDir(empty); len(entries) > 0 || !strings.Contains(said, "there is no store") {
		t.Errorf("%s %v", said, entries)
	}
}

func TestAFullBacklogIsTransientOnTheWire(t *testing.T) {
	t.Parallel()
	file := configured(t, "limits: {backlog_events: 3, backoff_base: 1h, backoff_cap: 1h}\nhandlers:\n  - "+
		"{producer: gh, type: push, exec: [/bin/false]}\n")
	r := launch(t, "serve", "--config", file)
	for i := range 3 {
		if status, _ := push(t, http.DefaultClient, r.deliveries, strconv.Itoa(i),
			`{"n":`+strconv.Itoa(i)+`}`); status != 200 {
			t.Fatalf("status %d", status)
		}
	}
	if status, after := push(t, http.DefaultClient, r.deliveries, "more", `{}`); status != 503 || after == "" {
		t.Errorf("above the bound: %d, Retry-After %q", status, after)
	}
	if status, _ := push(t, http.DefaultClient, r.deliveries, "1", `{"n":1}`); status != 200 {
		t.Errorf("a duplicate: %d", status)
	}
	if status, body := get(t, r.operations+"/readyz"); status != 503 ||
		!strings.Contains(body, "backlog full: 3 events") {
		t.Errorf("readiness: %d %s", status, body)
	}
}

// realProgram returns this test binary, under the name by which it runs the program.
func realProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	name := filepath.Join(t.TempDir(), "eyelet")
	if err := os.Symlink(self, name); err != nil {
		t.Skip("skipped: no symbolic links here: ", err)
	}
	return name
}
