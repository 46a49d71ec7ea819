// Package interop_test sends deliveries made by the libraries of vendors through eyelet serve:
// new, duplicate, signed again, tampered with, with a wrong secret, stale, and from the future.
// It is a module of its own because of its dependencies.
package interop_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// delivery is what a sender signs.
type delivery struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
	At     int64  `json:"at"` // the signed time, in seconds since 1970
	URL    string `json:"url"`
	Stale  bool   `json:"stale"`
	Future bool   `json:"future"`
}

// message is a signed delivery.
type message struct {
	Method string            `json:"method"` // "" is POST
	Query  string            `json:"query"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`
}

const publicURL = "https://hooks.example"

// TestLibraries checks the rows of both tables, and the page.
func TestLibraries(t *testing.T) {
	binary := buildEyelet(t)
	var lines [3][]string
	var complete [2]bool
	t.Run("senders", func(t *testing.T) { lines[0], lines[2], complete[0] = testSenders(t, binary) })
	t.Run("receivers", func(t *testing.T) { lines[1], complete[1] = testReceivers(t, binary) })
	if !t.Failed() {
		checkPage(t, lines, complete[0] && complete[1])
	}
}

// testSenders sends the deliveries of each library, and returns the lines of the page.
func testSenders(t *testing.T, binary string) (lines, documented []string, complete bool) {
	t.Helper()
	keys := map[string][2]string{}
	for _, s := range senders {
		signing, verifying := newKey(t, s.key)
		keys[s.name] = [2]string{signing, verifying}
	}
	receiver := serve(t, binary, keys)
	var rows []row
	for _, s := range senders {
		t.Run(s.name, func(t *testing.T) {
			wrong, _ := newKey(t, s.key)
			got := deliver(t, receiver, s, keys[s.name][0], wrong)
			if want := s.usual(); got != want {
				t.Errorf("the responses differ\n got %q\nwant %q", got, want)
			}
			rows = append(rows, row{s, got})
		})
	}
	receiver.stop(t)
	checkEvents(t, rows, receiver.events(t), receiver.handled(t))
	for _, r := range rows {
		if r.documented != "" {
			documented = append(documented, r.line())
		} else {
			lines = append(lines, r.line())
		}
	}
	return lines, documented, len(rows) == len(senders)
}

// deliver signs the deliveries of a sender and sends them.
func deliver(t *testing.T, receiver *server, s sender, secret, wrong string) results {
	t.Helper()
	now := time.Now().Unix()
	url := publicURL + "/webhooks/" + s.name
	deliveries := []delivery{
		{ID: "event-1", Secret: secret, At: now, URL: url},
		{ID: "event-1", Secret: secret, At: now + 1, URL: url},
		{ID: "event-2", Secret: secret, At: now, URL: url},
		{ID: "event-3", Secret: wrong, At: now, URL: url},
		{ID: "event-4", Secret: secret, At: now - 600, URL: url, Stale: true},
		{ID: "event-5", Secret: secret, At: now + 600, URL: url, Future: true},
	}
	if s.noClock {
		deliveries = deliveries[:4]
		deliveries[1].At = now // an event keeps the time that is part of it
	}
	m := s.messages(t, deliveries)
	got := results{
		fresh: receiver.post(t, s, m[0]), duplicate: receiver.post(t, s, m[0]),
		resigned: receiver.post(t, s, m[1]), tampered: receiver.post(t, s, tamper(t, m[2])),
		wrongSecret: receiver.post(t, s, m[3]), stale: "-", future: "-",
	}
	if !s.noClock {
		got.stale, got.future = receiver.post(t, s, m[4]), receiver.post(t, s, m[5])
	}
	return got
}

// tamper changes the city in a body, or in the query and the fields if it is there. Of a compressed
// body it changes the last byte.
func tamper(t *testing.T, m message) message {
	t.Helper()
	if last := len(m.Body) - 1; m.Header["Content-Encoding"] != "" {
		m.Body = m.Body[:last] + string([]byte{m.Body[last] ^ 1})
		return m
	}
	before := fmt.Sprint(m)
	if strings.Contains(m.Body, "Berlin") {
		m.Body = strings.Replace(m.Body, "Berlin", "Boston", 1)
	} else {
		m.Query = strings.Replace(m.Query, "Berlin", "Boston", 1)
		for name, value := range m.Header {
			m.Header[name] = strings.Replace(value, "Berlin", "Boston", 1)
		}
	}
	if fmt.Sprint(m) == before {
		t.Fatalf("nothing to change in %s", before)
	}
	return m
}

// messages signs deliveries with the library of a sender.
func (s sender) messages(t *testing.T, deliveries []delivery) []message {
	t.Helper()
	if s.node != "" {
		return signInNode(t, s.node, deliveries)
	}
	var all []message
	for _, d := range deliveries {
		r, err := s.sign(d)
		if err != nil {
			t.Fatal(err)
		}
		var body []byte
		if r.Body != nil {
			if body, err = io.ReadAll(r.Body); err != nil {
				t.Fatal(err)
			}
		}
		m := message{Method: r.Method, Header: map[string]string{}, Body: string(body)}
		for name, values := range r.Header {
			m.Header[name] = strings.Join(values, ", ")
		}
		all = append(all, m)
	}
	return all
}

// post sends a message and returns its status, with "replayed", "quarantined" or the code of the
// problem.
func (s *server) post(t *testing.T, from sender, m message) string {
	t.Helper()
	url := "http://" + s.address + "/webhooks/" + from.name
	if m.Query != "" {
		url += "?" + m.Query
	}
	r, err := http.NewRequest(cmp.Or(m.Method, http.MethodPost), url, strings.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	if from.chunked {
		r.ContentLength = -1
	}
	r.Host = strings.TrimPrefix(publicURL, "https://")
	for name, value := range m.Header {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.Header.Get("Idempotency-Replayed") == "true" {
		return fmt.Sprintf("%d replayed", res.StatusCode)
	}
	var problem struct{ Code string }
	if res.StatusCode < 300 {
		var receipt struct{ Status string }
		_ = json.Unmarshal(body, &receipt) // other responses are not JSON
		if receipt.Status == "quarantined" {
			return fmt.Sprintf("%d quarantined", res.StatusCode)
		}
		return fmt.Sprint(res.StatusCode)
	}
	if err := json.Unmarshal(body, &problem); err != nil {
		t.Fatalf("%d without a problem: %s", res.StatusCode, body)
	}
	return fmt.Sprintf("%d %s", res.StatusCode, problem.Code)
}

// checkEvents compares the store and the calls of handlers with the responses: accepted events
// have run once, and refused ones are not there.
func checkEvents(t *testing.T, rows []row, stored, handled map[string][]string) {
	t.Helper()
	for _, r := range rows {
		accepted := slices.Repeat([]string{"done"}, r.events())
		if want := append(accepted, r.quarantined...); !slices.Equal(stored[r.name], want) {
			t.Errorf("%s: the store holds %q, want %q", r.name, stored[r.name], want)
		}
		if n := len(handled[r.name]); n != r.events() {
			t.Errorf("%s: handlers ran %d times, want %d", r.name, n, r.events())
		}
		form := "JSON "
		if r.text {
			form = "text "
		}
		for _, payload := range handled[r.name] {
			city := strings.Contains(payload, "Berlin") ||
				r.want.tampered == "200" && strings.Contains(payload, "Boston")
			if !strings.HasPrefix(payload, form) || !city && !r.noCity {
				t.Errorf("%s: a handler got %q", r.name, payload)
			}
		}
	}
}
