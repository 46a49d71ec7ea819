package producer_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// stricter lists by "producer code" the reasons to refuse an advisory case that others accept.
func stricter() map[string]string {
	return map[string]string{
		"aws-sns timestamp_too_old": "the vendor signs the time and tries for an hour: 24 hours are " +
			"enough",
		"paypal timestamp_too_old": "the vendor signs the time and tries for 3 days: 74 hours are " +
			"enough",
		"standard-webhooks component_unsupported": "with a full stop in the id, what is signed can be read as " +
			"another id, time and body",
		"svix component_unsupported": "as for standard-webhooks",
		"stripe timestamp_too_new": "a signature from the future outlives its record: the vendor's " +
			"SDKs bound the past only",
	}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	runFolder(t, filepath.Join("..", "testdata", "vectors", "producers"))
}

// TestVectorsOfTheEnvironment runs the cases of another directory of the same layout.
func TestVectorsOfTheEnvironment(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("EYELET_VECTORS")
	if folder == "" {
		t.Skip("EYELET_VECTORS names no folder")
	}
	if _, err := os.Stat(folder); err != nil && !filepath.IsAbs(folder) {
		folder = filepath.Join("..", folder) // relative to the root of the repository
	}
	_, rfc := os.Stat(filepath.Join(folder, "rfc9421"))
	if _, err := os.Stat(filepath.Join(folder, "producers")); err != nil && rfc == nil {
		t.Skip("the folder holds vectors of RFC 9421 only")
	}
	runFolder(t, filepath.Join(folder, "producers"))
}

func runFolder(t *testing.T, folder string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("%s holds no case", folder)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cases, err := readCases(raw)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, c := range cases {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					runCase(t, &c)
				})
			}
		})
	}
}

// verdict is the result of a case.
type verdict struct {
	code      verify.Code // "" when it was accepted
	items     []producer.Item
	handshake *dedup.Response
	producer  producer.Producer
	fetched   []string
	err       error
}

func runCase(t *testing.T, c *vectorCase) {
	t.Helper()
	got := verdictOf(t, c)
	if got.err != nil && got.code == "" {
		t.Fatalf("refused without a code: %v", got.err)
	}
	if c.Advisory && c.Expect.Valid && got.code != "" {
		why, listed := stricter()[c.Scheme+" "+string(got.code)]
		if !listed {
			t.Errorf("refused with %s, and no reason for being stricter is listed", got.code)
		}
		t.Log("stricter than the case: " + why)
		return
	}
	if !c.Expect.Valid {
		expectRefusal(t, c, got)
		return
	}
	if got.code != "" {
		t.Fatalf("refused: %v", got.err)
	}
	expectAccepted(t, c, got)
}

// verdictOf processes a request like a receiver, in the same order.
func verdictOf(t *testing.T, c *vectorCase) (got verdict) {
	t.Helper()
	p := c.producer(t, &got.fetched)
	got.producer = p
	refuse := func(err error) verdict {
		got.err, got.code = err, verify.CodeOf(err)
		return got
	}
	r, body := c.request(t), c.body(t)
	if p.Challenge != nil && slices.Contains(p.ChallengeMethods, r.Method) {
		reply, err := p.Challenge(r)
		got.handshake = reply
		if err != nil {
			return refuse(err)
		}
		if reply != nil {
			return got
		}
	}
	if !slices.Contains(p.Methods, r.Method) { // a receiver answers 405
		got.handshake = &dedup.Response{Status: http.StatusMethodNotAllowed}
		return refuse(&verify.Error{Code: verify.ChallengeUnexpected, Component: "@method"})
	}
	d := &producer.Delivery{Request: r, Body: body}
	if p.Scheme != nil {
		var err error
		if d.Identity, err = p.Scheme.Verify(r, func() ([]byte, error) { return body, nil }); err != nil {
			return refuse(err)
		}
	}
	items, unnamed := p.Items(d)
	if unnamed != nil && p.Handshake == nil {
		return refuse(unnamed)
	}
	if err := p.Tolerance.Check(d.Identity, c.now()); err != nil {
		return refuse(err)
	}
	if p.Handshake != nil {
		reply, err := p.Handshake(t.Context(), d)
		if err != nil {
			return refuse(err)
		}
		got.handshake = reply
	}
	if unnamed != nil && got.handshake == nil {
		return refuse(unnamed)
	}
	for _, it := range items { // a receiver quarantines it
		if it.Err != nil {
			return refuse(it.Err)
		}
	}
	got.items = items
	return got
}

func expectRefusal(t *testing.T, c *vectorCase, got verdict) {
	t.Helper()
	if got.code != verify.Code(c.Expect.Reason) {
		t.Errorf("got %q (%v), want %q", got.code, got.err, c.Expect.Reason)
	}
	for _, secret := range secretsOf(c) {
		if got.err != nil && strings.Contains(got.err.Error(), secret) {
			t.Error("the error shows a secret")
		}
	}
	if c.Expect.Handshake != nil {
		expectReply(t, c.Expect.Handshake, got)
	}
}

// secretsOf returns the credentials of the case that are long enough to search for.
func secretsOf(c *vectorCase) []string {
	all := append([]string{c.Keys.Value, c.Keys.Bearer, c.Keys.Password}, c.Secret...)
	for _, s := range c.Keys.ByID {
		all = append(all, s)
	}
	for name, values := range c.Headers {
		if lower := strings.ToLower(name); strings.Contains(lower, "sig") || strings.Contains(lower, "auth") ||
			strings.Contains(lower, "hmac") {
			all = append(all, values...)
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return len(s) < 6 })
}

