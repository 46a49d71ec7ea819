package conform

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// reference is a consumer in memory that does all things right, except for the one that its
// sabotage names. It shares no code with the checks.
type reference struct {
	sabotage string
	p        *Profile
	public   ed25519.PublicKey
	clock    string // file with the seconds by which its clock was moved
	kills    string // file that is larger after each kill
	killed   int64  // its size

	mu       sync.Mutex
	requests int
	isWorn   bool
	effects  []string
	records  map[string]*stored
	failed   map[string]bool
	nonces   map[string]string
}

// stored is an identifier with the response to its event.
type stored struct {
	payload string // a hash
	answer  *reply // nil while it is made
	began   time.Time
	done    time.Time
}

type reply struct {
	status int
	body   string
	fields map[string]string
}

const (
	maxReference = 128 << 10
	patience     = 400 * time.Millisecond // for a body
	morePatience = 3 * time.Second
)

func (s *reference) is(names ...string) bool {
	for _, name := range names {
		if s.sabotage == name {
			return true
		}
	}
	return false
}

func (s *reference) now() time.Time {
	text, err := os.ReadFile(s.clock)
	if err != nil {
		return time.Now()
	}
	moved := 0
	for line := range strings.Lines(string(text)) {
		n, _ := strconv.Atoi(strings.TrimSpace(line))
		moved += n
	}
	return time.Now().Add(time.Duration(moved) * time.Second)
}

// refusal makes a problem.
func refusal(status int, kind string, fields ...string) *reply {
	all := map[string]string{"Content-Type": "application/problem+json"}
	for i := 0; i+1 < len(fields); i += 2 {
		all[fields[i]] = fields[i+1]
	}
	return &reply{status, fmt.Sprintf(`{"type":"https://example.com/problems#%s","status":%d}`, kind, status), all}
}

