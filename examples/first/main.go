// Command first is the first program of README: it records the branch of each push to GitHub.
package main

import (
	"context"
	"log"
	"os"

	"github.com/eyelet-dev/eyelet"
)

type push struct{ Ref string }

func onPush(_ context.Context, ev eyelet.Event[push]) error {
	return os.WriteFile("last-push", []byte(ev.Data.Ref), 0o600)
}

func main() {
	rx, err := eyelet.Open("data", eyelet.GitHub(os.Getenv("GITHUB_SECRET")), eyelet.On("github", "push", onPush))
	if err == nil {
		err = eyelet.Run(context.Background(), "127.0.0.1:8080", rx)
	}
	if err != nil {
		log.Fatal(err)
	}
}
