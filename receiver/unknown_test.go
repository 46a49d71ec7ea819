package receiver

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
)

func TestARequestToAnUnknownPathIsLoggedWithTheNearestEndpoint(t *testing.T) {
	t.Parallel()
	log, all := &syncBuffer{}, &syncBuffer{}
	store := memstore.New(memstore.Options{})
	shop, other := apiProducer(), apiProducer()
	other.Name = "github"
	rx, err := Open(Config{
		Store: store, Producers: []producer.Producer{shop, other}, URL: "https://hooks.example",
		Logger: slog.New(slog.NewMultiHandler(slog.NewTextHandler(log, nil),
			slog.NewTextHandler(all, &slog.HandlerOptions{Level: slog.LevelDebug}))),
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, target string) {
		w := httptest.NewRecorder()
		rx.Handler().ServeHTTP(w, httptest.NewRequest(method, target, bytes.NewReader(nil)))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", target, w.Code)
		}
	}
	for target, want := range map[string]string{
		"/webhooks/githb?key=s3cret": "/webhooks/github", "/api/webhooks/shop": "/webhooks/shop",
		"/webhooks/SHOP":  "/webhooks/shop",
		"/Webhooks/GitHb": "/webhooks/github",
		"/webhook/shop":   "/webhooks/shop", "/" + strings.Repeat("x", 9000): "/webhooks/",
	} {
		send(http.MethodPost, target)
		path, _, _ := strings.Cut(target[:min(len(target), maxLoggedPath)], "?")
		line := "peer=192.0.2.1 method=POST path=" + path + " code=not_found size=0 nearest=" + want
		if !strings.Contains(log.String(), line) {
			t.Errorf("no line %q in\n%s", line, log)
		}
	}
	for range 20 {
		send(http.MethodGet, "/webhooks/githu?hub.challenge=s3cret")
	}
	if err := rx.Close(); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	if n := strings.Count(text, "path=/webhooks/githu "); n != 1 || strings.Contains(text, "s3cret") ||
		!strings.Contains(text, "more=19 ") {
		t.Errorf("%d lines of one path:\n%s", n, text)
	}
	if n := strings.Count(all.String(), "path=/webhooks/githu "); n != 20 || strings.Contains(all.String(), "s3cret") {
		t.Errorf("%d lines at level DEBUG:\n%s", n, all)
	}
}

// TestEachUnknownPathIsLoggedOnceASecond has a path that is called ten times a second, another one
// now and then, and clients that invent paths.
func TestEachUnknownPathIsLoggedOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &syncBuffer{}
		u := &unknownPaths{log: slog.New(slog.NewTextHandler(out, nil))}
		write := func(path string) { u.write(t.Context(), path, slog.String("path", path)) }
		paths := func() int { // that are known, or -1 between two minutes
			u.mu.Lock()
			defer u.mu.Unlock()
			if u.minute == nil {
				return -1
			}
			return len(u.minute.paths)
		}
		for i := range 30 {
			write("/often")
			if i%10 == 5 {
				write("/seldom")
			}
			time.Sleep(100 * time.Millisecond)
		}
		text := out.String()
		for line, want := range map[string]int{
			"path=/often count=1\n": 1, "path=/often count=10\n": 2, "path=/seldom count=1\n": 3, "msg=": 6,
		} {
			if n := strings.Count(text, line); n != want {
				t.Errorf("%q %d times, want %d:\n%s", line, n, want, text)
			}
		}
		for i := range 3 * unknownLines {
			write(fmt.Sprint("/invented/", i))
		}
		write("/often")
		if n := strings.Count(out.String(), "msg="); n != unknownLines || paths() > unknownLines {
			t.Errorf("%d lines, want %d; %d paths are known", n, unknownLines, paths())
		}
		time.Sleep(sampledFor)
		synctest.Wait()
		// Of the invented paths 94 had a line. The other path has nine of its last second.
		if want := "more=216 within=1m0s\n"; !strings.HasSuffix(out.String(), want) {
			t.Errorf("no %q at the end of\n%s", want, out)
		}
		before := len(out.String())
		write("/often")
		if got := out.String()[before:]; !strings.HasSuffix(got, "path=/often count=1\n") {
			t.Errorf("in the next minute: %q", got)
		}
		u.close()
		u.close()
		time.Sleep(2 * sampledFor)
		if got := out.String()[before:]; strings.Count(got, "msg=") != 1 || paths() != -1 {
			t.Errorf("after the end: %q", got)
		}
	})
}
