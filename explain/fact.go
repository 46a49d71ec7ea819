package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/verify"
)

// Facts need no trial. A part that is missing or there twice is proved by the request. A claim of
// the request, such as the id of a key, is likely, because anyone can write it.

// The receiver's codes for bodies that ended before their declared length.
const (
	codeBodyCut      verify.Code = "body_incomplete"
	codeBodyConsumed verify.Code = "body_consumed"
)

// incomplete finds a body that is shorter than declared, of which no form can verify.
func (s *search) incomplete() (Finding, bool) {
	n := int64(len(s.d.Body))
	ended := s.d.Code == codeBodyCut || s.d.Code == codeBodyConsumed
	if s.d.Unread && !ended || s.d.Declared <= n {
		return Finding{}, false
	}
	f := Finding{Cause: bodyCut, Proved: true, Detail: fmt.Sprintf("%d of %d bytes", n, s.d.Declared)}
	if n == 0 {
		f.Cause = bodyConsumed
	}
	return f, true
}

// facts explains a delivery with which no trial succeeded, and for which some causes are likely.
// Certain ones come first.
func (s *search) facts(start state, first outcome, found []Finding) []Finding {
	var e *verify.Error
	if !errors.As(first.err, &e) {
		e = &verify.Error{}
	}
	certain := func(c Cause, detail string) {
		found = slices.DeleteFunc(found, func(f Finding) bool { return f.Cause == c })
		found = append(found, Finding{Cause: c, Proved: true, Detail: detail})
	}
	likely := func(c Cause, detail string) {
		if !slices.ContainsFunc(found, func(f Finding) bool { return f.Cause == c }) {
			found = append(found, Finding{Cause: c, Detail: detail})
		}
	}
	switch e.Code {
	case verify.SignatureMissing, verify.CredentialsMissing, verify.TokenMissing:
		if len(found) == 0 {
			s.missing(e, certain, likely)
		}
	case verify.KeyUnknown:
		likely(keyUnknown, s.unknownKey(start, e))
	case verify.AlgorithmMismatch, verify.AlgorithmNotAllowed:
		likely(Cause(verify.AlgorithmDiffers), s.algorithm(start, e))
	case verify.InsufficientCoverage:
		likely(Cause(verify.CoverageDiffers), quoted(e.Component))
	case verify.TimestampMissing:
		certain(noTime, quoted(e.Component))
	case verify.DigestMissing, verify.BodyHashMismatch:
		certain(digestCause(e), quoted(e.Component))
	case verify.AmbiguousField:
		certain(headerRepeated, quoted(e.Component))
	case verify.TopicUnexpected:
		likely(Cause(verify.TopicDiffers), quoted(e.Component))
	case verify.SignatureMalformed:
		detail := quoted(e.Component)
		if e.Err != nil {
			detail = e.Err.Error()
		}
		likely(Cause(verify.SignatureWrapped), detail)
	case verify.SignatureMismatch:
		if e.Component != "" && e.Err != nil && strings.Contains(e.Err.Error(), "covered but absent") {
			likely(headerRemoved, quoted(e.Component))
		}
	}
	s.unpacked(likely)
	if e.Code == verify.SignatureMismatch {
		s.mismatched(likely)
		if len(found) == 0 {
			s.otherInputs(e, likely)
		}
	}
	unproved := slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.Proved })
	return append(slices.DeleteFunc(found, func(f Finding) bool { return !f.Proved }), unproved...)
}

func digestCause(refusal error) Cause {
	if otherBody(refusal) {
		return bodyDigest
	}
	return noDigest
}

// unpacked finds a body that is not in the coding of its field.
func (s *search) unpacked(likely func(Cause, string)) {
	if coding := strings.ToLower(s.d.Request.Header.Get("Content-Encoding")); !s.d.Unread &&
		(coding == "gzip" || coding == "deflate" || coding == "br" || coding == "zstd") && looksPlain(s.d.Body) {
		likely(bodyDecompressed, "")
	}
}

// mismatched finds what in a body may be why its signature does not match.
func (s *search) mismatched(likely func(Cause, string)) {
	if s.d.Unread {
		return
	}
	if v, ok := s.parse(); ok {
		if what := v.looksRewritten(); what != "" {
			likely(bodyRewritten, what)
		}
	}
	if len(s.d.Body) == 0 {
		likely(bodyConsumed, "")
	}
}

// otherInputs lists what else a signature depends on, if nothing in the request shows a reason.
// The sender and the configuration agree on a secret more often than on the URL.
func (s *search) otherInputs(e *verify.Error, likely func(Cause, string)) {
	if signsURL(s.own.Scheme) {
		likely(urlHost, "perhaps; it was verified as "+shownURL(s.d.Request.URL))
	}
	shared := false
	for _, o := range offersOf(s.ctx, s.own.Scheme) {
		shared = shared || o.Secret != "" || o.Key != nil && o.Key.Public() == nil
	}
	switch {
	case s.own.Preset == "paypal":
		likely(Cause(verify.WebhookDiffers), "none of the known ids; offer others with --try-secret-file")
	case shared:
		likely(Cause(verify.OtherSecret), "nothing known explains it; compare the sender's secret, or offer it with "+
			"--try-secret-file")
	default:
		likely(Cause(verify.OtherKey), fmt.Sprintf("nothing known explains it; the request names %q", e.KeyID))
	}
}

// looksPlain reports whether a body is text, which no compression writes.
func looksPlain(body []byte) bool { return len(body) > 0 && utf8.Valid(body) }

// missing explains a request without a signature or credential.
func (s *search) missing(e *verify.Error, certain, likely func(Cause, string)) {
	if name := renamedField(s.d.Request, append(slices.Clone(s.fields), "Signature-Input")); name != "" {
		likely(headerRenamed, fmt.Sprintf("%q looks like it", name))
		return
	}
	if older := s.olderField(); older != "" {
		likely(Cause(verify.HashDiffers), fmt.Sprintf("only %q is there, of SHA-1", older))
		return
	}
	if vendor := s.otherVendor(); vendor != "" {
		likely(otherVendor, "preset "+vendor)
		return
	}
	certain(unsigned, quoted(e.Component))
}

// olderField returns the field of SHA-1 in a request that has other fields of the producer, or "".
func (s *search) olderField() string {
	for _, name := range signatureFields(&s.own) {
		older, ok := strings.CutSuffix(name, "-256")
		if ok && s.d.Request.Header.Get(older) != "" && ownFields(s.d.Request, &s.own) > 0 {
			return older
		}
	}
	return ""
}

// unknownKey names the key of the request and those of the endpoint.
func (s *search) unknownKey(start state, e *verify.Error) string {
	id := e.KeyID
	for _, c := range verify.ClaimedIn(start.scheme, start.request, s.d.Body) {
		if id == "" {
			id = c.KeyID
		}
	}
	var own []string
	for _, o := range offersOf(s.ctx, s.own.Scheme) {
		own = append(own, o.Name)
	}
	detail := quoted(id)
	if len(own) > 0 {
		detail += "; configured: " + strings.Join(own[:min(len(own), 8)], ", ")
	}
	return detail
}

func (s *search) algorithm(start state, e *verify.Error) string {
	for _, c := range verify.ClaimedIn(start.scheme, start.request, s.d.Body) {
		if c.Alg != "" {
			return quoted(c.Alg)
		}
	}
	return quoted(e.Component)
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%q", text)
}
