package producer

import (
	"bytes"
	"mime"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

const (
	jsonMedia      = "application/json"
	formMedia      = "application/x-www-form-urlencoded"
	multipartMedia = "multipart/form-data"
)

// The limits of a multipart form.
const (
	maxParts    = 256
	maxBoundary = 70 // RFC 2046 section 5.1.1
	maxPartHead = 4 << 10
)

// Why a multipart form is not read. What readers could take for different forms is refused.
var (
	errForm        = verify.Public("the body is not the multipart form of its Content-Type")
	errPart        = verify.Public("a part of the form has no plain name")
	errPartEncoded = verify.Public("the part of the form has a Content-Transfer-Encoding")
	errParts       = verify.Public("more than 256 parts in a form") // maxParts
)

// part is a part of a multipart form.
type part struct {
	name, encoding string
	isFile         bool
	value          []byte
}

// multipartValue returns the value of the only part of that name (RFC 7578), without a copy; nil
// if there is none. The other parts, files included, are only skipped.
func multipartValue(body []byte, boundary, name string) ([]byte, error) {
	unread := func(err error) error {
		return &verify.Error{Code: verify.MediaTypeUnsupported, Component: "content-type", Err: err}
	}
	delimiter := []byte("\r\n--" + boundary)
	rest, ok := bytes.CutPrefix(body, delimiter[2:])
	if !ok || boundary == "" || len(boundary) > maxBoundary {
		return nil, unread(errForm)
	}
	var found *part
	for range maxParts {
		if end, last := bytes.CutPrefix(rest, []byte("--")); last {
			if len(bytes.TrimRight(end, "\r\n")) > 0 {
				return nil, unread(errForm)
			} else if found == nil {
				return nil, nil
			}
			return found.value, nil
		}
		text, more, closed := bytes.Cut(rest, delimiter)
		if !closed {
			return nil, unread(errForm)
		}
		one, err := readPart(text, name)
		switch rest = more; {
		case err != nil:
			return nil, unread(err)
		case one == nil:
		case found != nil || one.isFile:
			return nil, &verify.Error{Code: verify.AmbiguousField, Component: name}
		default:
			found = one
		}
	}
	return nil, unread(errParts)
}

// readPart reads a part from the end of its delimiter; nil if it has another name.
func readPart(text []byte, name string) (*part, error) {
	text, ok := bytes.CutPrefix(text, []byte("\r\n"))
	head, value, headed := bytes.Cut(text, []byte("\r\n\r\n"))
	if !ok || !headed || len(head) > maxPartHead {
		return nil, errForm
	}
	found, disposed := &part{value: value}, false
	for line := range strings.SplitSeq(string(head), "\r\n") {
		field, content, named := strings.Cut(line, ":")
		switch {
		case !named || !verify.IsToken(field) || strings.ContainsAny(line, "\r\n"):
			return nil, errForm // readers disagree on what such lines end
		case strings.EqualFold(field, "Content-Transfer-Encoding"):
			found.encoding = strings.ToLower(verify.TrimOWS(content))
		case strings.EqualFold(field, "Content-Disposition"):
			if disposed || !found.dispose(content) {
				return nil, errPart
			}
			disposed = true
		}
	}
	switch {
	case !disposed:
		return nil, errPart
	case found.name != name:
		return nil, nil
	}
	switch found.encoding {
	case "", "7bit", "8bit", "binary":
		return found, nil
	}
	return nil, errPartEncoded
}

// dispose reads a Content-Disposition. A name with escapes has several readings.
func (p *part) dispose(content string) bool {
	kind, params, err := mime.ParseMediaType(content)
	p.name = params["name"]
	_, p.isFile = params["filename"]
	lower := strings.ToLower(content)
	extended := strings.Count(lower, "name*") > strings.Count(lower, "filename*") // RFC 8187
	escaped := strings.Contains(content, `\`) && strings.ContainsAny(p.name, `()<>@,;:/[]?=`)
	return err == nil && kind == "form-data" && p.name != "" && !extended && !escaped &&
		!strings.ContainsAny(p.name, `"\`)
}
