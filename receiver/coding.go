package receiver

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Content codings (RFC 9110 section 8.4). The bytes that are signed are stored and compared: the
// coded ones, or what they decode to (verifyContent). Identifiers, types and the Data of handlers
// come from the decoded bytes.

// codings are the supported ones, for Accept-Encoding.
const codings = "gzip, deflate, identity"

// maxPlain bounds the decoded payload of a handler, in bytes. The producer's MaxBody already
// bounded it at acceptance.
const maxPlain = 256 << 20

// noCoding matches what some senders write for a body that is not coded: nothing, the name of a
// character set, or a transfer encoding that changes nothing (RFC 2045 section 6.2).
var noCoding = regexp.MustCompile(`^(|identity|none|[78]bit|binary|utf-?(8|16|32)|(us-)?ascii|` +
	`iso-8859-\d+|windows-125\d)$`)

// codingOf returns the one content coding of the fields in lower case, "" for none; false when
// there are several, or an unknown one.
func codingOf(h http.Header) (coding string, ok bool) {
	var found []string
	for _, line := range h["Content-Encoding"] {
		for item := range strings.SplitSeq(line, ",") {
			item = strings.ToLower(verify.TrimOWS(item))
			if !noCoding.MatchString(item) {
				found = append(found, item)
			}
		}
	}
	switch strings.Join(found, ",") {
	case "":
		return "", true
	case "gzip", "x-gzip":
		return "gzip", true
	case "deflate":
		return "deflate", true
	}
	return "", false
}

// mayBeCoded reports whether the body has a content coding, or would be read as something else
// with one.
func mayBeCoded(h http.Header, body []byte) bool {
	coding, _ := codingOf(h)
	return coding != "" || looksLike(body) != ""
}

// looksLike returns the coding that a body seems to have, or "".
func looksLike(body []byte) string {
	switch {
	case len(body) < 2:
	case body[0] == 0x1f && body[1] == 0x8b: // RFC 1952 section 2.3.1
		return "gzip"
	case body[0]&0x0f == 8 && (int(body[0])<<8|int(body[1]))%31 == 0: // RFC 1950 section 2.2
		return "deflate"
	}
	return ""
}

// readableBody returns the body without its content coding, for the extractors. Whoever removes an
// unsigned field from a captured delivery must not give its event another name: a body that decodes
// as it looks is read so where a signature leaves the coding open.
func readableBody(id verify.Identity, h http.Header, body []byte, limit int64) ([]byte, error) {
	plain, err := decodedBody(h, body, limit)
	if coding, _ := codingOf(h); err != nil || coding != "" || looksLike(body) == "" || id.Covers("content-encoding") {
		return plain, err
	}
	if unmarked, err := decodedBody(http.Header{"Content-Encoding": {looksLike(body)}}, body, limit); err == nil {
		return unmarked, nil
	}
	return plain, nil
}

// errInflates is the error of a body that is too large once decoded.
var errInflates = errors.New("the decoded body is too large")

// decodedBody removes the content coding. A result of more than limit bytes is errInflates,
// without decoding much more than that.
func decodedBody(h http.Header, coded []byte, limit int64) ([]byte, error) {
	coding, ok := codingOf(h)
	switch {
	case !ok:
		return nil, errors.New("unknown content coding")
	case coding == "", len(coded) == 0:
		return coded, nil
	}
	from := bytes.NewReader(coded)
	var r io.Reader
	var err error
	if coding == "gzip" {
		r, err = gzip.NewReader(from)
	} else {
		r, err = zlib.NewReader(from) // a zlib stream: RFC 9110 section 8.4.1.2
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", coding, err)
	}
	plain, err := readAtMost(r, limit)
	switch {
	case errors.Is(err, errInflates):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", coding, err)
	case from.Len() > 0:
		return nil, fmt.Errorf("%s: %d bytes after its end", coding, from.Len())
	}
	return plain, nil
}

// readAtMost reads everything, or returns errInflates after more than limit bytes. Its buffer
// doubles up to the limit and one byte, so all buffers together have at most twice that.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	var buf []byte
	for int64(len(buf)) <= limit {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(max(2*int64(cap(buf)), firstBuffer), limit+1)), buf...)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) && int64(len(buf)) <= limit {
			return buf, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return nil, errInflates
}

// What a body may decode to before it is verified: plainRatio times its size, and at least minPlain
// bytes. Decoding that takes about as long as small requests of the same size together.
const (
	plainRatio = 32
	minPlain   = 64 << 10
)

