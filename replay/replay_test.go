package replay_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/replay"
	"github.com/eyelet-dev/eyelet/verify"
)

func recording(t *testing.T, text string) *replay.Recording {
	t.Helper()
	rec, err := httpfile.Parse("r.http", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// raw answers one connection and returns what it received, octet for octet.
func raw(t *testing.T) (address string, got <-chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan string, 1)
	go func() {
		defer ln.Close()
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var head strings.Builder
		r := bufio.NewReader(conn)
		for {
			line, err := r.ReadString('\n')
			head.WriteString(line)
			if err != nil || line == "\r\n" {
				break
			}
		}
		out <- head.String()
		fmt.Fprint(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	}()
	return "http://" + ln.Addr().String(), out
}

func TestARecordingIsSentAsItWas(t *testing.T) {
	t.Parallel()
	address, got := raw(t)
	rec := recording(t, "# now: 1\nPOST /a%2fb/../c|d?x=%31&&y HTTP/1.1\r\nHost: hooks.example\r\nx-GitHub-event: "+
		"push\r\n"+
		"Signature: sig1=:AAAA:\r\nIdempotency-Key: \"a\"\r\nIdempotency-Key: \"b\"\r\nContent-Length: 99\r\n\r\nbody")
	r, err := replay.Send(context.Background(), rec, replay.Options{URL: address})
	if err != nil || r.Status != 202 {
		t.Fatalf("result %+v, error %v", r, err)
	}
	head := <-got
	for _, want := range []string{
		"POST /a%2fb/../c|d?x=%31&&y HTTP/1.1\r\n", "\r\nHost: hooks.example\r\n", "\r\nx-GitHub-event: push\r\n",
		"\r\nSignature: sig1=:AAAA:\r\n", "\r\nIdempotency-Key: \"a\"\r\nIdempotency-Key: \"b\"\r\n",
		"\r\nContent-Length: 4\r\n",
	} {
		if !strings.Contains(head, want) {
			t.Errorf("%q is not in the request:\n%s", want, head)
		}
	}
	if strings.Contains(head, "User-Agent") || strings.Contains(head, "Accept-Encoding") {
		t.Errorf("fields were added:\n%s", head)
	}
}

func TestAPathOrQueryOfTheURLReplacesTheTarget(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/other": "/other", "/other?q=1": "/other?q=1", "?token=1": "/?token=1",
	} {
		address, got := raw(t)
		if _, err := replay.Send(context.Background(), recording(t, "POST /a?b HTTP/1.1\nHost: h\n\n"),
			replay.Options{URL: address + target}); err != nil {
			t.Fatal(err)
		}
		if head := <-got; !strings.HasPrefix(head, "POST "+want+" HTTP/1.1\r\n") {
			t.Errorf("request is\n%s", head)
		}
	}
}

func TestAFreshSignatureVerifiesForThePublicURL(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef0123456789abcdef")
	key, err := verify.NewHMACKey("k", secret)
	if err != nil {
		t.Fatal(err)
	}
	scheme := &verify.RFC9421{Keys: verify.StaticKeys(key), Label: "sig1"}
	var refusal error
	var id verify.Identity
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seen := r.Clone(r.Context())
		seen.URL = &url.URL{Scheme: "https", Host: "hooks.example", Path: r.URL.Path, RawQuery: r.URL.RawQuery}
		id, refusal = scheme.Verify(seen, func() ([]byte, error) { return body, nil })
		w.Header().Set("Idempotency-Replayed", "true")
	}))
	defer srv.Close()
	rec := recording(t, "POST /webhooks/shop?x=1 HTTP/1.1\nHost: old.example\ncontent-type: application/json\n"+
		"Idempotency-Key: \"k1\"\nContent-Digest: sha-256=:AAAA:\nSignature-Input: old=();created=1\nSignature: "+
		"old=:AAAA:\n\n{}")
	now := time.Unix(1782635400, 0)
	r, err := replay.Send(context.Background(), rec, replay.Options{
		URL: srv.URL, SignedURL: "https://hooks.example", Sign: &verify.Signer{KeyID: "k", Secret: secret}, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	if refusal != nil {
		t.Fatalf("the signature does not verify: %v", refusal)
	}
	if !id.SignedAt.Equal(now) || !id.Covers("idempotency-key") || !id.Covers("content-type") || !r.Replayed {
		t.Errorf("identity is %+v, result %+v", id, r)
	}
}

// urlSeen records the URL that a signer gets.
type urlSeen struct{ url string }

func (s *urlSeen) Sign(r *http.Request, _ []byte, _ time.Time) error {
	s.url = r.URL.String()
	if path := r.URL.RequestURI(); path != r.RequestURI || !strings.HasSuffix(s.url, path) {
		return fmt.Errorf("the request target is %s, the URL %s", r.RequestURI, s.url)
	}
	return nil
}

func TestASignedURLKeepsTheEscapedOctets(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ signed, target, want string }{
		{"https://hooks.example", "/in/a%2Fb", "https://hooks.example/in/a%2Fb"},
		{"https://hooks.example/api", "/in/a%2Fb?c=%2F", "https://hooks.example/api/in/a%2Fb?c=%2F"},
		{"https://hooks.example/api/", "/in/a%2fb", "https://hooks.example/api/in/a%2fb"},
		{"https://hooks.example/t%2F1", "/in", "https://hooks.example/t%2F1/in"},
		{"https://hooks.example/t%2F", "/in/a%20b", "https://hooks.example/t%2F/in/a%20b"},
	} {
		address, got := raw(t)
		seen := &urlSeen{}
		_, err := replay.Send(context.Background(), recording(t, "POST "+row.target+" HTTP/1.1\nHost: h\n\n{}"),
			replay.Options{URL: address, SignedURL: row.signed, Sign: seen})
		if err != nil || seen.url != row.want {
			t.Errorf("%s below %s: signed %s, want %s: %v", row.target, row.signed, seen.url, row.want, err)
			continue
		}
		if head := <-got; !strings.HasPrefix(head, "POST "+row.target+" HTTP/1.1\r\n") {
			t.Errorf("request is\n%s", head)
		}
	}
}

