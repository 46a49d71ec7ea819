package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fetch sends a request over a connection of its own, and returns status and body.
func fetch(t *testing.T, r *http.Request) (status int, retryAfter, body string) {
	t.Helper()
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	check(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	check(t, err)
	return res.StatusCode, res.Header.Get("Retry-After"), string(text)
}

func getRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	check(t, err)
	return r
}

// TestAServerReportsThatItIsStarting sends requests before the store is open, which can take a
// while, and after.
func TestAServerReportsThatItIsStarting(t *testing.T) {
	t.Parallel()
	file := configured(t, "store: badger:./data\nhandlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	data := filepath.Join(filepath.Dir(file), "data")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := false
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	p.Starting = func(listen, operations string) {
		started = true
		status, after, body := fetch(t, pushRequest(t, "http://"+listen, "g-1", "{}"))
		if status != 503 || after == "" || !strings.Contains(body, `"code":"starting"`) {
			t.Errorf("a delivery: %d, Retry-After %q, %s", status, after, body)
		}
		if exists(data) {
			t.Error("the store is there already")
		}
		for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 503, "/events": 503} {
			if status, _, body := fetch(t, getRequest(t, "http://"+operations+path)); status != want || want == 503 &&
				!strings.HasPrefix(body, "starting: ") {
				t.Errorf("%s: %d %s, want %d", path, status, body, want)
			}
		}
		foreign := getRequest(t, "http://"+operations+"/readyz")
		foreign.Host = "elsewhere.example"
		if status, _, _ := fetch(t, foreign); status == 503 {
			t.Error("the operations port answers for a foreign host")
		}
	}
	p.Serving = func(listen, operations string) {
		if status, _, body := fetch(t, pushRequest(t, "http://"+listen, "g-1", "{}")); status != 200 {
			t.Errorf("the retry: %d %s", status, body)
		}
		if status, _, body := fetch(t, getRequest(t, "http://"+operations+"/readyz")); status != 200 {
			t.Errorf("ready: %d %s", status, body)
		}
		if !exists(data) {
			t.Error("there is no store")
		}
		cancel()
	}
	if code := p.Run(ctx, "serve", "--config", file); code != exitOK || !started {
		t.Errorf("exit %d, started %t", code, started)
	}
}

// TestAStoreThatDoesNotOpenLeavesNothingServing: no port or connection is left after the error.
func TestAStoreThatDoesNotOpenLeavesNothingServing(t *testing.T) {
	t.Parallel()
	file := configured(t, "store: badger:./data\nhandlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	check(t, os.WriteFile(filepath.Join(filepath.Dir(file), "data"), []byte("a file"), 0o600))
	var errs bytes.Buffer
	var operator string
	client := &http.Client{Transport: &http.Transport{}} // with a kept connection
	defer client.CloseIdleConnections()
	ask := func() error {
		res, err := client.Get("http://" + operator + "/healthz")
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		return res.Body.Close()
	}
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: &errs}
	p.Starting = func(_, operations string) {
		if operator = operations; ask() != nil {
			t.Error("nobody answers")
		}
	}
	if code := p.Run(context.Background(), "serve", "--config", file); code != exitUsage {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if ask() == nil {
		t.Error("it still answers")
	}
}
