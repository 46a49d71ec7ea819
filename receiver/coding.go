package receiver

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// Content codings (RFC 9110 section 8.4). Signatures and digests cover the coded bytes, which
// are also stored and compared: nothing is decoded before the delivery is verified.
// Identifiers, types and the Data of handlers come from the decoded bytes.

// codings are the supported ones, for Accept-Encoding.
const codings = "gzip, deflate, identity"

// maxPlain bounds the decoded payload of a handler, in bytes. The producer's MaxBody already
// bounded it at acceptance.
const maxPlain = 256 << 20

// codingOf returns the one content coding of the fields in lower case, "" for none; false when
// there are several, or an unknown one.
func codingOf(h http.Header) (coding string, ok bool) {
	var found []string
	for _, line := range h["Content-Encoding"] {
		for item := range strings.SplitSeq(line, ",") {
			item = strings.ToLower(verify.TrimOWS(item))
			if item != "" && item != "identity" {
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
	if coding, _ := codingOf(h); coding != "" {
		return true
	}
	if len(body) < 2 {
		return false
	}
	gzipped := body[0] == 0x1f && body[1] == 0x8b                           // RFC 1952 section 2.3.1
	deflated := body[0]&0x0f == 8 && (int(body[0])<<8|int(body[1]))%31 == 0 // RFC 1950 section 2.2
	return gzipped || deflated
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