func (s *reference) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/effects" {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = io.WriteString(w, strings.Join(s.effects, "\n")+"\n")
		return
	}
	if len(r.TransferEncoding) > 0 && !s.is("stays open") {
		w.Header().Set("Connection", "close")
	}
	a := *s.receive(w, r) // a stored one is that of other requests, too
	s.spoil(w, &a)
	if s.is("204 with a length") && a.status == http.StatusAccepted {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")
		_ = conn.Close()
		return
	}
	for name, value := range a.fields {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// spoil is the sabotage of responses.
func (s *reference) spoil(w http.ResponseWriter, a *reply) {
	fields := map[string]string{}
	maps.Copy(fields, a.fields)
	a.fields = fields
	switch s.sabotage {
	case "no Allow", "no Accept-Post", "no WWW-Authenticate", "no Retry-After":
		delete(fields, strings.TrimPrefix(s.sabotage, "no "))
	case "no Date":
		w.Header()["Date"] = nil
	case "no Content-Type":
		if a.status < 300 && a.body != "" {
			delete(fields, "Content-Type")
			w.Header()["Content-Type"] = nil
		}
	case "Retry-After in words":
		if a.status >= 400 {
			fields["Retry-After"] = "soon"
		}
	case "another status in the problem":
		a.body = strings.Replace(a.body, `"status":4`, `"status":5`, 1)
	case "a stack":
		if a.status >= 400 {
			a.body = `{"error":"at verify.go:114"}`
			fields["Content-Type"] = "application/json"
		}
	case "the secret":
		if a.status == 401 {
			a.body = `"` + s.p.Secret + `"`
			fields["Content-Type"] = "application/json"
		}
	case "no policy":
		fields["Content-Type"] = "text/plain"
	case "429":
		if a.status == http.StatusMethodNotAllowed {
			a.status = http.StatusTooManyRequests
		}
	case "wears out":
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.isWorn = s.isWorn || a.status == http.StatusUnauthorized; s.isWorn && a.status < 300 {
			a.status = http.StatusInternalServerError
		}
	case "crashes":
		if a.status == 401 || a.status == 400 {
			a.status = 500
		}
	}
}

func (s *reference) receive(w http.ResponseWriter, r *http.Request) *reply {
	path := r.URL.Path
	if a := s.insists(r); a != nil {
		return a
	}
	if s.is("refuses everything") {
		return refusal(403, "no")
	}
	if s.is("redirects deliveries") && r.Method != "POST" {
		return &reply{307, "", map[string]string{"Location": "/hook"}}
	}
	if s.is("redirect") && strings.HasSuffix(path, "/") {
		return &reply{308, "", map[string]string{"Location": "/hook"}}
	}
	if path != "/hook" && path != "/other" {
		return refusal(404, "no-endpoint")
	}
	if a := s.method(r); a != nil {
		return a
	}
	if early := r.Header.Values("Early-Data"); len(early) > 0 && !s.is("early data") {
		if !s.is("early data by its value") || len(early) == 1 && early[0] == "1" {
			return refusal(425, "early-data")
		}
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if s.is("types with case") {
		kind = r.Header.Get("Content-Type")
	}
	own, _, _ := mime.ParseMediaType(s.p.Type)
	isFormat := s.is("any format", "batches unasked") && strings.HasPrefix(kind, "application/cloudevents")
	if (err != nil || kind != own && kind != s.p.Batch && !isFormat) && !s.is("any type") {
		return refusal(415, "media-type", "Accept-Post", own)
	}
	raw, a := s.body(w, r)
	if a != nil {
		return a
	}
	if s.is("replays before it verifies") && r.Header.Get("Idempotency-Key") != "" {
		if rec := s.find(path + " main " + strings.Trim(r.Header.Get("Idempotency-Key"), `"`)); rec != nil {
			return rec.answer
		}
	}
	if s.is("claims before it verifies") {
		id := r.Header.Get("X-Github-Delivery")
		if id != "" && s.find(id) == nil {
			s.mu.Lock()
			s.records[id] = &stored{answer: &reply{202, "", nil}}
			s.mu.Unlock()
		} else if id != "" {
			return s.find(id).answer
		}
	}
	principal, a := s.authenticate(r, raw)
	if a != nil {
		return a
	}
	body, a := s.decode(r, raw)
	if a != nil {
		return a
	}
	return s.deliver(r, path+" "+principal, kind, body)
}

func (s *reference) method(r *http.Request) *reply {
	switch {
	case r.Method == "OPTIONS" && r.Header.Get("WebHook-Request-Origin") != "":
		a := &reply{200, "", map[string]string{"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "120"}}
		if s.is("a grant without a rate") {
			delete(a.fields, "WebHook-Allowed-Rate")
		}
		return a
	case r.Method == "POST", s.is("any method") && r.Method == "PUT":
		return nil
	case strings.EqualFold(r.Method, "post") && s.is("methods without case"):
		return nil
	case r.Method == "GET" && s.is("shows a page"):
		return &reply{200, rand.Text(), map[string]string{"Content-Type": "text/plain"}}
	case r.Method == "GET" && s.is("GET reveals"):
		if rec := s.find("/hook main " + strings.Trim(r.Header.Get("Idempotency-Key"), `"`)); rec != nil {
			return rec.answer
		}
	}
	return refusal(405, "method", "Allow", "POST, OPTIONS")
}

func (s *reference) find(key string) *stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[key]
}

func (s *reference) body(w http.ResponseWriter, r *http.Request) ([]byte, *reply) {
	coding := r.Header.Get("Content-Encoding")
	if coding != "" && coding != "gzip" && !s.is("any coding") {
		return nil, refusal(415, "coding", "Accept-Encoding", "gzip")
	}
	limit := int64(maxReference)
	if s.is("32 KiB at most") {
		limit = 32 << 10
	}
	if r.ContentLength > limit && !s.is("no limit") {
		w.Header().Set("Connection", "close")
		return nil, refusal(413, "too-large")
	}
	if s.is("no limit") || r.ContentLength < 0 && s.is("no limit for chunks") {
		limit = 64 << 20
	}
	wait := patience
	if s.is("no 100") {
		wait = morePatience
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(wait))
	raw, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	var timeout net.Error
	switch {
	case int64(len(raw)) > limit:
		w.Header().Set("Connection", "close")
		return nil, refusal(413, "too-large")
	case errors.As(err, &timeout) && timeout.Timeout():
		w.Header().Set("Connection", "close")
		if s.is("no 408") {
			return nil, refusal(400, "body")
		}
		return nil, refusal(408, "timeout")
	case err != nil && !s.is("cut bodies"):
		w.Header().Set("Connection", "close")
		return nil, refusal(400, "body")
	}
	return raw, nil
}

func (s *reference) decode(r *http.Request, raw []byte) ([]byte, *reply) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return raw, nil
	}
	limit := int64(maxReference)
	if s.is("a bomb") {
		limit = 64 << 20
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, refusal(400, "gzip")
	}
	body, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err != nil || int64(len(body)) > limit {
		return nil, refusal(413, "too-large")
	}
	return body, nil
}

// deliver handles the events of a delivery that is authentic.
func (s *reference) deliver(r *http.Request, scope, kind string, body []byte) *reply {
	isBatch := kind == s.p.Batch || s.is("batches unasked") && strings.Contains(kind, "batch")
	if !isBatch {
		return s.one(r, scope, body)
	}
	var events []json.RawMessage
	if json.Unmarshal(body, &events) != nil {
		return refusal(400, "batch")
	}
	if s.is("batches unasked") {
		return s.one(r, scope, events[0])
	}
	for i, e := range events {
		if _, a := s.identify(r, e); a != nil && !s.is("halves of batches") {
			return a
		} else if a != nil {
			return refusal(400, "batch")
		}
		if s.is("halves of batches") || s.is("the first of a batch") && i == 0 {
			s.one(r, scope, e)
		}
	}
	var last *reply
	for _, e := range events {
		if last = s.one(r, scope, e); s.is("the first of a batch") {
			break
		}
	}
	return last
}

func (s *reference) one(r *http.Request, scope string, body []byte) *reply {
	key, a := s.identify(r, body)
	if a != nil {
		return a
	}
	if s.is("one namespace") {
		scope = ""
	}
	if s.is("one namespace of endpoints") {
		_, scope, _ = strings.Cut(scope, " ")
	}
	payload := fmt.Sprintf("%x", sha256.Sum256(body))
	if s.is("the attempt in the payload") {
		payload += r.Header.Get("User-Agent")
	}
	if s.is("a race") {
		if s.find(scope+" "+key) == nil {
			time.Sleep(20 * time.Millisecond)
			s.mu.Lock()
			delete(s.records, scope+" "+key)
			s.mu.Unlock()
		}
	}
	rec, a := s.claim(scope+" "+key, payload)
	if a != nil {
		return a
	}
	if !s.p.Answers {
		s.finish(rec, &reply{202, "", nil})
		if s.is("waits") {
			s.handle(key, body)
		} else {
			go s.later(key, body)
		}
		return rec.answer
	}
	a = s.handle(key, body)
	if a.status >= 500 && !s.is("stores transient failures") || a.status == 422 && s.is("forgets terminal failures") {
		s.mu.Lock()
		delete(s.records, scope+" "+key)
		s.mu.Unlock()
		return a
	}
	s.finish(rec, a)
	return a
}

func (s *reference) finish(rec *stored, a *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.answer, rec.done = a, s.now()
}

// claim returns a new record, or the reply to a known identifier.
func (s *reference) claim(key, payload string) (*stored, *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if info, err := os.Stat(s.kills); err == nil && s.is("forgets when it is killed") && info.Size() != s.killed {
		s.records, s.killed = map[string]*stored{}, info.Size()
	}
	rec := s.records[key]
	window := s.p.Window
	if window == 0 || s.is("never forgets") {
		window = 1000 * time.Hour
	}
	if s.is("a third of the window") {
		window /= 3
	}
	switch {
	case rec == nil || s.is("no memory"):
	case rec.answer != nil && s.now().Sub(rec.done) > window:
	case s.is("a window from the start") && s.now().Sub(rec.began) > window:
	case rec.payload != payload && !s.is("no conflicts"):
		if s.is("conflicts overwrite") {
			rec.payload = payload
		}
		return nil, refusal(s.p.Conflict, "conflict")
	case rec.answer == nil && s.is("runs twice"):
	case rec.answer == nil:
		return nil, refusal(409, "in-flight", "Retry-After", "1")
	case s.is("handles duplicates later"):
		time.AfterFunc(s.p.Settle*3/4, func() { s.handle(key, nil) })
		return nil, rec.answer
	case s.is("another answer"):
		return nil, &reply{208, "", nil}
	default:
		return nil, rec.answer
	}
	rec = &stored{payload: payload, began: s.now()}
	s.records[key] = rec
	return rec, nil
}

// later handles an event that is kept, or not, when the program is killed.
func (s *reference) later(key string, body []byte) {
	size := func() int64 {
		info, err := os.Stat(s.kills)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	before := size()
	if s.is("keeps nothing") {
		time.Sleep(30 * time.Millisecond)
	}
	if size() == before || !s.is("keeps nothing") {
		s.handle(key, body)
	}
}

// handle is the handler.
func (s *reference) handle(key string, body []byte) *reply {
	var e struct {
		Wait int    `json:"wait"`
		Fail string `json:"fail"`
	}
	_ = json.Unmarshal(body, &e)
	time.Sleep(time.Duration(e.Wait) * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Fail != "" && !s.failed[key] {
		s.failed[key] = true
		return map[string]*reply{
			"transient": refusal(503, "try-again", "Retry-After", "1"), "terminal": refusal(422, "no"),
		}[e.Fail]
	}
	if !s.is("loses events") {
		s.effects = append(s.effects, key)
	}
	fields := map[string]string{"Content-Type": "application/json"}
	return &reply{200, fmt.Sprintf(`{"n":%d}`, len(s.effects)), fields}
}

// identify returns the identifier of an event, which must be well-formed.
func (s *reference) identify(r *http.Request, body []byte) (string, *reply) {
	e := map[string]any{}
	if json.Unmarshal(body, &e) != nil && !s.is("any JSON") {
		return "", refusal(400, "json")
	}
	if s.is("any JSON") && len(e) == 0 {
		return string(body), nil
	}
	isEvent := s.p.claims("cloudevents")
	for _, name := range []string{"id", "source", "type", "specversion"} {
		value, _ := e[name].(string)
		if r.Header.Get("ce-id") != "" || r.Header.Get("ce-source") != "" {
			value = r.Header.Get("ce-" + name)
		}
		if isEvent && value == "" && !s.is("any attributes") {
			return "", refusal(400, "attributes")
		}
	}
	if r.Header.Get("ce-datacontenttype") != "" && !s.is("ce-datacontenttype") {
		return "", refusal(400, "attributes")
	}
	if name, ok := strings.CutPrefix(s.p.Key, "field:"); ok {
		if strings.EqualFold(name, "Idempotency-Key") {
			return s.idempotencyKey(r)
		}
		key := r.Header.Get(name)
		if key == "" && s.is("no id needed") {
			return rand.Text(), nil
		}
		if key == "" {
			return "", refusal(400, "key")
		}
		if name == "webhook-id" && strings.Contains(key, ".") && !s.is("a full stop") {
			return "", refusal(400, "key")
		}
		return key, nil
	}
	id, _ := e["id"].(string)
	if source, ok := e["source"].(string); ok && !s.is("the id alone") {
		id += " " + source
	}
	return id, nil
}

// keySyntax is an Item of structured fields that is a String.
var keySyntax = regexp.MustCompile(`^"((?:[ !#-\[\]-~]|\\["\\])*)"((?:; *[a-z*][a-z0-9_.*-]*(?:=[^;"]+)?)*)$`)

func (s *reference) idempotencyKey(r *http.Request) (string, *reply) {
	refused := refusal(400, "key")
	lines := r.Header.Values("Idempotency-Key")
	switch {
	case len(lines) == 0 && s.is("no key needed", "optional keys"):
		return rand.Text(), nil
	case len(lines) == 1 && lines[0] == "" && s.is("an empty field is no field"):
		return rand.Text(), nil
	case len(lines) == 0:
		return "", refused
	case s.is("the first line of the key"):
		lines = lines[:1]
	}
	value := strings.Join(lines, ", ")
	m := keySyntax.FindStringSubmatch(value)
	switch {
	case m == nil && s.is("optional keys"):
		return rand.Text(), nil
	case m == nil && s.is("bare keys") && !strings.ContainsAny(value, "\"\\, "):
		return value, nil
	case m == nil && s.is("any key") && len(lines) == 1:
		return value, nil
	case m == nil, m[1] == "" && !s.is("empty keys"), len(m[1]) > 255 && s.is("short keys"):
		return "", refused
	case s.is("parameters in the key"):
		return m[1] + m[2], nil
	case s.is("the beginning of keys"):
		return m[1][:min(len(m[1]), 255)], nil
	}
	return m[1], nil
}

// authenticate returns the principal.
func (s *reference) authenticate(r *http.Request, raw []byte) (string, *reply) {
	principal, err := "main", error(nil)
	refused := refusal(401, "signature", "WWW-Authenticate", "Signature")
	switch s.p.Scheme {
	case "bearer":
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok && !s.is("unsigned") || !s.isToken(token) && !s.is("any secret", "unsigned", "halves of signatures") ||
			ok && s.is("halves of signatures") && !strings.HasPrefix(s.p.Secret, token) {
			err = errors.New("another token")
		}
		refused.fields["WWW-Authenticate"] = "Bearer"
	case "hmac":
		err = s.hmac(r, raw)
	case "rfc9421":
		principal, err = s.signed(r, raw)
		refused.fields["Accept-Signature"] = `sig1=("@method" "content-digest");created;keyid="conform"`
		if s.is("Accept-Signature for responses") {
			refused.fields["Accept-Signature"] = `sig1=("@status" "content-digest");created`
		}
	}
	if err == nil {
		return principal, nil
	}
	if s.is("handles what it refuses") {
		key, _ := s.idempotencyKey(r)
		time.AfterFunc(10*time.Millisecond, func() { s.handle(key, nil) })
	}
	if s.is("handles what is unsigned") && r.Header.Get("Signature") == "" {
		key, _ := s.idempotencyKey(r)
		s.handle(key, nil)
	}
	if s.is("says which keys exist") && strings.Contains(err.Error(), "unknown key") {
		return "", refusal(403, "unknown-key")
	}
	return "", refused
}

func (s *reference) isToken(token string) bool {
	want := s.p.Secret
	return token == want || s.is("most of signatures") && len(token) == len(want) && token[:15] == want[:15]
}

func (s *reference) hmac(r *http.Request, raw []byte) error {
	if s.is("JSON written again") {
		var b bytes.Buffer
		if json.Compact(&b, raw) == nil {
			raw = b.Bytes()
		}
	}
	if s.is("bodies in Latin-1") {
		var letters []rune
		for _, octet := range raw {
			letters = append(letters, rune(octet))
		}
		raw = []byte(string(letters))
	}
	if s.is("trimmed bodies") {
		raw = bytes.TrimSpace(raw)
	}
	name, over, prefix, encode := "X-Hub-Signature-256", string(raw), "sha256=", hex.EncodeToString
	secret := []byte(s.p.Secret)
	if s.p.keyField() == "webhook-id" {
		id, at := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
		name, over, prefix = "webhook-signature", id+"."+at+"."+string(raw), "v1,"
		encode = base64.StdEncoding.EncodeToString
		secret, _ = base64.StdEncoding.DecodeString(strings.TrimPrefix(s.p.Secret, "whsec_"))
		if err := s.fresh(at); err != nil && (at != "" || !s.is("no time needed")) {
			return err
		}
	}
	if s.is("unsigned") && r.Header.Get(name) == "" {
		return nil
	}
	keys := [][]byte{secret}
	if s.p.Old != nil && !s.is("no rotation") {
		old, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.p.Old.Secret, "whsec_"))
		keys = append(keys, old)
	}
	for i, one := range strings.Fields(r.Header.Get(name)) {
		if i > 0 && s.is("the first signature alone") {
			break
		}
		text, ok := strings.CutPrefix(one, prefix)
		if s.is("any version") {
			_, text, ok = strings.Cut(one, ",")
		}
		if !ok {
			continue
		}
		for _, key := range keys {
			mac := hmac.New(sha256.New, key)
			_, _ = io.WriteString(mac, over)
			want := encode(mac.Sum(nil))
			if text == want || s.is("any secret") || s.is("halves of signatures") && strings.HasPrefix(want, text) ||
				s.is("first octets of signatures") && len(text) == len(want) && text[:8] == want[:8] ||
				s.is("most of signatures") && len(text) == len(want) && text[:36] == want[:36] {
				return nil
			}
		}
	}
	return errors.New("no good signature")
}

// fresh checks a time in seconds.
func (s *reference) fresh(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if s.is("times as floats") {
		f, _ := strconv.ParseFloat(text, 64)
		if math.IsNaN(f) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	age := s.now().Sub(time.Unix(n, 0))
	tolerance := s.p.Tolerance
	if s.is("ten seconds") {
		tolerance = 10 * time.Second
	}
	if age > tolerance && !s.is("stale") || age < -tolerance && !s.is("from the future") {
		return errors.New("not fresh")
	}
	return nil
}

// start starts a reference for a profile, which is completed by more YAML.
func start(t *testing.T, base, more, sabotage string) (*reference, *Profile, string) {
	t.Helper()
	dir := t.TempDir()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	s := &reference{
		sabotage: sabotage, public: public, clock: filepath.Join(dir, "clock"), kills: filepath.Join(dir, "kills"),
		records: map[string]*stored{}, failed: map[string]bool{}, nonces: map[string]string{},
	}
	server := httptest.NewUnstartedServer(s)
	server.Listener = listener{server.Listener, s}
	server.Config.ErrorLog = nil
	server.Start()
	t.Cleanup(server.Close)
	origin := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	file := filepath.Join(dir, "profile.yaml")
	more = strings.NewReplacer("ORIGIN", origin, "DIR", dir).Replace(more)
	writeFile(t, file, "base: "+base+"\nsettle: 80ms\ntimeout: 5s\neffects: {url: "+origin+"/effects}\n"+more)
	p, err := ReadProfile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.p = p
	return s, p, origin + "/hook"
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// listener lets a sabotage change requests before they are parsed.
type listener struct {
	net.Listener
	s *reference
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &changed{Conn: c, s: l.s}, nil
}

type changed struct {
	net.Conn
	s    *reference
	rest []byte
}

var (
	badHosts   = regexp.MustCompile(`(?:Host: .*\r\n)+`)
	badLengths = regexp.MustCompile(`Content-Length: 1\r\n|(Content-Length: )[+x]`)
	expects    = regexp.MustCompile(`Expect: .*\r\n`)
)

func (c *changed) Read(p []byte) (int, error) {
	if len(c.rest) > 0 {
		n := copy(p, c.rest)
		c.rest = c.rest[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if n == 0 || err != nil {
		return n, err
	}
	b := bytes.Clone(p[:n])
	switch c.s.sabotage {
	case "any Host":
		b = badHosts.ReplaceAll(b, []byte("Host: localhost\r\n"))
		if bytes.HasPrefix(b, []byte("POST ")) && !bytes.Contains(b, []byte("Host: ")) {
			b = bytes.Replace(b, []byte("\r\n"), []byte("\r\nHost: localhost\r\n"), 1)
		}
	case "speaks HTTP/1.0":
		b = bytes.Replace(b, []byte("HTTP/1.1\r\n"), []byte("HTTP/1.0\r\n"), 1)
	case "any length":
		b = badLengths.ReplaceAll(b, []byte("$1"))
	case "signatures with case":
		b = bytes.Replace(b, []byte("\nx-hub-signature-256"), []byte("\nX-Unknown"), 1)
	case "names with case":
		b = bytes.Replace(b, []byte("\nidempotency-keY:"), []byte("\nX-Unknown-key:"), 1)
	case "NUL":
		b = bytes.ReplaceAll(b, []byte{0}, []byte(`\u0000`))
	case "no 100", "any expectation":
		if c.s.is("any expectation") != bytes.Contains(b, []byte("100-continue")) {
			b = expects.ReplaceAll(b, nil)
		}
	}
	n = copy(p, b)
	c.rest = b[n:]
	return n, nil
}
