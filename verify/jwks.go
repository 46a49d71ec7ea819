package verify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
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
	jwksStale    = 24 * time.Hour   // how long keys stay in use while fetches fail
	jwksPause    = 30 * time.Second // between fetches caused by unknown key ids or failures
)

// JWKSConfig describes the key set that a producer publishes at a URL.
type JWKSConfig struct {
	// URL is the address of the JSON Web Key Set (RFC 7517 section 5): https, or http on a
	// loopback address. Required.
	URL string
	// Client fetches the set. Its timeout is replaced (5 seconds), and its redirects must stay
	// at the same origin. Defaults to a new client.
	Client    *http.Client
	Principal string           // the identity that the keys prove; empty is the producer itself
	Now       func() time.Time // the clock; defaults to time.Now
	// Purposes are members that a key for HTTP signatures must have, each with one of these values
	// or a list with one of them, such as {"key_ops": {"verify"}}. Other keys are skipped. Defaults
	// to none: a key is skipped if it has a use (RFC 7517 section 4.2) other than "sig", or key_ops
	// (section 4.3) without "verify".
	Purposes map[string][]string
	// Revoked is the address of the list of revoked keys that the producer publishes and signs with
	// a key of the set, as the Ad Context Protocol has it: https, or http on a loopback address. A
	// key on the list is unknown. Without a list that is up to date all keys are unavailable.
	// Defaults to none.
	Revoked string
}

// JWKS is a [KeySet] that is fetched from a URL.
//
// The set is fetched at its first use and again when it expires: after a minute to an hour, as
// Cache-Control says. In the last quarter of that time it is fetched in the background. A fetch
// replaces the set, which drops removed keys. While fetches fail, the last set stays in use for
// up to 24 hours. Symmetric keys, and for signatures keys that were published for tests (see
// [IsTestKey]), are never taken from a URL.
//
// A kid that is not in the set causes a fetch at most every 30 seconds. It is key_unknown only
// if a fetch began after the lookup. If none was allowed, it is keys_unavailable with the rest
// of the pause as RetryAfter: unknown kids of other senders never cause the final refusal of a
// key that was just published.
type JWKS struct {
	cfg     JWKSConfig
	kind    keySetKind
	client  *http.Client
	revoked *JWKS // the list of revoked keys; nil if there is none
	ctx     context.Context
	cancel  context.CancelFunc
	fetches sync.WaitGroup

	mu         sync.Mutex
	set        *jwksSet
	fetching   chan struct{} // closed when the current fetch ends; nil while there is none
	lastFetch  time.Time     // when it began
	fetchCount uint64        // of fetches that have begun
	err        error         // of the last fetch
}

// jwksType are the media types of key sets that are asked for.
const jwksType = "application/jwk-set+json, application/json"

// keySetKind is what published key sets of one kind have in common.
type keySetKind struct {
	accept    string
	mediaType string // of responses; "" is any
	parse     func(text []byte) ([]JSONWebKey, []Key, error)
	list      func(text []byte, now time.Time) (*jwksSet, error) // of revoked keys, in place of parse
}

type jwksSet struct {
	public  staticTokenKeys
	keys    *staticSet
	fetch   uint64 // the number of the fetch, from 1
	fetched time.Time
	expires time.Time
	stale   time.Time       // not used afterwards
	revoked map[string]bool // ids of a list of revoked keys
	text    []byte          // as it was fetched
}

// NewJWKS returns the set at cfg.URL. It does not fetch yet.
func NewJWKS(cfg JWKSConfig) (*JWKS, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("the JWKS URL cannot be parsed") // not quoted: it may hold a credential
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
	client.CheckRedirect = sameOrigin
	parse := func(text []byte) ([]JSONWebKey, []Key, error) { return parseJWKS(text, cfg.Purposes) }
	j := newJWKS(cfg, keySetKind{accept: jwksType, parse: parse}, client)
	if cfg.Revoked != "" {
		if u, err = url.Parse(cfg.Revoked); err != nil {
			return nil, errors.New("the URL of revoked keys cannot be parsed")
		}
		if err := checkKeyURL(u); err != nil {
			return nil, fmt.Errorf("revoked keys: %w", err)
		}
		origin := u.Scheme + "://" + u.Host
		j.revoked = newJWKS(JWKSConfig{URL: cfg.Revoked, Client: cfg.Client, Now: cfg.Now}, keySetKind{
			accept: "application/jose+json, application/json",
			list: func(text []byte, now time.Time) (*jwksSet, error) {
				return parseRevoked(j.ctx, text, origin, j, now)
			},
		}, client)
	}
	return j, nil
}

func newJWKS(cfg JWKSConfig, kind keySetKind, client *http.Client) *JWKS {
	client.Timeout = jwksTimeout
	ctx, cancel := context.WithCancel(context.Background())
	return &JWKS{cfg: cfg, kind: kind, client: client, ctx: ctx, cancel: cancel}
}

