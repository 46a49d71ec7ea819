package opsclient

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"

	"go.uber.org/goleak"

	"github.com/eyelet-dev/eyelet/inspect"
)

// TestMain fails the package when a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAListIsReadWhileItIsWritten: a caller that stops early ends the handler.
func TestAListIsReadWhileItIsWritten(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	client := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := io.WriteString(w, `{"event":"e"}`+"\n"); err != nil {
				ended <- err
				return
			}
		}
	}))
	enough := errors.New("enough")
	n := 0
	_, err := client.Each(t.Context(), url.Values{}, func([]byte, inspect.Event) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 3 {
		t.Errorf("%d events, %v", n, err)
	}
	if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the handler ended with %v", err)
	}
}

func TestARefusalHasTheTitleOfTheProblem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, body, want string
		status           int
		refusal          bool
	}{
		{"application/problem+json", `{"title":"no such event"}`, "no such event", 404, true},
		{"text/plain; charset=utf-8", "no such target: \"a\"\n", `no such target: "a"`, 404, true},
		{"text/html", "<p>", "Not Found", 404, true},
		{"application/problem+json", `{"title":"disk low"}`, "disk low", 503, false},
	} {
		client := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tt.kind)
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		}))
		_, _, err := client.Event(t.Context(), "e")
		_, refused := errors.AsType[*Refusal](err)
		if err == nil || err.Error() != tt.want || refused != tt.refusal {
			t.Errorf("%d %s: %v, refused %v", tt.status, tt.body, err, refused)
		}
	}
}
