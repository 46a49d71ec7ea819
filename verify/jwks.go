package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of fetching a JSON Web Key Set.
const (
	jwksMaxBytes = 1 << 20
	jwksTimeout  = 5 * time.Second
	jwksMinAge   = time.Minute // Cache-Control is clamped to these two
	jwksMaxAge   = time.Hour
	jwksAge      = 10 * time.Minute // without Cache-Control
	jwksStale    = 24 * time.Hour   // how long keys outlive a server that is down
	jwksPause    = 30 * time.Second // between fetches that unknown key ids or failures cause
)

// JWKSConfig describes the key set of a producer that publishes its keys at a URL.
type JWKSConfig struct {
	// URL is where the JSON Web Key Set is (RFC 7517 section 5). It is https, or http on a loopback address.
	// Required.
	URL string
	// Principal is the identity that the keys stand for; empty is the producer itself.
	Principal string
	// Client fetches the set. Its timeout and its redirects are replaced: 5 seconds, and to the same origin
	// only. Defaults to a client of its own.
	Client *http.Client
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// JWKS is a [KeySet] that is fetched from a URL.
//
// The set is fetched at its first use and again when Cache-Control says so, at least every hour and at most every
// minute; in the last quarter of that time in the background. A kid that is not in the set causes a fetch at most
// every 30 seconds. It is key_unknown only after a fetch that began after the lookup; where none was allowed it is
// keys_unavailable with the rest of the pause, so unknown kids from others never cause a final refusal of a key that
// was just published. A fetch replaces the set, which drops removed keys; while fetches fail the last set serves for
// up to 24 hours. Symmetric keys are never taken from a URL.
type JWKS struct {
	cfg     JWKSConfig
	client  *http.Client
	ctx     context.Context
	cancel  context.CancelFunc
	fetches sync.WaitGroup

	mu         sync.Mutex
	set        *jwksSet
	fetching   chan struct{} // closed when the fetch under way ends; nil while there is none
	lastFetch  time.Time     // when the last fetch began
	fetchCount uint64        // how many fetches have begun
	err        error         // why the last fetch failed; nil when it did not
}

// jwksSet is one fetched state of the set.
type jwksSet struct {
	public  []JSONWebKey
	keys    *staticSet
	fetch   uint64 // the number of its fetch, counted from one
	fetched time.Time
	expires time.Time
}

// NewJWKS returns the set at cfg.URL. It fetches nothing yet.
func NewJWKS(cfg JWKSConfig) (*JWKS, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("the JWKS URL is no URL") // which may hold a credential
	}
	if err := checkKeyURL(u); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	client := &http.Client{}
	if cfg.Client != nil {
		*client = *cfg.Client
	} else if shared, ok := http.DefaultTransport.(*http.Transport); ok {
		client.Transport = shared.Clone()
	}
	client.Timeout = jwksTimeout
	client.CheckRedirect = sameOrigin
	ctx, cancel := context.WithCancel(context.Background())
	return &JWKS{cfg: cfg, client: client, ctx: ctx, cancel: cancel}, nil
}

// Close ends the fetch under way, if any, and waits for it. Afterwards nothing is fetched any more.
func (j *JWKS) Close() error {
	j.cancel()
	j.fetches.Wait()
	if j.cfg.Client == nil {
		j.client.CloseIdleConnections()
	}
	return nil
}

// checkKeyURL refuses addresses from which keys would come unauthenticated.
func checkKeyURL(u *url.URL) error {
	host := u.Hostname()
	switch {
	case host == "" || u.User != nil:
		return errors.New("the JWKS URL needs a host and no user")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && isLoopback(host):
		return nil
	}
	return fmt.Errorf("the JWKS URL at %s must be https (http is for loopback addresses)", u.Host)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func sameOrigin(r *http.Request, via []*http.Request) error {
	if first := via[0].URL; len(via) > 3 || r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		return errors.New("the JWKS URL redirects to another origin, or too often")
	}
	return nil
}

// Key implements [KeySet]. It may wait for a fetch, at most 5 seconds.
func (j *JWKS) Key(ctx context.Context, id string) ([]Key, error) {
	var found []Key
	err := j.lookup(ctx, id, func(s *jwksSet) bool {
		found, _ = s.keys.Key(ctx, id)
		return len(found) > 0
	})
	return found, err
}

// PublicKeys returns the public keys with this kid, or all of them for "", whatever they are used for. Errors are
// those of [JWKS.Key]. It serves the verifiers of tokens, whose algorithms are not those of HTTP signatures.
func (j *JWKS) PublicKeys(ctx context.Context, kid string) ([]JSONWebKey, error) {
	var found []JSONWebKey
	err := j.lookup(ctx, kid, func(s *jwksSet) bool {
		found = nil
		for _, k := range s.public {
			if kid == "" || k.ID == kid {
				found = append(found, k)
			}
		}
		return len(found) > 0
	})
	return found, err
}

