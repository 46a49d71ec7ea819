package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/publicnet"
	"github.com/lestrrat-go/jwx/v3/jwk"
)

// The sections in this file are those of draft-ietf-webbotauth-httpsig-protocol-01 of 2026-10-29
// (read on 2026-11-23 in the working group's repository, commit 5a71ee1).
const (
	agentField       = "signature-agent"
	agentTag         = "web-bot-auth" // of signatures (section 5.2)
	directoryPath    = "/.well-known/http-message-signatures-directory"
	directoryType    = "application/http-message-signatures-directory+json"
	maxDirectoryKeys = 100
)

// DirectoriesConfig lists the directories whose keys are trusted.
type DirectoriesConfig struct {
	// URLs are the directories. An origin such as "https://bot.example" means the directory
	// at its well-known path; any other path is the address of a JSON Web Key Set. Required.
	URLs []string
	// LegacyAgent also accepts a Signature-Agent that is one String, as deployed agents send it
	// (section 5.2.1). The signature must cover the whole field.
	LegacyAgent bool
	// Client fetches the directories. Its timeout is replaced (5 seconds), and it follows no
	// redirects. Defaults to one that uses no proxy and connects only to public addresses; the
	// addresses that another one may reach are its own matter.
	Client *http.Client
	Now    func() time.Time // the clock; defaults to time.Now
}

// Directories is a [KeySet] of the keys that agents publish themselves
// (draft-ietf-webbotauth-httpsig-protocol-01, "web bot auth"). As [RFC9421.Keys] it makes every
// signature cover the member of Signature-Agent that names the agent's directory, with the tag
// "web-bot-auth" unless [RFC9421.Tag] is another one. Only listed directories are fetched, and
// only for a signature that covers what it must.
//
// A key is found by its directory and the parameter keyid, its JWK thumbprint (RFC 7638, RFC
// 8037), whatever the directory calls it. The principal is the directory: its origin, or its URL
// without the well-known path. Directories are fetched and kept as by [JWKS], but over https
// only, without redirects, and with at most 100 keys; at the well-known path the media type must
// be application/http-message-signatures-directory+json. Signatures of the directory itself are
// not needed, because Eyelet fetches it over TLS (appendix B.1), and are ignored.
//
// Do not combine it with other sets by [JoinKeys]: without a directory no key is found.
type Directories struct {
	legacy bool
	sets   map[string]*JWKS // by the result of parseAgent
}

