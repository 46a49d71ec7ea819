package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eyelet-dev/eyelet/producer/preset"
)

func TestThePathOfAPayloadNamesProducerAndType(t *testing.T) {
	t.Parallel()
	known := []string{"github", "gitlab", "gitlab-signed", "shopify", "stripe"}
	for _, tt := range []struct{ path, flag, producer, kind string }{
		{"github/push.json", "", "github", "push"},
		{"a/github/b/01-push.json", "", "github", "b/push"},
		{"shopify/orders/create.json", "", "shopify", "orders/create"},
		{"stripe/github/push.json", "", "github", "push"},
		{"stripe.json", "", "stripe", ""},
		{"02_stripe-invoice.paid.json", "", "stripe", "invoice.paid"},
		{"gitlab-signed-push.json", "", "gitlab-signed", "push"},
		{"githubby.json", "", "", ""},
		{"order.json", "", "", ""},
		{"order.json", "stripe", "stripe", "order"},
		{"github/push.json", "stripe", "stripe", "push"},
		{"17.json", "stripe", "stripe", "17"},
	} {
		producer, kind := payload{path: tt.path}.origin(tt.flag, known)
		if producer != tt.producer || kind != tt.kind {
			t.Errorf("%s with %q: %q %q, want %q %q", tt.path, tt.flag, producer, kind, tt.producer, tt.kind)
		}
	}
	shopify, _ := preset.Find("shopify")
	for name, want := range map[string]string{
		"orders-create": "orders/create", "orders/create": "orders/create", "orders-paid-2": "orders/paid",
		"orders-paidx": "orders-paidx", "made/up": "made/up",
	} {
		if got := typeIn(shopify, name); got != want {
			t.Errorf("%s is the type %s, want %s", name, got, want)
		}
	}
}

// TestWatchSendsWhatChanges: a new file and a changed one, and not the others.
func TestWatchSendsWhatChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("a.json", "{}")
	write("b.json", "{}")
	before := fileStates([]string{dir})
	write("b.json", `{"a":1}`)
	write("c.http", "")
	write("d.txt", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	watchFiles(ctx, []string{dir}, before, func(files []string) {
		for _, file := range files {
			seen = append(seen, filepath.Base(file))
		}
		cancel()
	})
	if !slices.Equal(seen, []string{"b.json", "c.http"}) {
		t.Errorf("sent %v", seen)
	}
}
