package main

import (
	"os"
	"testing"

	"github.com/eyelet-dev/eyelet"
	"github.com/eyelet-dev/eyelet/receiver/receivertest"
)

func TestOnPush(t *testing.T) {
	t.Chdir(t.TempDir())
	rx := receivertest.New(t, eyelet.Config(eyelet.GitHub("a long secret"), eyelet.On("github", "push", onPush)))
	rx.Deliver("github", "push", push{Ref: "refs/heads/main"}).Wait()
	if ref, err := os.ReadFile("last-push"); string(ref) != "refs/heads/main" {
		t.Errorf("the last push is to %q, %v", ref, err)
	}
}