var errRatio = verify.Public("before it is verified, a body may decode to 64 KiB or 32 times its size")

// budget counts the bytes of bodies that are not verified.
type budget interface{ Hold(n int64) bool }

// Authenticate verifies a delivery that was read whole, as the endpoint of the producer does, apart
// from its limits of time and memory. Its Body becomes what events are read from, without a content
// coding. The producer has its defaults, and a scheme.
func Authenticate(p *producer.Producer, d *producer.Delivery) error {
	id, content, err := verifyContent(p, d.Request, func() ([]byte, error) { return d.Body, nil }, unbounded{})
	if err != nil {
		return err
	}
	d.Request = asSigned(p.Pinned().MediaType, d.Request, id, false)
	if d.Identity = id; content == nil {
		content, err = readableBody(id, d.Request.Header, d.Body, p.MaxBody)
	}
	d.Body = content
	return err
}

type unbounded struct{}

func (unbounded) Hold(int64) bool { return true }

// verifyContent runs the scheme. The content is what the body decodes to, if that is signed; else
// it is nil.
func verifyContent(p *producer.Producer, r *http.Request, read func() ([]byte, error),
	held budget) (id verify.Identity, content []byte, err error) {
	if coding, ok := codingOf(r.Header); coding != "" && ok && p.SignedContent != producer.SignedCoded {
		return verifyDecoded(p, r, read, held)
	}
	id, err = p.Scheme.Verify(r, read)
	return id, nil, err
}

// verifyDecoded verifies a coded body that may have been signed before it was coded. The decoded
// bytes are then the body, as if it had arrived without a coding: another coding of them is the
// same event.
func verifyDecoded(p *producer.Producer, r *http.Request, read func() ([]byte, error),
	held budget) (id verify.Identity, content []byte, err error) {
	var coded []byte
	var refused, unread error
	if p.SignedContent != producer.SignedDecoded {
		id, err = p.Scheme.Verify(r, func() (body []byte, err error) {
			coded, err = read()
			return coded, err
		})
		if len(coded) == 0 || !mayBeSignedDecoded(err) {
			return id, nil, err
		}
		refused, read = err, func() ([]byte, error) { return coded, nil }
	}
	other, err := p.Scheme.Verify(r, func() ([]byte, error) {
		body, err := read()
		if err == nil {
			content, err = unverifiedPlain(r.Header, body, p.MaxBody, held)
		}
		unread = err
		return content, err
	})
	switch {
	case err == nil && unread == nil:
		return other, content, nil
	case refused != nil && !errors.Is(unread, errBudget):
		return id, nil, refused
	case unread != nil:
		return id, nil, unread
	}
	return other, nil, err
}

// mayBeSignedDecoded reports whether a refusal may be due to the coding. A Content-Digest is of the
// coded body (RFC 9530 section 2).
func mayBeSignedDecoded(err error) bool {
	refusal, ok := errors.AsType[*verify.Error](err)
	return ok && refusal.Code != verify.KeysUnavailable && refusal.Code != verify.DigestMismatch
}

// unverifiedPlain decodes a body that is not verified.
func unverifiedPlain(h http.Header, body []byte, maxBody int64, held budget) ([]byte, error) {
	limit := min(maxBody, max(minPlain, plainRatio*int64(len(body))))
	if !held.Hold(limit) {
		return nil, fail(codeBusy, errBudget)
	}
	plain, err := decodedBody(h, body, limit)
	switch {
	case errors.Is(err, errInflates) && limit < maxBody:
		return nil, fail(codeBodyTooLarge, errRatio)
	case errors.Is(err, errInflates):
		return nil, fail(codeBodyTooLarge, err)
	case err != nil:
		return nil, &verify.Error{Code: verify.SignatureMalformed, Component: "content-encoding", Err: err}
	}
	return plain, nil
}

// asSigned returns the request as its signature leaves it: without its content coding if the
// decoded body was signed, and with the pinned media type where Content-Type was not covered.
func asSigned(pinned string, r *http.Request, id verify.Identity, decoded bool) *http.Request {
	retype := pinned != "" && !id.Covers("content-type") && r.Header.Get("Content-Type") != pinned
	if !decoded && !retype {
		return r
	}
	signed := *r
	signed.Header = r.Header.Clone()
	if decoded {
		signed.Header.Del("Content-Encoding")
	}
	if retype {
		signed.Header.Set("Content-Type", pinned)
	}
	return &signed
}