func TestProblemsAndRedirectsAreResults(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/other", http.StatusPermanentRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"code":"signature_missing"}`)
	}))
	defer srv.Close()
	got := map[string][]any{}
	for _, path := range []string{"/moved", "/x"} {
		r, err := replay.Send(context.Background(), recording(t, "POST "+path+" HTTP/1.1\nHost: h\n\n"),
			replay.Options{URL: srv.URL})
		if err != nil {
			t.Fatal(err)
		}
		got[path] = []any{r.Status, r.Code}
	}
	if diff := cmp.Diff(map[string][]any{"/moved": {308, ""}, "/x": {401, "signature_missing"}}, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestInvalidOptionsAndMissingResponsesAreErrors(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	good := recording(t, "POST /x?token=s3cret HTTP/1.1\nHost: h\n\n")
	for name, send := range map[string]func() error{
		"no scheme": func() error {
			_, err := replay.Send(context.Background(), good, replay.Options{URL: "localhost"})
			return err
		},
		"unused": func() error {
			_, err := replay.Send(context.Background(), good, replay.Options{URL: unused})
			return err
		},
		"target": func() error {
			_, err := replay.Send(context.Background(), recording(t, "POST /%zz HTTP/1.1\n\n"),
				replay.Options{URL: unused})
			return err
		},
		"no key": func() error {
			_, err := replay.Send(context.Background(), good, replay.Options{URL: unused,
				Sign: &verify.Signer{KeyID: "k"}})
			return err
		},
	} {
		if err := send(); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// TestAnAnswerThatSwitchesProtocolsIsAnError: the body of a 101 has no end, and no timeout ends
// it.
func TestAnAnswerThatSwitchesProtocolsIsAnError(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))             // if the client keeps the connection
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil { // an early end is another error
			t.Error(err)
		}
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // until the client leaves
	}()
	defer func() { _ = ln.Close(); <-left }()
	sent := make(chan error, 1)
	go func() {
		_, err := replay.Send(context.Background(), recording(t, "POST /a HTTP/1.1\n\n"),
			replay.Options{URL: "http://" + ln.Addr().String()})
		sent <- err
	}()
	select {
	case err := <-sent:
		if err == nil || !strings.Contains(err.Error(), "101") {
			t.Errorf("error is %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("sending does not end")
	}
}
