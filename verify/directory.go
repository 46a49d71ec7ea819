package verify

import (
	"cmp"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
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
	// Field is the field that names the agent, in place of Signature-Agent, such as "UCP-Agent".
	// Member is the member of the Dictionary in it, such as "profile"; without Member the field
	// is the URL, as a String or as it is. The signature must cover the field or the member. URLs
	// are then complete, and each is the address of a JSON Web Key Set, or of a JSON object with
	// the member "signing_keys". No tag is required.
	Field, Member string
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
// 8037), whatever the directory calls it; in a key set at another URL than the well-known one also
// by its kid. The principal is the directory: its origin, or its complete URL. The type jwks_uri of
// a member means a complete URL. Directories are fetched and kept as by [JWKS], but over https
// only, without redirects, and with at most 100 keys; at the well-known path the media type must
// be application/http-message-signatures-directory+json. Signatures of the directory itself are
// not needed, because Eyelet fetches it over TLS (appendix B.1), and are ignored.
//
// Do not combine it with other sets by [JoinKeys]: without a directory no key is found.
type Directories struct {
	legacy bool
	field  string           // in lower case
	member string           // of a field other than Signature-Agent; "" is all of it
	sets   map[string]*JWKS // by the result of identifier
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
	d.field, d.member = cmp.Or(strings.ToLower(cfg.Field), agentField), cfg.Member
	errs := d.check()
	errs.addIf(len(cfg.URLs) == 0, "no directory is listed")
	for i, text := range cfg.URLs {
		agent, err := d.identifier(text)
		if err != nil { // not quoted: it may hold a credential
			errs.addIf(true, "directory %d: %w", i+1, err)
			continue
		}
		errs.addIf(d.sets[agent] != nil, "directory %d: %s is listed twice", i+1, agent)
		kind := keySetKind{accept: jwksType, parse: parseAgentKeys}
		address := agent
		if strings.Count(agent, "/") == len("//") { // an origin
			address = agent + directoryPath
			kind = keySetKind{accept: directoryType, mediaType: directoryType, parse: parseDirectory}
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

// check reports errors of the field and its member.
func (d *Directories) check() (errs errorList) {
	wrong := checkName(d.field) != nil || d.field[0] == '@'
	errs.addIf(wrong, "a signature cannot cover the field %q", d.field)
	key := &sfScanner{s: d.member}
	_, ok := key.key()
	errs.addIf(d.member != "" && (!ok || !key.end()), "%q is not a key of a dictionary", d.member)
	errs.addIf(d.member != "" && d.field == agentField, "the member of Signature-Agent is that of the label")
	errs.addIf(d.legacy && d.field != agentField, "only Signature-Agent has a form of the first drafts")
	return errs
}

// identifier returns the identifier of a directory: its complete URL, and for Signature-Agent that
// of parseAgent.
func (d *Directories) identifier(text string) (string, error) {
	if d.field == agentField {
		return parseAgent(text)
	}
	u, err := parseKeyURL(text)
	if err != nil {
		return "", err
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String(), nil
}

// parseAgent returns the identifier of a directory: its URL in normal form, without the well-known
// path. Drafts before -01 and deployed agents name the directory by its origin, which is therefore
// the identifier for both. A URL with a query has no identifier here, although the draft would drop
// the query: only listed URLs are fetched, and they have none.
func parseAgent(text string) (string, error) {
	u, err := parseKeyURL(text)
	if err != nil {
		return "", err
	}
	if u.RawQuery != "" || u.ForceQuery {
		return "", errors.New("the URL must not have a query")
	}
	path := u.EscapedPath()
	if path == "/" || path == directoryPath {
		path = ""
	}
	return "https://" + u.Host + path, nil
}

// parseKeyURL parses the URL of published keys and returns its normal form (RFC 3986 section
// 6.2.3).
func parseKeyURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" || u.Opaque != "":
		return nil, errors.New("not an https URL")
	case u.User != nil || strings.Contains(text, "#"):
		return nil, errors.New("the URL must not have a user or fragment")
	}
	host := authority(u.Scheme, u.Host)
	if !isAuthority(host) || u.Hostname() == "" {
		return nil, errors.New("the URL needs a host")
	}
	u = (&url.URL{}).ResolveReference(u) // without dot segments
	u.Host = host
	return u, nil
}

// directories returns the keys if they are those of directories, else nil.
func (s *RFC9421) directories() *Directories {
	d, _ := s.Keys.(*Directories)
	return d
}

func (s *RFC9421) tag() string {
	if d := s.directories(); s.Tag == "" && d != nil && d.field == agentField {
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
	named, refusal := d.agentOf(&v.m, in)
	if refusal == nil {
		agent, err := d.identifier(named.url)
		if err == nil {
			if named.complete && strings.Count(agent, "/") == len("//") {
				agent += "/" // not the directory of the origin
			}
			return agent, nil
		}
		refusal = malformed(d.field, err.Error())
	}
	refusal.KeyID = in.keyID
	return "", refusal
}

// namedAgent is how a request names an agent.
type namedAgent struct {
	url      string
	complete bool // of the type jwks_uri: the URL is not an origin
}

// agentOf returns the agent that a signature covers.
func (d *Directories) agentOf(m *message, in *signatureInput) (named namedAgent, refusal *Error) {
	field := TrimOWS(joinLines(m.lines(d.field)))
	if len(field) > maxStructured {
		return named, overLimit(d.field, "larger than 8 KiB")
	}
	if d.field != agentField {
		return d.agentIn(field, m, in)
	}
	if d.legacy && strings.HasPrefix(field, `"`) {
		if text, ok := readString(field); ok && in.covers(agentField) {
			return namedAgent{url: text}, nil
		}
	} else if members, _ := parseDictionary(nil, field, maxLabels); members != nil {
		if member := findMember(members, in.agentMember()); member != nil {
			if named, ok := member.agent(); ok {
				return named, nil
			}
		}
	}
	return named, &Error{Code: InsufficientCoverage, Component: agentField,
		Err: Public("the signature must cover the member that names its directory, a string without parameters")}
}

// agentIn returns the agent in a field other than Signature-Agent, of one line.
func (d *Directories) agentIn(field string, m *message, in *signatureInput) (named namedAgent, refusal *Error) {
	if err := checkOneLine(d.field, m.lines(d.field)); err != nil {
		return named, err
	}
	covered, ok := in.covers(d.field), false
	switch {
	case d.member != "":
		covered = covered || slices.ContainsFunc(in.components, func(c component) bool {
			return c.name == d.field && c.keyed && c.key == d.member
		})
		members, _ := parseDictionary(nil, field, maxLabels)
		if member := findMember(members, d.member); member != nil {
			named.url, ok = member.item.str()
		}
	case strings.HasPrefix(field, `"`):
		named.url, ok = readString(field)
	default:
		named.url, ok = field, field != ""
	}
	switch {
	case !covered:
		return named, uncovered(d.field)
	case !ok:
		return named, malformed(d.field, "it does not name the agent")
	}
	return named, nil
}

// agent returns the URL of a member of Signature-Agent (section 5.5). One with parameters that are
// not known is to be ignored.
func (m *sfMember) agent() (named namedAgent, ok bool) {
	named.url, ok = m.item.str()
	switch strings.TrimPrefix(canonical(m.value), m.item.text) {
	case "", ";type=directory":
	case ";type=jwks_uri":
		named.complete = true
	default:
		ok = false
	}
	return named, ok
}

// readString reads a String without parameters (RFC 9651 section 3.3.3).
func readString(field string) (string, bool) {
	p := sfScanner{s: field}
	item, _ := p.bareItem()
	text, ok := item.str()
	return text, ok && p.end()
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

// component returns what a signature with this label should cover to name its agent.
func (d *Directories) component(label string) string {
	if d.field != agentField {
		return quote(d.field)
	}
	return quote(agentField) + ";key=" + quote(label)
}

// naming returns a value of the field that names the first agent of the list.
func (d *Directories) naming(label string) string {
	agent := quote(slices.Min(slices.Collect(maps.Keys(d.sets))))
	switch {
	case d.field == agentField:
		return label + "=" + agent
	case d.member != "":
		return d.member + "=" + agent
	}
	return agent
}

// parseDirectory reads the keys of a directory, whose ids are their thumbprints.
func parseDirectory(text []byte) ([]JSONWebKey, []Key, error) {
	return parseDirectoryKeys(keysIn(text, "keys"), false, "not a JSON Web Key Set")
}

// parseAgentKeys reads a JSON Web Key Set whose keys are found by their kid too (section 5.5), or a
// profile of the Universal Commerce Protocol, which before its member "keys" had "signing_keys".
func parseAgentKeys(text []byte) ([]JSONWebKey, []Key, error) {
	const none = "neither a JSON Web Key Set nor a profile with signing_keys"
	return parseDirectoryKeys(keysIn(text, "keys", "signing_keys"), true, none)
}

// parseDirectoryKeys skips what is not a public key for signatures. Without a list it returns none
// as the error.
func parseDirectoryKeys(list []json.RawMessage, byKid bool, none string) (_ []JSONWebKey, keys []Key, err error) {
	if list == nil {
		return nil, nil, errors.New(none)
	}
	if len(list) > maxDirectoryKeys {
		return nil, nil, fmt.Errorf("more than %d keys", maxDirectoryKeys)
	}
	for _, one := range list {
		k, kid, err := parseDirectoryKey(one)
		if err != nil {
			continue
		}
		keys = append(keys, k)
		if byKid && kid != "" && kid != k.ID {
			k.ID = kid
			keys = append(keys, k)
		}
	}
	return nil, keys, nil
}

// parseDirectoryKey reads one key, and its kid. Its alg is a name of the HTTP Signature Algorithms
// registry (section 5.5.1), which package jwk does not know, or of JOSE, as deployed directories
// have it.
func parseDirectoryKey(text []byte) (key Key, kid string, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return Key{}, "", err
	}
	var named string
	if raw, ok := members["alg"]; ok {
		if err := json.Unmarshal(raw, &named); err != nil {
			return Key{}, "", err
		}
		delete(members, "alg")
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return Key{}, "", err
	}
	k, err := parseJWK(rest)
	if err != nil {
		return Key{}, "", err
	}
	id, err := thumbprint(k.Public)
	if err != nil {
		return Key{}, "", err
	}
	key, err = newPublicKey(id, cmp.Or(joseAlgs[named], Alg(named)), k.Public)
	return key, k.ID, err
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
