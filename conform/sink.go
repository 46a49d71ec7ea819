package conform

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// arrival is a request that a producer or an intermediary sent.
type arrival struct {
	at     time.Time
	method string
	target string
	host   string
	header http.Header
	body   []byte
	isOurs bool // of the event of a producer that a check triggered
}

// has reports whether a text is in the body or in a field.
func (a *arrival) has(text string) bool {
	return strings.Contains(a.text(), text)
}

// text returns the request as it is reported.
func (a *arrival) text() string {
	var b strings.Builder
	b.WriteString(a.method + " " + a.target + " HTTP/1.1\r\nHost: " + a.host + "\r\n")
	_ = a.header.Write(&b) // to memory
	return b.String() + "\r\n" + string(a.body)
}

// respond is a response to an arrival.
type respond func(w http.ResponseWriter)

// sink is the server to which a producer or an intermediary sends.
type sink struct {
	url    string
	server *http.Server

	mu      sync.Mutex
	all     []*arrival
	scripts map[string][]respond // responses to the arrivals with a text, in order; the last one repeats
	next    []respond            // responses to our event of a producer, in order; the last one repeats

	keyOf  func(*arrival) string
	known  map[string]bool // keys of events that came before
	ours   string          // key of our event
	awaits bool            // the next event with another key is ours
}

// maxArrival bounds the body of an arrival, in bytes.
const maxArrival = 32 << 20

func listen(ctx context.Context, address string, keyOf func(*arrival) string) (*sink, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &sink{
		url: "http://" + l.Addr().String(), scripts: map[string][]respond{}, keyOf: keyOf, known: map[string]bool{},
	}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go s.server.Serve(l) //nolint:errcheck // it ends with the session
	return s, nil
}

func (s *sink) close() { _ = s.server.Close() }

// ServeHTTP implements http.Handler.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxArrival))
	if err != nil {
		return
	}
	if r.Method == http.MethodOptions || r.Method == http.MethodHead { // asks before it delivers
		w.Header().Set("Allow", "POST, PUT")
		w.Header().Set("WebHook-Allowed-Origin", r.Header.Get("WebHook-Request-Origin"))
		w.Header().Set("WebHook-Allowed-Rate", "*")
		return
	}
	a := &arrival{at: time.Now(), method: r.Method, target: r.RequestURI, host: r.Host, header: r.Header, body: body}
	s.record(a)(w)
}

// record keeps an arrival and returns its response.
func (s *sink) record(a *arrival) respond {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, a)
	for id, script := range s.scripts {
		if a.has(id) {
			if len(script) > 1 {
				s.scripts[id] = script[1:]
			}
			return script[0]
		}
	}
	if a.isOurs = s.isOurs(a); !a.isOurs || len(s.next) == 0 {
		return status(http.StatusAccepted)
	}
	answer := s.next[0]
	if len(s.next) > 1 {
		s.next = s.next[1:]
	}
	return answer
}

// isOurs reports whether an arrival is of the event that was triggered: producers may send others
// meanwhile, and repeat older ones. Events without keys are all taken for it. s.mu is held.
func (s *sink) isOurs(a *arrival) bool {
	key := s.keyOf(a)
	if s.awaits && !s.known[key] {
		s.ours, s.awaits = key, false
	}
	s.known[key] = key != ""
	return !s.awaits && key == s.ours
}

// script sets the responses to the arrivals with a text.
func (s *sink) script(id string, answers ...respond) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[id] = answers
}

// expect sets the responses to the next event, and returns how many arrivals there were before.
func (s *sink) expect(answers ...respond) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.awaits = answers, true
	return len(s.all)
}

// arrivals returns those that are wanted, from a number on.
func (s *sink) arrivals(from int, isWanted func(*arrival) bool) (all []*arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all[from:] {
		if isWanted(a) {
			all = append(all, a)
		}
	}
	return all
}

// wait waits until n arrivals are wanted, at most for some time, and returns all of them.
func (s *sink) wait(
	ctx context.Context, from int, isWanted func(*arrival) bool, n int, most time.Duration,
) []*arrival {
	for end := time.Now().Add(most); ; time.Sleep(10 * time.Millisecond) {
		if all := s.arrivals(from, isWanted); len(all) >= n || ctx.Err() != nil || time.Now().After(end) {
			return all
		}
	}
}

// cut is the status of a connection that is closed without a response.
const cut = 0

// status responds with a status, and fields in pairs.
func status(code int, fields ...string) respond {
	return func(w http.ResponseWriter) {
		if code == cut {
			panic(http.ErrAbortHandler)
		}
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		w.WriteHeader(code)
	}
}

// outcome is a status as it is reported.
func outcome(code int) string {
	if code == cut {
		return "a cut connection"
	}
	return strconv.Itoa(code)
}