// Close cancels a fetch in flight and waits for it. No fetch starts afterwards.
func (j *JWKS) Close() error {
	if j.revoked != nil {
		_ = j.revoked.Close() // always nil
	}
	j.cancel()
	j.fetches.Wait()
	if j.cfg.Client == nil {
		j.client.CloseIdleConnections()
	}
	return nil
}

// checkKeyURL refuses addresses whose keys would be unauthenticated.
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
	if j.revoked != nil && id != "" {
		found, err := lookup(ctx, j.revoked, id, func(s *jwksSet) ([]bool, error) { return []bool{s.revoked[id]}, nil })
		if err != nil {
			return nil, err
		}
		if found[0] {
			return nil, &Error{Code: KeyUnknown, KeyID: id, Err: reason("the key is revoked")}
		}
	}
	return lookup(ctx, j, id, func(s *jwksSet) ([]Key, error) { return s.keys.Key(ctx, id) })
}

// PublicKeys returns the public keys with this kid, or all for "", whatever their use. Its
// errors are those of [JWKS.Key]. It is for verifiers of tokens, whose algorithms differ from
// those of HTTP signatures.
func (j *JWKS) PublicKeys(ctx context.Context, kid string) ([]JSONWebKey, error) {
	return lookup(ctx, j, kid, func(s *jwksSet) ([]JSONWebKey, error) { return s.public.PublicKeys(ctx, kid) })
}

// lookup passes the current set to find. It fetches first if it must, and once more if find fails
// and a fetch is due. Only a set whose fetch began after the call proves that a key does not exist.
func lookup[K any](ctx context.Context, j *JWKS, id string, find func(*jwksSet) ([]K, error)) ([]K, error) {
	before := j.refresh(ctx, j.due)
	if set, _ := j.current(); set != nil {
		if found, err := find(set); err == nil {
			return found, nil
		}
	}
	j.refresh(ctx, func(now time.Time) (bool, bool) {
		return j.fetchCount == before && now.Sub(j.lastFetch) >= jwksPause, true // none has begun since
	})
	set, err := j.current()
	if set != nil {
		if found, missing := find(set); missing == nil {
			return found, nil
		} else if err == nil && set.fetch > before {
			return nil, &Error{Code: KeyUnknown, KeyID: id}
		}
	}
	return nil, &Error{Code: KeysUnavailable, KeyID: id, RetryAfter: j.retryAfter(), Err: err}
}

// current returns the set if it is still usable, and the error of the last fetch.
func (j *JWKS) current() (*jwksSet, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.set == nil || j.cfg.Now().After(j.set.stale) {
		return nil, j.err
	}
	return j.set, j.err
}

// due reports whether to fetch the set and whether to wait for it. The caller holds the lock.
func (j *JWKS) due(now time.Time) (fetch, wait bool) {
	if j.err != nil && now.Sub(j.lastFetch) < jwksPause {
		return false, false // the last fetch just failed: use the set as it is
	}
	if j.set == nil || now.After(j.set.expires) {
		return true, true
	}
	quarter := j.set.expires.Sub(j.set.fetched) / 4
	return now.After(j.set.expires.Add(-quarter)) && now.Sub(j.lastFetch) >= jwksPause, false
}

// retryAfter returns the rest of the pause between fetches, at least a second.
func (j *JWKS) retryAfter() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return max(jwksPause-j.cfg.Now().Sub(j.lastFetch), time.Second)
}

