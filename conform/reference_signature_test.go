package conform

import (
	"cmp"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The structured fields that RFC 9421 needs, as regular expressions.
const (
	bareItem = `(?:"(?:[ !#-\[\]-~]|\\["\\])*"|:[A-Za-z0-9+/=]*:|-?\d{1,15}(?:\.\d{1,3})?|\?[01]|` +
		`[A-Za-z*][\w!#$%&'*+.^|~:/-]*)`
	sfParams  = `(?:; *[a-z*][a-z0-9_.*-]*(?:=` + bareItem + `)?)*`
	innerList = `\( *(?:` + bareItem + sfParams + `(?: +` + bareItem + sfParams + `)*)? *\)`
	sfMember  = `([a-z*][a-z0-9_.*-]*)=(` + innerList + sfParams + `|` + bareItem + sfParams + `)`
)

var (
	sfDictionary = regexp.MustCompile(`^` + sfMember + `(?:[ \t]*,[ \t]*` + sfMember + `)*$`)
	sfMembers    = regexp.MustCompile(sfMember)
	sfInner      = regexp.MustCompile(`^(` + innerList + `)(` + sfParams + `)$`)
	sfComponents = regexp.MustCompile(`"([^"]*)"(` + sfParams + `)`)
	sfParam      = regexp.MustCompile(`; *([a-z*][a-z0-9_.*-]*)(?:=(` + bareItem + `))?`)
	integer      = regexp.MustCompile(`^-?\d+$`)
)

// dictionary parses a field. A repeated name is an error, unless the first one is to count.
func (s *reference) dictionary(lines []string) (map[string]string, error) {
	text := strings.Join(lines, ", ")
	if text == "" || !sfDictionary.MatchString(text) && !s.is("anything parses") {
		return nil, errors.New("not a dictionary")
	}
	all := map[string]string{}
	for _, m := range sfMembers.FindAllStringSubmatch(text, -1) {
		if all[m[1]] != "" {
			if s.is("the first label counts") {
				continue
			}
			return nil, errors.New("a label occurs twice")
		}
		all[m[1]] = m[2]
	}
	return all, nil
}

// octets returns those of a Byte Sequence.
func octets(text string) ([]byte, error) {
	if len(text) < 2 || text[0] != ':' || text[len(text)-1] != ':' {
		return nil, errors.New("not a Byte Sequence")
	}
	return base64.StdEncoding.DecodeString(text[1 : len(text)-1])
}

// signed verifies a request and returns its principal.
func (s *reference) signed(r *http.Request, raw []byte) (string, error) {
	header := r.Header.Clone()
	if s.is("trailers") {
		for name, lines := range r.Trailer {
			header[name] = lines
		}
	}
	if s.is("unsigned") && header.Get("Signature") == "" && header.Get("Signature-Input") == "" {
		return "main", nil
	}
	inputs, err := s.dictionary(header.Values("Signature-Input"))
	if err != nil {
		return "", err
	}
	signatures, err := s.dictionary(header.Values("Signature"))
	if err != nil {
		return "", err
	}
	if len(inputs) > 8 {
		if !s.is("tries every signature") {
			return "", errors.New("too many signatures")
		}
		time.Sleep(time.Duration(len(inputs)) * 15 * time.Millisecond)
	}
	var all error
	for label, input := range inputs {
		signature := signatures[label]
		if s.is("labels need not agree") {
			for _, one := range signatures {
				signature = one
			}
		}
		if s.is("sig1 alone") && label != "sig1" {
			continue
		}
		principal, err := s.verified(r, raw, input, signature)
		if err == nil && !s.is("all must be good") {
			return principal, s.digest(r, raw)
		}
		all = cmp.Or(all, err)
	}
	return "main", cmp.Or(all, s.needsOne(inputs), s.digest(r, raw))
}

// needsOne is an error unless all signatures of a sabotaged reference were good.
func (s *reference) needsOne(inputs map[string]string) error {
	if s.is("all must be good") && len(inputs) > 0 {
		return nil
	}
	return errors.New("no good signature")
}

// verified checks one signature, and what it covers.
func (s *reference) verified(r *http.Request, raw []byte, input, signature string) (string, error) {
	m := sfInner.FindStringSubmatch(input)
	if m == nil {
		return "", errors.New("not an inner list")
	}
	params := map[string]string{}
	for _, p := range sfParam.FindAllStringSubmatch(m[2], -1) {
		params[p[1]] = p[2]
	}
	key, principal, err := s.keyOf(params)
	if err != nil {
		return "", err
	}
	covered, base, err := s.base(r, m[1])
	if err != nil {
		return "", err
	}
	for _, c := range s.p.Signature.Components {
		switch {
		case slices.Contains(covered, c):
		case s.is("nothing is required"), s.is("an empty list") && len(covered) == 0:
		case s.is("digests need not be covered") && c == `"content-digest"`:
		case s.is("digests are optional") && c == `"content-digest"` && r.Header.Get("Content-Digest") == "":
		case s.is("keys need not be covered") && c == `"idempotency-key"`:
		case s.is("types need not be covered") && c == `"content-type"`:
		default:
			return "", errors.New("not covered: " + c)
		}
	}
	base += `"@signature-params": ` + input
	if strings.ContainsFunc(base, func(r rune) bool { return r > 126 }) && !s.is("octets above ASCII") {
		return "", errors.New("not ASCII")
	}
	octets, err := octets(signature)
	if err != nil && !s.is("anything parses") {
		return "", err
	}
	if s.is("anything parses") && err != nil {
		octets, _ = base64.StdEncoding.DecodeString(strings.Trim(signature, `"`))
	}
	if !key([]byte(base), octets) && !s.is("any secret") {
		return "", errors.New("a wrong signature")
	}
	return principal, s.checkParams(r, params)
}

type verifier func(base, signature []byte) bool

// keyOf returns the key that a signature names, and whose it is.
func (s *reference) keyOf(params map[string]string) (verify verifier, principal string, err error) {
	principal = "main"
	secret := s.p.Secret
	switch id := strings.Trim(params["keyid"], `"`); {
	case id == s.p.Signature.KeyID, s.is("any key"):
	case s.p.Old != nil && id == s.p.Old.KeyID && !s.is("no rotation"):
		secret = s.p.Old.Secret
	case s.p.Other != nil && id == s.p.Other.KeyID:
		secret, principal = s.p.Other.Secret, "other"
	default:
		return nil, "", errors.New("unknown key")
	}
	alg := strings.Trim(params["alg"], `"`)
	mac := func(key []byte) verifier {
		return func(base, signature []byte) bool {
			h := hmac.New(sha256.New, key)
			h.Write(base)
			sum := h.Sum(nil)
			if s.is("halves of signatures") {
				sum = sum[:min(len(sum), len(signature))]
			}
			return hmac.Equal(sum, signature)
		}
	}
	if s.is("a public key is a secret") && alg == "hmac-sha256" {
		return mac(s.public), principal, nil
	}
	isRight := alg == "" || alg == s.p.Signature.Alg
	if !isRight && !s.is("any alg") && (!s.is("unknown algs") || !strings.Contains(alg, "conform")) {
		return nil, "", errors.New("another algorithm")
	}
	if s.is("any key") && !strings.Contains(params["keyid"], s.p.Signature.KeyID+`"`) {
		return func([]byte, []byte) bool { return true }, principal, nil
	}
	if s.p.Signature.Alg == "hmac-sha256" {
		return mac([]byte(secret)), principal, nil
	}
	return func(base, signature []byte) bool { return ed25519.Verify(s.public, base, signature) }, principal, nil
}

// base returns the covered components and their lines of the signature base.
func (s *reference) base(r *http.Request, list string) (covered []string, base string, err error) {
	seen := map[string]bool{}
	for _, m := range sfComponents.FindAllStringSubmatch(list, -1) {
		value, err := s.value(r, m[1], m[2])
		if err != nil {
			return nil, "", err
		}
		if seen[m[0]] && !s.is("components twice") {
			return nil, "", errors.New("a component occurs twice")
		}
		seen[m[0]] = true
		covered = append(covered, m[0])
		base += m[0] + ": " + value + "\n"
	}
	return covered, base, nil
}

var errAbsent = errors.New("no such component")

func (s *reference) value(r *http.Request, name, params string) (string, error) {
	target := r.RequestURI
	if s.is("queries are parsed") && r.URL.RawQuery != "" {
		target = r.URL.Path + "?" + r.URL.Query().Encode()
	}
	path, _, _ := strings.Cut(target, "?")
	switch name {
	case "@method":
		if s.is("methods without case") {
			return strings.ToUpper(r.Method), nil
		}
		return r.Method, nil
	case "@authority":
		if s.is("authorities with case") {
			return r.Host, nil
		}
		return strings.TrimSuffix(strings.ToLower(r.Host), ":80"), nil
	case "@target-uri":
		return "http://" + r.Host + target, nil
	case "@path":
		return path, nil
	case "@query":
		_, query, _ := strings.Cut(target, "?")
		return "?" + query, nil
	}
	if strings.HasPrefix(name, "@") {
		if s.is(name) {
			return "", nil
		}
		return "", errAbsent
	}
	if name != strings.ToLower(name) && !s.is("names with capitals") {
		return "", errAbsent
	}
	if name == "content-type" && s.is("types without parameters") {
		name, _, _ = strings.Cut(r.Header.Get(name), ";")
		return name, nil
	}
	return s.fieldValue(r.Header.Values(name), params)
}

func (s *reference) fieldValue(lines []string, params string) (string, error) {
	lines = slices.Clone(lines)
	if len(lines) == 0 && !s.is("absent fields") {
		return "", errAbsent
	}
	if s.is("lines are not joined") {
		lines = lines[:1]
	}
	if s.is("lines are sorted") {
		slices.Sort(lines)
	}
	switch {
	case params == "":
		return strings.Join(lines, ", "), nil
	case params == ";bs":
		if s.is("bs of joined lines") {
			lines = []string{strings.Join(lines, ", ")}
		}
		for i, line := range lines {
			lines[i] = ":" + base64.StdEncoding.EncodeToString([]byte(line)) + ":"
		}
		return strings.Join(lines, ", "), nil
	case strings.HasPrefix(params, `;key="`):
		members, err := s.dictionary(lines)
		value, ok := members[params[6:len(params)-1]]
		if s.is("the whole dictionary") {
			return "1", nil
		}
		if err != nil || !ok {
			return "", errAbsent
		}
		return value, nil
	case s.is("any parameter") && params == ";conform", s.is("req") && params == ";req":
		return strings.Join(lines, ", "), nil
	case s.is("bs with sf") && strings.HasPrefix(params, ";bs;"):
		return s.fieldValue(lines, ";bs")
	}
	return "", errors.New("parameters that are not known, or exclude each other")
}

// checkParams checks the parameters of a signature that is good.
func (s *reference) checkParams(r *http.Request, params map[string]string) error {
	created := params["created"]
	if s.is("any created") {
		if n := strings.Trim(strings.TrimSuffix(created, ".0"), `"-`); n == "" || s.fresh(n) == nil {
			created = strconv.FormatInt(s.now().Unix(), 10)
		}
	}
	if s.is("no created") && created == "" {
		return nil
	}
	if !integer.MatchString(created) {
		return errors.New("created")
	}
	if err := s.fresh(created); err != nil {
		return err
	}
	if expires := params["expires"]; expires != "" && !s.is("expires is ignored") {
		from, _ := strconv.ParseInt(created, 10, 64)
		until, err := strconv.ParseInt(expires, 10, 64)
		if err != nil || until <= s.now().Unix() || until <= from {
			return errors.New("expired")
		}
	}
	if s.p.Signature.Tag != "" && params["tag"] != `"`+s.p.Signature.Tag+`"` && !s.is("any tag") {
		return errors.New("another tag")
	}
	if !s.p.Signature.Nonce || s.is("any nonce") {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	event := r.Header.Get("Idempotency-Key")
	if nonce := params["nonce"]; nonce == "" || s.nonces[nonce] != "" && s.nonces[nonce] != event {
		return errors.New("a nonce of another event")
	}
	s.nonces[params["nonce"]] = event
	return nil
}

// digest compares Content-Digest with the body.
func (s *reference) digest(r *http.Request, raw []byte) error {
	isOptional := s.is("digests are optional") && r.Header.Get("Content-Digest") == ""
	if isOptional || s.is("digests are not compared", "unsigned bodies") {
		return nil
	}
	digests, err := s.dictionary(r.Header.Values("Content-Digest"))
	if err != nil {
		if !s.is("digests need not be covered", "any digest") {
			return err
		}
		return nil //nolint:nilerr // it is a sabotage
	}
	narrow, wide, old := sha256.Sum256(raw), sha512.Sum512(raw), md5.Sum(raw)
	known := map[string][]byte{"sha-256": narrow[:], "sha-512": wide[:]}
	if s.is("md5 counts") {
		known["md5"] = old[:]
	}
	found := 0
	for name, text := range digests {
		want, ok := known[name]
		if !ok {
			continue
		}
		got, err := octets(text)
		if s.is("any digest") && (err != nil || len(got) < len(want)) {
			return nil //nolint:nilerr // it is a sabotage
		}
		if err == nil && string(got) == string(want) {
			found++
		} else if !s.is("one good digest") {
			return fmt.Errorf("another digest %s", name)
		}
	}
	if found == 0 {
		return errors.New("no digest that counts")
	}
	return nil
}
