package main

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
)

// blocked is a standard output without a reader, until it is closed.
type blocked struct{ entered, gone chan struct{} }

func (b blocked) Write(p []byte) (int, error) {
	select {
	case b.entered <- struct{}{}:
	default:
	}
	<-b.gone
	return len(p), nil
}

// TestABlockedOutputDoesNotDelayTheEnd: the handler's write does not return, and the program still
// ends, once, after its time to drain.
func TestABlockedOutputDoesNotDelayTheEnd(t *testing.T) {
	t.Parallel()
	config := configured(t, "store: badger:"+filepath.Join(t.TempDir(),
		"data")+"\nlimits: {drain: 1s}\nhandlers:\n  - {producer: gh, type: \"*\", stdout: true}\n")
	out := blocked{make(chan struct{}, 1), make(chan struct{})}
	errs, up := &servertest.Buffer{}, make(chan [2]string, 1)
	p := &program{In: strings.NewReader(""), Out: out, Err: errs, Serving: func(l, o string) { up <- [2]string{l, o} }}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() { ended <- p.Run(ctx, "serve", "--config", config) }()
	at := <-up
	if status, _ := push(t, http.DefaultClient, "http://"+at[0], "one", "{}"); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	<-out.entered
	cancel()
	if code := <-ended; code != exitFailed {
		t.Errorf("exit %d although a handler did not return", code)
	}
	close(out.gone)
	if !strings.Contains(errs.String(), "run again after the next start: 1") {
		t.Errorf("the task is not logged: %s", errs.String())
	}
}
