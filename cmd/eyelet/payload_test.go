package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		producer, kind := input{path: tt.path}.origin(tt.flag, known)
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

// TestWhatIsNotAPayloadIsRefusedByName, in a file and from standard input.
func TestWhatIsNotAPayloadIsRefusedByName(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"_meta":{"template_version":0},"fixtures":[{"name":"a"}]}`: "a fixture of the Stripe CLI",
		`{"info":{"_postman_id":"17","name":"tea"},"item":[]}`:       "a Postman collection",
		"#!/bin/sh\nexec ./hook\n":                                   "a script",
		"-----BEGIN PRIVATE KEY-----\nMC4=\n":                        "a key in PEM",
		`{"log":"entries"}`:                                          "",
		`{"fixtures":[]}`:                                            "",
		`[{"log":{"entries":[]}}]`:                                   "",
		"curling=1&info=_postman_id":                                 "",
		`{"info":{"name":"tea"}}`:                                    "",
		"plain text about POST / HTTP/1":                             "",
	} {
		err := checkPayload("a.json", []byte(body))
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
		p := &program{In: strings.NewReader(body), Out: io.Discard, Err: io.Discard}
		code := p.Run(t.Context(), "send", "-", "--secret-file", os.DevNull, "--url", "http://127.0.0.1:9")
		if want != "" && code != exitUsage {
			t.Errorf("%s: exit %d", body, code)
		}
	}
}

func TestDoubtsAboutADelivery(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ preset, head, body, want string }{
		{"github", "X-GitHub-Event: push", "{}", "[]"},
		{"github", "X-GitHub-Event: pussh", "{}",
			"[pussh is not one of the common types of github; did you mean push?]"},
		{"github", "X-A: b", "{}", "[the delivery has no type in X-GitHub-Event; --type gives one]"},
		{"github", "X-GitHub-Event: push", "curl", "[the body is not JSON, and its media type is application/json]"},
		{"stripe", "X-A: b", `{"id":"evt_1","type":"invoice.payd"}`,
			"[invoice.payd is not one of the common types of stripe; did you mean invoice.paid?]"},
		{"stripe", "X-A: b", `{"id":"evt_1","type":"tax.rate"}`,
			"[tax.rate is not one of the common types of stripe; `eyelet producers stripe` lists them]"},
		{"svix", "svix-id: 1", `{"type":"made.up"}`, "[]"},
		{"", "X-A: b", "text", "[the body is not JSON, and its media type is application/json]"},
		{"", "Content-Encoding: gzip", "text", "[]"},
	} {
		rec, err := parseRecording("a.http", []byte("POST / HTTP/1.1\nContent-Type: application/json; charset=utf-8\n"+
			tt.head+"\n\n"+tt.body))
		check(t, err)
		vendor, _ := preset.Find(tt.preset)
		if got := fmt.Sprint(doubts(rec, vendor, preset.Settings{})); got != tt.want {
			t.Errorf("%s %s %s: %s, want %s", tt.preset, tt.head, tt.body, got, tt.want)
		}
	}
}