// lookup shows the current set to find, fetching it first where it must, and once more where find did not find
// and a fetch is due. Only a set whose fetch began after the call proves that a key does not exist.
func (j *JWKS) lookup(ctx context.Context, id string, find func(*jwksSet) bool) error {
	before := j.refresh(ctx, j.due)
	if set, _ := j.current(); set != nil && find(set) {
		return nil
	}
	j.refresh(ctx, func(now time.Time) (bool, bool) { return j.missDue(before, now), true })
	set, err := j.current()
	switch {
	case set != nil && find(set):
		return nil
	case set != nil && err == nil && set.fetch > before:
		return &Error{Code: KeyUnknown, KeyID: id}
	}
	return &Error{Code: KeysUnavailable, KeyID: id, RetryAfter: j.retryAfter(), Err: err}
}

// current returns the set if it may still be used, and the failure of the last fetch.
func (j *JWKS) current() (*jwksSet, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.set == nil || j.cfg.Now().Sub(j.set.fetched) > jwksStale {
		return nil, j.err
	}
	return j.set, j.err
}

// due says whether the set is to be fetched, and whether that is worth waiting for. It is called under the lock.
func (j *JWKS) due(now time.Time) (fetch, wait bool) {
	if j.err != nil && now.Sub(j.lastFetch) < jwksPause {
		return false, false // it failed a moment ago: live with what there is
	}
	if j.set == nil || now.After(j.set.expires) {
		return true, true
	}
	quarter := j.set.expires.Sub(j.set.fetched) / 4
	return now.After(j.set.expires.Add(-quarter)) && now.Sub(j.lastFetch) >= jwksPause, false
}

// missDue says whether a kid that is not in the set is a reason to fetch, for a lookup that came after that many
// fetches had begun. It is called under the lock.
func (j *JWKS) missDue(before uint64, now time.Time) bool {
	return j.fetchCount == before && now.Sub(j.lastFetch) >= jwksPause
}

// retryAfter returns the rest of the pause between fetches, at least a second.
func (j *JWKS) retryAfter() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return max(jwksPause-j.cfg.Now().Sub(j.lastFetch), time.Second)
}

// refresh fetches the set when due says so, and returns how many fetches had begun before. There is one fetch at a
// time; a caller that needs its result waits for it or for the end of ctx.
func (j *JWKS) refresh(ctx context.Context, due func(now time.Time) (fetch, wait bool)) (before uint64) {
	j.mu.Lock()
	before = j.fetchCount
	fetch, wait := due(j.cfg.Now())
	if fetch && j.fetching == nil && j.ctx.Err() == nil {
		j.fetching = make(chan struct{})
		j.lastFetch = j.cfg.Now()
		j.fetchCount++
		j.fetches.Add(1)
		go j.fetch(j.fetchCount) //nolint:contextcheck // it serves others too, and outlives the request that began it
	}
	// A lookup that misses waits for a fetch that is under way, whoever began it.
	done := j.fetching
	j.mu.Unlock()
	if wait && done != nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	return before
}

func (j *JWKS) fetch(number uint64) {
	defer j.fetches.Done()
	set, err := j.get()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err = err; err == nil {
		set.fetch = number
		j.set = set
	}
	close(j.fetching)
	j.fetching = nil
}

func (j *JWKS) get() (*jwksSet, error) {
	ctx, cancel := context.WithTimeout(j.ctx, jwksTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, j.cfg.URL, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := j.client.Do(req)
	if err != nil {
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err // without the URL, whose query may be a credential
		}
		return nil, fmt.Errorf("fetching keys: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost with the end of a read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching keys: status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, jwksMaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("fetching keys: %w", err)
	}
	if len(text) > jwksMaxBytes {
		return nil, errors.New("fetching keys: the set is larger than 1 MiB")
	}
	public, err := parseJWKS(text)
	if err != nil {
		return nil, fmt.Errorf("fetching keys: %w", err)
	}
	return j.newSet(public, cacheAge(resp.Header)), nil
}

func (j *JWKS) newSet(public []JSONWebKey, age time.Duration) *jwksSet {
	var keys []Key
	for _, p := range public {
		if k, ok := p.signatureKey(); ok {
			k.Principal = j.cfg.Principal
			keys = append(keys, k)
		}
	}
	now := j.cfg.Now()
	return &jwksSet{public: public, keys: newStaticSet(keys), fetched: now, expires: now.Add(age)}
}

// cacheAge reads how long the set is fresh (RFC 9111 section 5.2.2), within our bounds.
func cacheAge(h http.Header) time.Duration {
	age := jwksAge
	for _, d := range strings.Split(strings.ToLower(strings.Join(h.Values("Cache-Control"), ",")), ",") {
		name, value, _ := strings.Cut(TrimOWS(d), "=")
		switch name {
		case "no-store", "no-cache":
			return jwksMinAge
		case "max-age":
			if s, err := strconv.ParseInt(strings.Trim(value, `"`), 10, 32); err == nil {
				age = time.Duration(s) * time.Second
			}
		}
	}
	return min(max(age, jwksMinAge), jwksMaxAge)
}