// NewDirectories returns the keys of the listed directories, or all errors of the list. It does
// not fetch yet.
func NewDirectories(cfg DirectoriesConfig) (*Directories, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	client := &http.Client{Transport: publicnet.Transport()}
	if cfg.Client != nil {
		*client = *cfg.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	d := &Directories{legacy: cfg.LegacyAgent, sets: map[string]*JWKS{}}
	var errs errorList
	errs.addIf(len(cfg.URLs) == 0, "no directory is listed")
	for i, text := range cfg.URLs {
		agent, err := parseAgent(text)
		if err != nil { // not quoted: it may hold a credential
			errs.addIf(true, "directory %d: %w", i+1, err)
			continue
		}
		errs.addIf(d.sets[agent] != nil, "directory %d: %s is listed twice", i+1, agent)
		kind := keySetKind{accept: directoryType + ", application/jwk-set+json", parse: parseDirectory}
		address := agent
		if strings.Count(agent, "/") == len("//") { // an origin
			address, kind.mediaType = agent+directoryPath, directoryType
		}
		d.sets[agent] = newJWKS(JWKSConfig{URL: address, Principal: agent, Now: cfg.Now}, kind, client)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return d, nil
}

// Close cancels the fetches in flight and waits for them. No fetch starts afterwards.
func (d *Directories) Close() error {
	for _, set := range d.sets {
		_ = set.Close() // always nil
	}
	return nil
}

// Key implements [KeySet]. Every id is key_unknown: a key is never found by its id alone, which
// would let one agent sign for another (section 5.4).
func (d *Directories) Key(_ context.Context, id string) ([]Key, error) {
	return nil, &Error{Code: KeyUnknown, KeyID: id, Err: reason("no directory is named")}
}

// fetched returns the keys of one directory, without fetching it.
func (d *Directories) fetched() []Key {
	for _, set := range d.sets {
		if current, _ := set.current(); current != nil && len(current.keys.all) > 0 {
			return current.keys.all
		}
	}
	return nil
}

// parseAgent returns the identifier of a directory: its URL in normal form (RFC 3986 section
// 6.2.3), without the well-known path. Drafts before -01 and deployed agents name the directory by
// its origin, which is therefore the identifier for both. A URL with a query has no identifier
// here, although the draft would drop the query: only listed URLs are fetched, and they have none.
func parseAgent(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" || u.Opaque != "":
		return "", errors.New("not an https URL")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return "", errors.New("the URL must not have a user, query or fragment")
	}
	host := authority(u.Scheme, u.Host)
	if !isAuthority(host) || u.Hostname() == "" {
		return "", errors.New("the URL needs a host")
	}
	path := (&url.URL{}).ResolveReference(u).EscapedPath() // without dot segments
	if path == "/" || path == directoryPath {
		path = ""
	}
	return "https://" + host + path, nil
}

// directories returns the keys if they are those of directories, else nil.
func (s *RFC9421) directories() *Directories {
	d, _ := s.Keys.(*Directories)
	return d
}

func (s *RFC9421) tag() string {
	if s.Tag == "" && s.directories() != nil {
		return agentTag
	}
	return s.Tag
}

// algs returns the accepted algorithms. Agents have no shared secrets (section 6.4).
func (s *RFC9421) algs() []Alg {
	if s.directories() != nil {
		return orDefault(s.Algs, publicAlgs...)
	}
	return orDefault(s.Algs, defaultAlgs...)
}

// lookup returns the keys with the signature's id: of the agent's directory if there is one. It
// asks only listed directories, and at most two for one request, because each may have to be
// fetched.
func (v *verification) lookup(ctx context.Context, in *signatureInput, agent string) ([]Key, error) {
	if agent == "" {
		return v.scheme.Keys.Key(ctx, in.keyID)
	}
	set := v.scheme.directories().sets[agent]
	if set == nil {
		err := fmt.Errorf("the directory %q is not listed", truncate(agent))
		return nil, &Error{Code: KeyUnknown, KeyID: in.keyID, Err: err}
	}
	if v.asked++; v.asked > maxVerified {
		return nil, &Error{Code: KeyUnknown, KeyID: in.keyID, Err: reason("too many directories to ask")}
	}
	keys, err := set.Key(ctx, in.keyID)
	if refusal, ok := errors.AsType[*Error](err); ok {
		refusal.Err = fmt.Errorf("directory %s: %w", agent, cmp.Or(refusal.Err, error(reason("it has no such key"))))
	}
	return keys, err
}

// known returns keys of the set; of directories those that need no fetch. It returns none if they
// are not available.
func (v *verification) known(ctx context.Context) []Key {
	if d := v.scheme.directories(); d != nil {
		return d.fetched()
	}
	all, _ := v.scheme.Keys.Key(ctx, "")
	return all
}

// agent returns the directory that a signature names, or "" if the keys are not those of
// directories.
func (v *verification) agent(in *signatureInput) (string, *Error) {
	d := v.scheme.directories()
	if d == nil {
		return "", nil
	}
	text, refusal := d.agentOf(&v.m, in)
	if refusal == nil {
		agent, err := parseAgent(text)
		if err == nil {
			return agent, nil
		}
		refusal = malformed(agentField, err.Error())
	}
	refusal.KeyID = in.keyID
	return "", refusal
}

// agentOf returns the String in Signature-Agent that a signature covers (section 5.2.1).
func (d *Directories) agentOf(m *message, in *signatureInput) (string, *Error) {
	field := TrimOWS(joinLines(m.lines(agentField)))
	if len(field) > maxStructured {
		return "", overLimit(agentField, "larger than 8 KiB")
	}
	var text string
	var ok bool
	if d.legacy && strings.HasPrefix(field, `"`) {
		p := sfScanner{s: field}
		item, _ := p.bareItem()
		text, ok = item.str()
		ok = ok && p.end() && in.covers(agentField)
	} else if members, _ := parseDictionary(nil, field, maxLabels); members != nil {
		if member := findMember(members, in.agentMember()); member != nil {
			text, ok = member.item.str()
			ok = ok && member.value == member.item.text // a member with parameters is to be ignored
		}
	}
	if !ok {
		return "", &Error{Code: InsufficientCoverage, Component: agentField,
			Err: Public("the signature must cover the member that names its directory, a string without parameters")}
	}
	return text, nil
}

// agentMember returns the key of the member of Signature-Agent that names the agent of the
// signature, or "". It is the covered one with the signature's label. An intermediary may have
// changed the label (section 6.6.1), so without it a single covered member counts.
func (in *signatureInput) agentMember() string {
	key, n := "", 0
	for i := range in.components {
		c := &in.components[i]
		switch {
		case c.name != agentField || !c.keyed:
		case c.key == in.label:
			return c.key
		default:
			key, n = c.key, n+1
		}
	}
	if n > 1 {
		return ""
	}
	return key
}

// parseDirectory reads the keys of a directory, whose ids are their thumbprints. It skips what
// is not a public key for signatures.
func parseDirectory(text []byte) ([]JSONWebKey, []Key, error) {
	var shape jwkSet
	if err := json.Unmarshal(text, &shape); err != nil || shape.Keys == nil {
		return nil, nil, errors.New("not a JSON Web Key Set")
	}
	if len(*shape.Keys) > maxDirectoryKeys {
		return nil, nil, fmt.Errorf("more than %d keys", maxDirectoryKeys)
	}
	var keys []Key
	for _, one := range *shape.Keys {
		if k, err := parseDirectoryKey(one); err == nil {
			keys = append(keys, k)
		}
	}
	return nil, keys, nil
}

// parseDirectoryKey reads one key. Its alg is a name of the HTTP Signature Algorithms registry
// (section 5.5.1), which package jwk does not know, or of JOSE, as deployed directories have it.
func parseDirectoryKey(text []byte) (Key, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return Key{}, err
	}
	var named string
	if raw, ok := members["alg"]; ok {
		if err := json.Unmarshal(raw, &named); err != nil {
			return Key{}, err
		}
		delete(members, "alg")
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return Key{}, err
	}
	raw, err := jwk.ParseKey(bytes.TrimSpace(rest))
	if err != nil {
		return Key{}, err
	}
	k, err := fromJWK(raw)
	if err != nil {
		return Key{}, err
	}
	id, err := thumbprint(k.Public)
	if err != nil {
		return Key{}, err
	}
	return newPublicKey(id, cmp.Or(joseAlgs[named], Alg(named)), k.Public)
}

// thumbprint returns the JWK thumbprint of a public key (RFC 7638 section 3, RFC 8037 appendix
// A.3): SHA-256 in base64url.
func thumbprint(public crypto.PublicKey) (string, error) {
	key, err := jwk.Import(public)
	if err != nil {
		return "", err
	}
	sum, err := key.Thumbprint(crypto.SHA256)
	return base64.RawURLEncoding.EncodeToString(sum), err
}
