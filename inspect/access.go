package inspect

import (
	"crypto/rand"
	"crypto/subtle"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// The limits of access to the page.
const (
	sessionIdle  = 12 * time.Hour
	maxSessions  = 64 // of more, the one that was unused for longest ends
	codeLife     = time.Minute
	maxCodes     = 16
	failedLogins = 10 // in failedSpan
	failedSpan   = time.Minute
)

// access decides who may look at the page. Sessions are in memory, so they end with the process.
type access struct {
	token, readToken string
	readOnly         bool

	mu       sync.Mutex
	sessions map[string]*session // by the value of the cookie
	codes    map[string]code
	failed   []time.Time // of the last failedSpan
}

// session is the login of one browser. It opens the page, not the API.
type session struct {
	form     string // the token of its forms
	readOnly bool
	used     time.Time
	flash    string // what to say on the next page
}

// code is a login code, which can be used once.
type code struct {
	readOnly bool
	ends     time.Time
}

// setReadOnly lets no one change anything, or those with the token. If that is new, all logins end.
func (a *access) setReadOnly(readOnly bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.readOnly != readOnly {
		a.readOnly = readOnly
		clear(a.sessions)
		clear(a.codes)
	}
}

// grant reports whether a token opens the page, and whether for reading only.
func (a *access) grant(token string) (readOnly, ok bool) {
	same := func(want string) bool {
		return want != "" && subtle.ConstantTimeCompare([]byte(token), []byte(want)) == 1
	}
	full, read := same(a.token), same(a.readToken)
	return a.readOnly || !full, full || read
}

// newCode returns a login code for a token.
func (a *access) newCode(token string) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	readOnly, ok := a.grant(token)
	if !ok {
		return "", false
	}
	now := time.Now()
	maps.DeleteFunc(a.codes, func(_ string, c code) bool { return !now.Before(c.ends) })
	if len(a.codes) >= maxCodes {
		return "", false
	}
	text := rand.Text()
	a.codes[text] = code{readOnly, now.Add(codeLife)}
	return text, true
}

// useCode begins a session with a login code.
func (a *access) useCode(text string) (id string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, ok := a.codes[text]
	delete(a.codes, text)
	if !ok || !time.Now().Before(c.ends) {
		return "", false
	}
	return a.begin(c.readOnly), true
}

// login begins a session with a token. It reports busy after too many failed logins.
func (a *access) login(token string) (id string, busy bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.failed = slices.DeleteFunc(a.failed, func(t time.Time) bool { return now.Sub(t) >= failedSpan })
	if len(a.failed) >= failedLogins {
		return "", true
	}
	readOnly, ok := a.grant(token)
	if !ok {
		a.failed = append(a.failed, now)
		return "", false
	}
	return a.begin(readOnly), false
}

func (a *access) begin(readOnly bool) (id string) {
	if len(a.sessions) >= maxSessions {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(a.sessions)), func(x, y string) int {
			return a.sessions[x].used.Compare(a.sessions[y].used)
		})
		delete(a.sessions, oldest)
	}
	id = rand.Text()
	a.sessions[id] = &session{form: rand.Text(), readOnly: readOnly, used: time.Now()}
	return id
}

// find returns a copy of the session of a request, and notes its use.
func (a *access) find(r *http.Request) (session, bool) {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return session{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sessions[cookie.Value]
	if s == nil || time.Since(s.used) >= sessionIdle {
		delete(a.sessions, cookie.Value)
		return session{}, false
	}
	s.used = time.Now()
	return *s, true
}

// change calls do with the session of a request, if there is one.
func (a *access) change(r *http.Request, do func(id string, s *session)) {
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if s := a.sessions[cookie.Value]; s != nil {
			do(cookie.Value, s)
		}
	}
}

// cookieName has the port, because browsers share cookies between the ports of a host.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return "eyelet-" + port
}

// setCookie sends a session to the browser, which forgets it when it closes.
func setCookie(w http.ResponseWriter, r *http.Request, prefix, id string) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: id, Path: prefix, HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode,
	})
}