func expectAccepted(t *testing.T, c *vectorCase, got verdict) {
	t.Helper()
	handshake := got.handshake != nil
	if want := c.Expect.Reason == "handshake"; handshake != want {
		t.Fatalf("a handshake: %v, want %v", handshake, want)
	}
	if handshake {
		expectReply(t, c.Expect.Handshake, got)
	}
	if c.Response != nil {
		expectResponse(t, c.Response, got.producer)
	}
	// The type of an unsigned challenge, its method or mode, is a notion of the cases only.
	if len(got.items) > 0 {
		expectItem(t, vectorEvent{c.Expect.ID, c.Expect.Type, c.Expect.Source, c.Expect.Subject, c.Expect.Data},
			got.items[0], c)
	}
	if c.Expect.Events == nil {
		return
	}
	if len(got.items) != len(c.Expect.Events) {
		t.Fatalf("%d events, want %d", len(got.items), len(c.Expect.Events))
	}
	ids := map[string]bool{}
	for i, want := range c.Expect.Events {
		expectItem(t, want, got.items[i], c)
		ids[got.items[i].ID] = true
	}
	if len(ids) != len(got.items) {
		t.Error("two events of the batch have one identifier")
	}
}

// expectItem compares an event. If the identifier is source and id, the id is an attribute.
func expectItem(t *testing.T, want vectorEvent, it producer.Item, c *vectorCase) {
	t.Helper()
	id := it.ID
	if alone, composed := it.Attributes["id"]; composed {
		id = alone
	}
	switch {
	case want.ID == "" && c.Expect.Reason == "ok" && !strings.HasPrefix(id, "sha256:") &&
		!strings.HasPrefix(id, "signed:"):
		t.Errorf("id %q, want a digest since the sender gives none", id)
	case want.ID != "" && id != want.ID:
		t.Errorf("id %q, want %q", id, want.ID)
	}
	if it.Type != want.Type {
		t.Errorf("type %q, want %q", it.Type, want.Type)
	}
	if want.Source != "" && it.Attributes["source"] != want.Source {
		t.Errorf("source %q, want %q", it.Attributes["source"], want.Source)
	}
	if want.Subject != "" && it.Attributes["subject"] != want.Subject {
		t.Errorf("subject %q, want %q", it.Attributes["subject"], want.Subject)
	}
	if want.Data != nil {
		expectData(t, want.Data, it, c)
	}
}

func expectData(t *testing.T, want json.RawMessage, it producer.Item, c *vectorCase) {
	t.Helper()
	kind := c.request(t).Header.Get("Content-Type")
	_, data, err := producer.CloudEventData(kind, it.Body)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	if json.Unmarshal(want, &text) == nil {
		if string(data) == text || !utf8.Valid(data) && base64.StdEncoding.EncodeToString(data) == text {
			return // binary data is base64 in the case
		}
	}
	var other struct{ Data json.RawMessage } // other events may have a member of that name
	if !strings.HasPrefix(kind, "application/cloudevents") && json.Unmarshal(it.Body, &other) == nil &&
		sameJSON(other.Data, want) {
		return
	}
	if !sameJSON(data, want) {
		t.Errorf("data %s, want %s", data, want)
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func expectReply(t *testing.T, want *vectorReply, got verdict) {
	t.Helper()
	reply := got.handshake
	if want == nil || reply == nil {
		t.Fatalf("reply %v, want %v", reply, want)
	}
	if reply.Status != want.Status {
		t.Errorf("status %d, want %d", reply.Status, want.Status)
	}
	if want.Body != nil && string(reply.Body) != *want.Body {
		t.Errorf("body %q, want %q", reply.Body, *want.Body)
	}
	if want.JSON != nil && !sameJSON(reply.Body, want.JSON) {
		t.Errorf("body %s, want %s", reply.Body, want.JSON)
	}
	if kind, _, _ := strings.Cut(reply.Header.Get("Content-Type"), ";"); want.ContentType != "" &&
		kind != want.ContentType {
		t.Errorf("content type %q, want %q", reply.Header.Get("Content-Type"), want.ContentType)
	}
	for name, value := range want.Headers {
		if reply.Header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, reply.Header.Get(name), value)
		}
	}
	var fetch []string
	if want.Fetch != nil {
		fetch = []string{*want.Fetch}
	}
	if !slices.Equal(got.fetched, fetch) {
		t.Errorf("fetched %q, want %q", got.fetched, fetch)
	}
}

// expectResponse compares the response to an accepted event with the one that the vendor wants.
func expectResponse(t *testing.T, want *vectorReply, p producer.Producer) {
	t.Helper()
	if p.Accepted.Status != want.Status {
		t.Errorf("accepted with %d, want %d", p.Accepted.Status, want.Status)
	}
	if want.Body != nil && !bytes.Equal(p.Accepted.Body, []byte(*want.Body)) {
		t.Errorf("accepted with %q, want %q", p.Accepted.Body, *want.Body)
	}
}

func TestRunnerRefusesUnknownMembers(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`[]`, `[{"nameless":"x"}]`, `[{"name":"x","expect":{"vaild":true}}]`, `[{"name":"x","keys":{"jwsk":{}}}]`,
		`[{"name":"x","config":{"topic":"a"}}]`, `{"name":"x"}`, `[{"name":"x","response":{"code":200}}]`,
	} {
		if _, err := readCases([]byte(raw)); err == nil {
			t.Errorf("%s was accepted", raw)
		}
	}
	if _, ok := preset.Find("unknown"); ok {
		t.Error("an unknown producer has a preset")
	}
}