// refresh fetches the set if due says so, and returns how many fetches had begun before.
// Fetches do not overlap; a caller that needs the result waits for it or for the end of ctx, after
// which none begins.
func (j *JWKS) refresh(ctx context.Context, due func(now time.Time) (fetch, wait bool)) (before uint64) {
	j.mu.Lock()
	before = j.fetchCount
	fetch, wait := due(j.cfg.Now())
	if fetch && j.fetching == nil && j.ctx.Err() == nil && ctx.Err() == nil {
		j.fetching = make(chan struct{})
		j.lastFetch = j.cfg.Now()
		j.fetchCount++
		j.fetches.Add(1)
		go j.fetch(j.fetchCount) //nolint:contextcheck // shared with other requests, so it outlives this one
	}
	// A miss also waits for a fetch that another lookup began.
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
	if j.err = nil; err != nil {
		j.err = fmt.Errorf("fetching keys: %w", err)
	} else {
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
	req.Header.Set("Accept", j.kind.accept)
	resp, err := j.client.Do(req)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the URL, whose query may hold a credential
		}
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	if want := j.kind.mediaType; want != "" {
		if got, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || got != want {
			return nil, fmt.Errorf("the media type is not %s", want)
		}
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, jwksMaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > jwksMaxBytes {
		return nil, errors.New("the set is larger than 1 MiB")
	}
	now := j.cfg.Now()
	if j.kind.list != nil {
		return j.kind.list(text, now)
	}
	public, keys, err := j.kind.parse(text)
	if err != nil {
		return nil, err
	}
	keys = slices.DeleteFunc(keys, IsTestKey)
	for i := range keys {
		keys[i].Principal = j.cfg.Principal
	}
	return &jwksSet{
		public: public, keys: newStaticSet(keys), text: text,
		fetched: now, expires: now.Add(cacheAge(resp.Header)), stale: now.Add(jwksStale),
	}, nil
}

// Bounds of the time until a list of revoked keys is fetched again.
const (
	revokedMin   = time.Minute
	revokedMax   = 30 * time.Minute
	revokedGrace = 4 // such times after its next update a list is not used
)

// parseRevoked reads a list of revoked keys: a JWS, in JSON with one signature or compact (RFC 7515
// section 7), signed with a key of the producer.
func parseRevoked(ctx context.Context, text []byte, issuer string, keys TokenKeySet, now time.Time) (*jwksSet, error) {
	type signature struct{ Protected, Signature string }
	var sent struct {
		Payload string
		signature
		Signatures []signature
	}
	compact := bytes.TrimSpace(text)
	if json.Unmarshal(compact, &sent) == nil {
		if len(sent.Signatures) > 0 {
			sent.signature = sent.Signatures[0]
		}
		compact = []byte(sent.Protected + "." + sent.Payload + "." + sent.Signature)
	}
	t, err := parseToken(compact)
	if err != nil {
		return nil, fmt.Errorf("revoked keys: %w", err)
	}
	by := &JWT{Keys: keys, Algorithms: []string{"EdDSA", "ES256"}}
	if err := by.checkSignature(ctx, "", t); err != nil {
		return nil, fmt.Errorf("revoked keys: %w", err)
	}
	var list struct {
		Issuer     string
		Updated    time.Time
		NextUpdate time.Time `json:"next_update"`
		Kids       []string  `json:"revoked_kids"`
	}
	kind, _ := t.header.Text("typ")
	err = json.Unmarshal(t.payload, &list)
	if err != nil || kind != "adcp-gov-revocation+jws" || list.Issuer != issuer {
		return nil, fmt.Errorf("revoked keys: not a list of %s", issuer)
	}
	pause := min(max(list.NextUpdate.Sub(list.Updated), revokedMin), revokedMax)
	next := list.NextUpdate
	if most := now.Add(revokedMax); next.After(most) {
		next = most
	}
	set := &jwksSet{fetched: now, stale: next.Add(revokedGrace * pause), revoked: map[string]bool{}}
	if now.After(set.stale) {
		return nil, errors.New("revoked keys: the list is out of date")
	}
	for _, kid := range list.Kids {
		set.revoked[kid] = true
	}
	set.expires = now.Add(max(next.Sub(now), revokedMin))
	return set, nil
}

// withheld calls use with each key of a set, fetched before, that has the id and does not verify
// signatures, and with the reason.
func withheld(set KeySet, id string, use func(Mistake, string, Key)) {
	switch set := set.(type) {
	case joinedSet:
		for _, one := range set {
			withheld(one, id, use)
		}
	case *Directories:
		for _, one := range set.sets {
			one.withheld(id, use)
		}
	case *JWKS:
		set.withheld(id, use)
	}
}

func (j *JWKS) withheld(id string, use func(Mistake, string, Key)) {
	set, _ := j.current()
	if set == nil {
		return
	}
	if j.revoked != nil {
		if list, _ := j.revoked.current(); list != nil && list.revoked[id] {
			for _, k := range set.keys.byID[id] {
				use(KeyRevoked, fmt.Sprintf("key %q", truncate(id)), k)
			}
		}
	}
	purposes := slices.AppendSeq([]string{"key_ops", "use"}, maps.Keys(j.cfg.Purposes))
	slices.Sort(purposes)
	purposes = slices.Compact(purposes)
	var shape map[string][]map[string]json.RawMessage
	_ = json.Unmarshal(set.text, &shape) // other members are skipped
	for _, members := range slices.Concat(shape["keys"], shape["signing_keys"]) {
		why := fmt.Sprintf("key %q", truncate(id))
		for _, name := range purposes {
			if value, ok := members[name]; ok || j.cfg.Purposes[name] != nil {
				why += ", " + name + " " + cmp.Or(truncate(string(value)), "missing")
			}
			delete(members, name)
		}
		text, _ := json.Marshal(members)
		k, kid, err := parseDirectoryKey(text)
		used := func(o Key) bool { return o.Fingerprint() == k.Fingerprint() }
		if err == nil && (kid == id || k.ID == id) && !slices.ContainsFunc(set.keys.byID[id], used) {
			use(KeyPurpose, why, k)
		}
	}
}

// cacheAge returns how long the set is fresh (RFC 9111 section 5.2.2), within our bounds.
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
