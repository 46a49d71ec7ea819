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

// Content codings (RFC 9110 section 8.4). Signatures and digests are of the coded bytes, and so are what is
// kept and what is compared: nothing is decoded before the delivery is verified. The decoded bytes are what
// identifiers and types are read from, and what handlers get as Data.

// codings are those that are taken off, for Accept-Encoding.
const codings = "gzip, deflate, identity"

// maxPlain bounds what a handler's payload may grow to, in bytes. Acceptance has bounded it by the producer's
// MaxBody already.
const maxPlain = 256 << 20

// codingOf returns the one content coding of the fields in lower case, "" for none; false when there are
// several, or one that is not known here.
func codingOf(h http.Header) (coding string, ok bool) {
	var found []string
	for _, line := range h.Values("Content-Encoding") {
		for item := range strings.SplitSeq(line, ",") {
			item = strings.ToLower(verify.TrimOWS(item))
			if item != "" && item != "identity" {
				found = append(found, item)
			}
		}
	}
	switch {
	case len(found) == 0:
		return "", true
	case len(found) > 1:
		return "", false
	}
	switch found[0] {
	case "gzip", "x-gzip":
		return "gzip", true
	case "deflate":
		return "deflate", true
	}
	return "", false
}

// errInflates says that a body is larger than allowed once it is decoded.
var errInflates = errors.New("the decoded body is too large")

// decodedBody takes the content coding off. A result of more than limit bytes is errInflates; it is found out
// without making more than that.
func decodedBody(h http.Header, coded []byte, limit int64) ([]byte, error) {
	coding, ok := codingOf(h)
	switch {
	case !ok:
		return nil, errors.New("the content coding is not known")
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

// readAtMost reads everything, or returns errInflates once there are more than limit bytes. Its buffer doubles up to
// the limit and one byte, so that all buffers together have at most twice that.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	var buf []byte
	for int64(len(buf)) <= limit {
		if len(buf) == cap(buf) {
			bigger := make([]byte, len(buf), min(max(2*int64(cap(buf)), firstBuffer), limit+1))
			copy(bigger, buf)
			buf = bigger
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
