package replay_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/eyelet-dev/eyelet/replay"
)

func ExampleSend() {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.Host, r.RequestURI, r.Header.Get("X-GitHub-Event"))
	}))
	defer receiver.Close()
	rec, err := replay.Read("../testdata/github/01-push-new.http")
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := replay.Send(context.Background(), rec, replay.Options{URL: receiver.URL})
	fmt.Println(answer.Status, err)
	// Output:
	// POST hooks.example /webhooks/github push
	// 200 <nil>
}
