package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestTheIDOfAKeyIsThatOfItsPublicHalf: with several keys in the configuration the first is not
// the right one.
func TestTheIDOfAKeyIsThatOfItsPublicHalf(t *testing.T) {
	t.Parallel()
	c := &config.Settings{File: filepath.Join(t.TempDir(), "eyelet.yaml")}
	keys := []config.Key{{ID: "secret", Alg: string(verify.HMACSHA256), Secret: "0123456789abcdef"}}
	for _, name := range []string{"old", "new"} {
		check(t, writeKeyPair(verify.Ed25519, filepath.Join(filepath.Dir(c.File), name)))
		keys = append(keys, config.Key{ID: "key-" + name, Alg: string(verify.Ed25519), PublicKeyFile: name +
			".pub.pem"})
	}
	for _, name := range []string{"old", "new"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(c.File), name+".pem"))
		check(t, err)
		private, err := verify.ParsePrivateKey(text)
		check(t, err)
		signer := &verify.Signer{Private: private}
		if chooseKey(signer, matchingKeys(c, signer, keys)); signer.KeyID != "key-"+name {
			t.Errorf("%s signs as %q", name, signer.KeyID)
		}
	}
}

// TestADeliveryNamesTheAgentOfItsProducer: where its scheme reads the agent in a field.
func TestADeliveryNamesTheAgentOfItsProducer(t *testing.T) {
	t.Parallel()
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header = r.Header }))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	check(t, writeKeyPair(verify.Ed25519, filepath.Join(dir, "shop")))
	file, payload := filepath.Join(dir, "eyelet.yaml"), filepath.Join(dir, "order.json")
	check(t, os.WriteFile(payload, []byte(`{"type":"order"}`), 0o600))
	check(t, os.WriteFile(file, []byte("url: https://hooks.example\nproducers:\n  shop: {scheme: rfc9421, agent: "+
		"{header: UCP-Agent, member: profile, allow: [https://shop.example/ucp]}}\n"), 0o600))
	code, out, errs := run(t, "send", payload, "--config", file, "--producer", "shop", "--url", server.URL,
		"--key", filepath.Join(dir, "shop.pem"), "--keyid", "k1")
	if code != exitOK || header.Get("UCP-Agent") != `profile="https://shop.example/ucp"` ||
		!strings.Contains(header.Get("Signature-Input"), `"ucp-agent")`) {
		t.Errorf("exit %d: %s%s: %v", code, out, errs, header)
	}
}

// A payload gets an identifier where its producer reads it, unless it has one.
func TestAPayloadHasAnIdentifierWhereItIsRead(t *testing.T) {
	t.Parallel()
	const body = `{"total":1}`
	for _, tt := range []struct {
		key    producer.Extractor
		header http.Header
		body   string
		want   string
	}{
		{producer.IdempotencyKey{}, nil, body, `POST /webhooks/shop [Idempotency-Key: "n-1"] {"total":1}`},
		{producer.IdempotencyKey{}, http.Header{"Idempotency-Key": {"mine"}}, body,
			`POST /webhooks/shop [Idempotency-Key: mine] {"total":1}`},
		{producer.Header("X-Id"), http.Header{"X-Type": {"a", "b"}}, body,
			`POST /webhooks/shop [X-Id: n-1 X-Type: a X-Type: b] {"total":1}`},
		{producer.Query("id"), nil, body, `POST /webhooks/shop?id=n-1 [] {"total":1}`},
		{producer.JSON("number"), nil, body, `POST /webhooks/shop [] {"number":"n-1","total":1}`},
		{producer.JSON("total"), nil, body, `POST /webhooks/shop [] {"total":1}`},
		{producer.BodyDigest(), http.Header{"Host": {"a.example"}}, body,
			`POST /webhooks/shop [Host: a.example] {"total":1}`},
		{nil, nil, "text", `POST /webhooks/shop [] text`},
	} {
		from := &producer.Producer{Key: tt.key}
		rec := plainDelivery("", from, draft{name: "a.json", header: tt.header, body: []byte(tt.body), id: "n-1"})
		var fields []string
		for _, field := range rec.Fields {
			if field.Value != "" && field.Name != "Content-Type" {
				fields = append(fields, field.Name+": "+field.Value)
			}
		}
		if got := fmt.Sprintf("%s %s %v %s", rec.Method, rec.Target, fields, rec.Body); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.key, got, tt.want)
		}
	}
}

// TestARecordingCarriesItsHistory to where send and replay send it, unless --plain is given.
func TestARecordingCarriesItsHistory(t *testing.T) {
	t.Parallel()
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header = r.Header }))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "order.http")
	check(t, os.WriteFile(file, []byte("# event: 1-abc\nPOST / HTTP/1.1\nX-A: b\n\n{}"), 0o600))
	for _, args := range [][]string{
		{"send", file, "--url", server.URL}, {"send", file, file, "--url", server.URL},
		{"replay", file, "--to", server.URL},
	} {
		for _, plain := range []bool{false, true} {
			want := map[bool]string{false: "1-abc"}[plain]
			code, _, errs := run(t, append(args, fmt.Sprintf("--plain=%t", plain))...)
			if got := header.Get("Eyelet-Original-Event"); code != exitOK || got != want {
				t.Errorf("%v, plain %t: exit %d, event %q, want %q: %s", args, plain, code, got, want, errs)
			}
		}
	}
}
