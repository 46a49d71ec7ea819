package eyelet_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"time"

	"github.com/eyelet-dev/eyelet"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

// A program with an HTTP server of its own mounts the handler of a receiver. One that only
// receives calls [eyelet.Run] instead.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "eyelet")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder of the example
	rx, err := eyelet.Open(dir,
		eyelet.GitHub("a long secret"),
		eyelet.Answer("github", "push", func(_ context.Context, ev eyelet.Event[push]) (eyelet.Response, error) {
			return eyelet.Response{Body: []byte(`{"deploying":"` + ev.Data.Ref + `"}`)}, nil
		}),
		func(c *receiver.Config) { c.Logger = slog.New(slog.DiscardHandler) },
	)
	if err != nil {
		log.Fatal(err)
	}
	defer rx.Close() //nolint:errcheck // before the folder is removed

	unsigned := preset.Unsigned{URL: "https://hooks.example/webhooks/github", Type: "push", ID: "d-1"}
	delivery, _, err := unsigned.SignedBy(preset.GitHub("a long secret"), time.Now())
	if err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	rx.Handler().ServeHTTP(w, delivery)
	fmt.Println(w.Code, w.Body)
	// Output:
	// 200 {"deploying":"refs/heads/main"}
}
