package forward

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestTheOutcomeOfEachStatus is rows R170, R171 and R172: the draft's tables, over the transport.
func TestTheOutcomeOfEachStatus(t *testing.T) {
	t.Parallel()
	for status, outcome := range map[int]Outcome{
		200: Accepted, 201: Accepted, 202: Accepted, 203: Accepted, 204: Accepted, 205: Accepted, 206: Accepted,
		226: Accepted, 299: Accepted,
		207: Terminal,
		300: Terminal, 301: Terminal, 302: Terminal, 303: Terminal, 304: Terminal, 305: Terminal, 307: Terminal,
		308: Terminal,
		400: Terminal, 401: Terminal, 402: Terminal, 403: Terminal, 404: Terminal, 405: Terminal, 406: Terminal,
		410: Terminal,
		411: Terminal, 412: Terminal, 413: Terminal, 414: Terminal, 415: Terminal, 417: Terminal, 418: Terminal,
		422: Terminal, 423: Terminal,
		426: Terminal, 428: Terminal, 431: Terminal, 451: Terminal, 499: Terminal,
		408: Transient, 409: Transient, 421: Transient, 425: Transient, 429: Transient,
		500: Transient, 501: Transient, 502: Transient, 503: Transient, 504: Transient, 507: Transient, 511: Transient,
		599: Transient,
		600: Transient, 999: Transient,
	} {
		f := plain(t, says(status, "Location", "http://127.0.0.1:1/elsewhere"))
		want(t, deliver(t, to(t, f.URL, nil), "1"), outcome, status)
		if n := len(f.requests()); n != 1 {
			t.Errorf("%d: %d requests", status, n)
		}
	}
}

// TestABodyChangesNothing is row R170: an acceptance with and without a body, and one that is too
// large to keep.
func TestABodyChangesNothing(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"none": "", "some": `{"ok":true}`,
		"as large as allowed": strings.Repeat("x", MaxResponse), "more": strings.Repeat("x", MaxResponse+1)} {
		f := plain(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		r := deliver(t, to(t, f.URL, nil), "1")
		want(t, r, Accepted, 200)
		if keep := len(body) <= MaxResponse; keep && string(r.Body) != body || !keep && len(r.Body) != 0 {
			t.Errorf("%s: %d bytes were kept", name, len(r.Body))
		}
	}
}

// TestACutResponseIsTransient is row R174, with raw sockets.
func TestACutResponseIsTransient(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"nothing": "", "half a status line": "HTTP/1.1 2", "half a header": "HTTP/1.1 200 OK\r\nContent-",
		"half a body":   "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
		"half a chunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
		"no last chunk": "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"not HTTP":      "SSH-2.0-OpenSSH\r\n", "only 1xx": "HTTP/1.1 100 Continue\r\n\r\n",
		"early hints": "HTTP/1.1 103 Early Hints\r\n\r\n",
		"an upgrade that was not requested": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: " +
			"upgrade\r\n\r\n",
	} {
		for _, reset := range []bool{false, true} {
			address, served := raw(t, reply, reset)
			target := to(t, address, nil)
			for range 2 { // a transient outcome is retried with the same key
				if r := deliver(t, target, "1"); r.Outcome != Transient || r.Status >= 200 {
					t.Errorf("%s: %v %d", name, r.Outcome, r.Status)
				}
			}
			if served() < 2 {
				t.Errorf("%s: %d connections", name, served())
			}
		}
	}
}

// TestAResetStreamIsTransient is row R174 for HTTP/2.
func TestAResetStreamIsTransient(t *testing.T) {
	t.Parallel()
	f := newFar(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("half"))
		http.NewResponseController(w).Flush() //nolint:errcheck // the reset is what matters
		panic(http.ErrAbortHandler)
	})
	f.EnableHTTP2 = true
	f.StartTLS()
	target := to(t, f.URL, nil)
	trust(t, target, f)
	want(t, deliver(t, target, "1"), Transient, 0)
}

func TestATargetThatNeverAnswersIsTransient(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	f := plain(t, func(http.ResponseWriter, *http.Request) { <-end })
	defer close(end)
	r := deliver(t, to(t, f.URL, func(c *Config) { c.Timeout = 50 * time.Millisecond }), "1")
	want(t, r, Transient, 0)
	if !errors.Is(r.Err, context.DeadlineExceeded) {
		t.Errorf("error is %v", r.Err)
	}
}

// TestA401IsRepeatedOnceWithFreshCredentials is row R172.
func TestA401IsRepeatedOnceWithFreshCredentials(t *testing.T) {
	t.Parallel()
	asked := 0
	rotating := func(c *Config) {
		c.Credentials = func(_ context.Context, refresh bool) (Credentials, error) {
			if refresh != (asked%2 == 1) {
				t.Errorf("call %d with refresh %v", asked, refresh)
			}
			asked++
			return Credentials{Authorization: map[bool]secretText{false: "Bearer old", true: "Bearer new"}[refresh]},
				nil
		}
	}
	f := plain(t, says(401), says(200))
	target := to(t, f.URL, rotating)
	want(t, deliver(t, target, "1"), Accepted, 200)
	saw := f.requests()
	if len(saw) != 2 || saw[0].header.Get("Authorization") != "Bearer old" ||
		saw[1].header.Get("Authorization") != "Bearer new" ||
		saw[0].key != saw[1].key || saw[1].body != `{"id":"1"}` {
		t.Errorf("requests are %+v", saw)
	}
	f = plain(t, says(401))
	want(t, deliver(t, to(t, f.URL, rotating), "1"), Terminal, 401)
	if n := len(f.requests()); n != 2 {
		t.Errorf("%d requests, want two at most", n)
	}
	f = plain(t, says(401))
	want(t, deliver(t, to(t, f.URL, nil), "1"), Terminal, 401)
	if n := len(f.requests()); n != 1 {
		t.Errorf("%d requests without credentials to refresh", n)
	}
}

// TestFailingCredentialsAreTransient: missing credentials say nothing about the event.
func TestFailingCredentialsAreTransient(t *testing.T) {
	t.Parallel()
	for _, refresh := range []bool{false, true} {
		f := plain(t, says(401, "Sunset", "Mon, 01 Jun 2026 00:00:00 GMT"))
		target := to(t, f.URL, func(c *Config) {
			c.Credentials = func(_ context.Context, again bool) (Credentials, error) {
				if again == refresh {
					return Credentials{}, errors.New("no such file")
				}
				return Credentials{}, nil
			}
		})
		want(t, deliver(t, target, "1"), Transient, 0)
	}
}

func TestACancelledAttemptChangesNoState(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	f := plain(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	target := to(t, f.URL, nil)
	target.updateState(func(st *Status) { st.Sunset = newClock().Now().Add(-time.Hour) })
	want(t, target.Deliver(ctx, event("1")), Transient, 0)
}

func TestOutcomesHaveNames(t *testing.T) {
	t.Parallel()
	for outcome, name := range map[Outcome]string{Transient: "transient", Accepted: "accepted", Terminal: "terminal",
		Deferred: "waits", 9: "outcome 9"} {
		if outcome.String() != name {
			t.Errorf("%d is %q", int(outcome), outcome)
		}
	}
}
