package conform

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const peerSecret = "the secret of both sides, 32 octets"

// peerProfile is that of the reference producer and intermediary.
func peerProfile(t *testing.T) *Profile {
	t.Helper()
	file := filepath.Join(t.TempDir(), "peer.yaml")
	text := "base: event-delivery\nclaims: [idempotency-key, event-delivery, rfc9421, eyelet]\nsecret: " + peerSecret
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := ReadProfile(file)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hmacSignature signs by the text of RFC 9421, without the code under test.
func hmacSignature(method, url, key, digest string, created int64, keep string) (input, signature string) {
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	values := map[string]string{
		"@method": method, "@target-uri": url, "content-type": "application/json", "content-digest": digest,
		"idempotency-key": key, "@authority": host, "@request-target": "/" + path,
	}
	address := []string{"@target-uri"}
	if keep == "@target-uri" {
		address = []string{"@authority", "@request-target"}
	}
	var names, lines []string
	for _, name := range append(address, "@method", "content-type", "content-digest", "idempotency-key") {
		if name != keep {
			names = append(names, `"`+name+`"`)
			lines = append(lines, `"`+name+`": `+values[name])
		}
	}
	params := fmt.Sprintf(`(%s);created=%d;keyid="conform"`, strings.Join(names, " "), created)
	base := strings.Join(append(lines, `"@signature-params": `+params), "\n")
	mac := hmac.New(sha256.New, []byte(peerSecret))
	mac.Write([]byte(base))
	return "sig1=" + params, "sig1=:" + base64.StdEncoding.EncodeToString(mac.Sum(nil)) + ":"
}

// sender is the reference producer. Its faults are switched on by name.
type sender struct {
	fault string
	n     int
	gone  atomic.Bool
	done  sync.WaitGroup
}

// event sends an event to url until it has an outcome.
func (s *sender) event(url string) {
	s.n++
	n := s.n
	s.done.Go(func() { s.deliver(url, n) })
}

func (s *sender) deliver(url string, n int) {
	if s.gone.Load() {
		return
	}
	key, body := fmt.Sprintf(`"event-%d"`, n), fmt.Sprintf(`{"n":%d}`, n)
	switch s.fault {
	case "bare key":
		key = fmt.Sprint("event-", n)
	case "one key":
		key = `"event"`
	case "no key":
		key = ""
	}
	for attempt := range 3 {
		switch {
		case attempt > 0 && s.fault == "new key":
			key = fmt.Sprintf(`"event-%d-%d"`, n, attempt)
		case s.fault == "bare new key":
			key = fmt.Sprint("event-", n, strings.Repeat("-again", attempt))
		case attempt > 0 && s.fault == "sends others":
			s.attempt(url, fmt.Sprintf(`"other-%d-%d"`, n, attempt), `{"about":`+strconv.Quote(key)+`}`)
		case s.fault == "asks first":
			s.ask(http.MethodHead, url)
			s.ask(http.MethodOptions, url)
		}
		if attempt > 0 && s.fault == "new body" {
			body = fmt.Sprintf(`{"n":%d,"attempt":%d}`, n, attempt)
		}
		wait, again := s.attempt(url, key, body)
		if !again {
			return
		}
		time.Sleep(wait + 30*time.Millisecond)
	}
}

// ask is a request before a delivery.
func (s *sender) ask(method, url string) {
	req, err := http.NewRequest(method, url, nil) //nolint:noctx // a test
	if err != nil {
		panic(err)
	}
	req.Header.Set("WebHook-Request-Origin", "sender.example")
	resp, err := http.DefaultClient.Do(req)
	if err != nil || method == http.MethodOptions && resp.Header.Get("WebHook-Allowed-Origin") != "sender.example" {
		panic(fmt.Sprint(resp, err))
	}
	_ = resp.Body.Close()
}

func (s *sender) attempt(url, key, body string) (wait time.Duration, again bool) {
	method, created, keep := http.MethodPost, time.Now().Unix(), ""
	switch s.fault {
	case "put":
		method = http.MethodPut
	case "old clock":
		created -= 3600
	case "key not covered":
		keep = "idempotency-key"
	case "method not covered":
		keep = "@method"
	case "signs parts of the address":
		keep = "@target-uri"
	}
	sum := sha256.Sum256([]byte(body))
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	if s.fault == "sha-512" {
		wide := sha512.Sum512([]byte(body))
		digest = "sha-512=:" + base64.StdEncoding.EncodeToString(wide[:]) + ":"
	}
	input, signature := hmacSignature(method, url, key, digest, created, keep)
	if s.fault == "bad signature" {
		signature = "sig1=:AAAA:"
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body)) //nolint:noctx // a test
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if s.fault == "no type" {
		req.Header.Del("Content-Type")
	}
	req.Header.Set("Content-Digest", digest)
	req.Header.Set("Authorization", "Bearer "+peerSecret)
	if s.fault == "another token" {
		req.Header.Set("Authorization", "Bearer "+s.fault)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	req.Header.Set("Signature-Input", input)
	req.Header.Set("Signature", signature)
	req.Close = true // net/http repeats a request with Idempotency-Key by itself on a connection that it used before
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, s.fault != "cut is final"
	}
	_ = resp.Body.Close()
	return s.outcome(resp)
}

func (s *sender) outcome(resp *http.Response) (wait time.Duration, again bool) {
	after := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		wait = time.Until(at)
	}
	if s.fault == "hasty" {
		wait = 0
	}
	code := resp.StatusCode
	transient := code >= 500 || slices.Contains([]int{408, 409, 421, 425, 429}, code)
	switch {
	case s.fault == "500 is final" && code == 500, s.fault == "409 is final" && code == 409:
		return 0, false
	case s.fault == "retries accepted" && code == 202, s.fault == "retries 404" && code == 404,
		s.fault == "retries 410" && code == 410:
		return 0, true
	case code == http.StatusGone && s.fault != "goes on after 410":
		s.gone.Store(true)
	}
	return wait, transient
}

// runPeer runs the checks of a producer or an intermediary, and returns the numbers of those that
// fail.
func runPeer(t *testing.T, o Options) (*Report, []string) {
	t.Helper()
	o.Listen, o.MaxWait = cmp.Or(o.Listen, "127.0.0.1:0"), 1500*time.Millisecond
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, one := range r.Results {
		if one.Verdict == Fails {
			failed = append(failed, one.Check)
			t.Logf("%s %s: %s", one.Check, one.Title, one.Reason)
		}
	}
	return r, failed
}
