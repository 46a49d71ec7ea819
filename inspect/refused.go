package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/replay"
)

// Refused is the line of a refused delivery in a list: a request that was answered with a status of
// 400 or more. Of credentials it has the lengths, as in REDACTED(27).
type Refused struct {
	// Number counts from 1 since the start of the process, and is never reused in it.
	Number uint64    `json:"number"`
	Time   time.Time `json:"time"` // UTC
	// Endpoint is empty if no endpoint has the path.
	Endpoint string `json:"endpoint,omitempty"`
	// Status and Code are the response and its precise reason, which the response may not reveal,
	// and Why is the private cause.
	Status int    `json:"status"`
	Code   string `json:"code"`
	Why    string `json:"why,omitempty"`
	// Peer is the address of the client, empty if it is unknown.
	Peer   string `json:"peer,omitempty"`
	Method string `json:"method"`
	Target string `json:"target"` // as received
	// Size is the length of the body in bytes: as it was read, else as declared; -1 if unknown.
	Size int64 `json:"size"`
	// More is the number of deliveries like this one that are not kept: to the same endpoint, with
	// the same code, and from the same network. Only the newest of those that are kept has it.
	More uint64 `json:"more,omitempty"`
}

// RefusedDetail is a refused delivery with its request and its response.
type RefusedDetail struct {
	Refused
	// URL is the one that the producer called, as far as it was located.
	URL    string      `json:"url"`
	Proto  string      `json:"proto"`
	Host   string      `json:"host"`
	Header http.Header `json:"header"`
	// BodyRead is whole, partial or unread, and Declared the declared length; -1 if there was none.
	BodyRead string `json:"body_read"`
	Declared int64  `json:"declared"`
	// Kept is how many bytes of the body are below. Where more were read, SHA256 is the digest of
	// them all, in hexadecimal.
	Kept   int    `json:"kept"`
	SHA256 string `json:"sha256,omitempty"`
	// Hidden means that the body is not as received, because of credentials in it: a part is
	// replaced, or all of it is left out.
	Hidden bool `json:"hidden,omitempty"`
	// Text is a UTF-8 body, Base64 any other.
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
	// Response is the answer.
	Response *Response `json:"answer"`
}

// RefusedSource holds the refused deliveries that a receiver keeps. It is safe for concurrent use.
type RefusedSource interface {
	// Refused returns those that are kept, the newest first.
	Refused() []Refused
	// RefusedDetail returns one of them, or false if it is not kept, or no longer.
	RefusedDetail(number uint64) (RefusedDetail, bool)
}

// Recording returns the delivery as an *.http file, under the name refused-NUMBER.http. Its notes
// are producer (the endpoint), now (unix time), refused (the number), code, why, status, peer, url,
// body (whole, partial or unread), read and kept (bytes), and sha256. The error is for a request
// that cannot be written as HTTP/1.1.
func (d *RefusedDetail) Recording() (*replay.Recording, error) {
	rec := &replay.Recording{
		Name: fmt.Sprintf("refused-%d.http", d.Number), Method: d.Method,
		Target: strings.ReplaceAll(d.Target, " ", "%20"), // HTTP/2 may have spaces
		Proto:  "HTTP/1.1", Body: d.body(),
	}
	body := d.BodyRead
	if d.Hidden {
		body += ", redacted"
	}
	for _, n := range [][2]string{
		{"producer", d.Endpoint}, {"now", strconv.FormatInt(d.Time.Unix(), 10)},
		{"refused", strconv.FormatUint(d.Number, 10)}, {"code", d.Code}, {"why", d.Why},
		{"status", strconv.Itoa(d.Status)}, {"peer", d.Peer}, {"url", d.URL}, {"body", body},
		{"read", strconv.FormatInt(d.Size, 10)}, {"kept", strconv.Itoa(d.Kept)}, {"sha256", d.SHA256},
	} {
		if text := strings.Join(strings.FieldsFunc(n[1], isLineBreaking), " "); text != "" {
			rec.SetNote(n[0], strings.TrimSpace(text))
		}
	}
	rec.Fields = append(rec.Fields, replay.Field{Name: "Host", Value: d.Host})
	for _, name := range slices.Sorted(maps.Keys(d.Header)) {
		for _, value := range d.Header[name] {
			rec.Fields = append(rec.Fields, replay.Field{Name: name, Value: value})
		}
	}
	if _, err := rec.WriteTo(io.Discard); err != nil { // it would not parse as the same request
		return nil, err
	}
	return rec, nil
}

// body is what is kept of the body.
func (d *RefusedDetail) body() []byte {
	if len(d.Base64) > 0 {
		return d.Base64
	}
	return []byte(d.Text)
}

// isLineBreaking reports characters that no note may hold.
func isLineBreaking(r rune) bool { return r < ' ' || r == 0x7f }

// RefusedAPI serves the refused deliveries that a receiver keeps:
//
//	GET /refused?endpoint=shop   lines of [Refused], newest first
//	GET /refused/NUMBER          one [RefusedDetail]
//	GET /refused/NUMBER.http     the delivery as an *.http file; see [RefusedDetail.Recording]
//
// The parameters of a list are endpoint, code, since (a duration, such as 1h), before (a number,
// the cursor of the next page) and limit (0 is unlimited). An unknown parameter is 400. Errors are
// problems (RFC 9457): 400 for an invalid request, 404 for a number that is not kept, and 409 for a
// request that cannot be written as HTTP/1.1.
func RefusedAPI(source RefusedSource) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /refused", func(w http.ResponseWriter, r *http.Request) {
		filter, err := parseRefusedFilter(r.URL.Query())
		if err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
		setHeaders(w, NDJSON)
		lines := json.NewEncoder(w)
		for _, d := range filter.of(source) {
			if lines.Encode(d) != nil {
				return
			}
		}
	})
	mux.HandleFunc("GET /refused/{number}", func(w http.ResponseWriter, r *http.Request) {
		serveRefused(w, source, r.PathValue("number"))
	})
	return mux
}

// serveRefused responds with one refused delivery, as JSON or as a file.
func serveRefused(w http.ResponseWriter, source RefusedSource, name string) {
	digits, asFile := strings.CutSuffix(name, ".http")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		fail(w, http.StatusBadRequest, "that is not the number of a refused delivery, as in /refused/17")
		return
	}
	d, ok := source.RefusedDetail(number)
	if !ok {
		fail(w, http.StatusNotFound, fmt.Sprintf("no refused delivery %d is kept: newer ones take the place of older "+
			"ones, and a restart begins with none", number))
		return
	}
	if !asFile {
		respond(w, d, nil)
		return
	}
	file, err := d.Recording()
	if err != nil {
		fail(w, http.StatusConflict, err.Error())
		return
	}
	writeFile(w, file)
}

// refusedFilter selects refused deliveries.
type refusedFilter struct {
	endpoint, code string
	since          time.Duration // 0 is any age
	before         uint64        // 0 is any number
	limit          int           // 0 is unlimited
}

func parseRefusedFilter(q url.Values) (refusedFilter, error) {
	f := refusedFilter{limit: DefaultLimit}
	for name, values := range q {
		if len(values) > 1 {
			return f, fmt.Errorf("parameter %q is given twice", name)
		}
		if err := f.set(name, values[0]); err != nil {
			return f, fmt.Errorf("parameter %q: %w", name, err)
		}
	}
	return f, nil
}

func (f *refusedFilter) set(name, value string) (err error) {
	switch name {
	case "endpoint":
		f.endpoint = value
	case "code":
		f.code = value
	case "since":
		if f.since, err = duration.Parse(value); err != nil || f.since <= 0 {
			err = fmt.Errorf("%q is not a past duration, such as 1h", value)
		}
	case "before":
		if f.before, err = strconv.ParseUint(value, 10, 64); err != nil {
			err = fmt.Errorf("%q is not a number of a list", value)
		}
	case "limit":
		if f.limit, err = strconv.Atoi(value); err != nil || f.limit < 0 {
			err = fmt.Errorf("%q is not a number of deliveries", value)
		}
	default:
		err = errors.New("unknown")
	}
	return err
}

// of returns the deliveries that match, the newest first.
func (f refusedFilter) of(source RefusedSource) []Refused {
	found := slices.DeleteFunc(source.Refused(), func(d Refused) bool {
		return f.endpoint != "" && d.Endpoint != f.endpoint || f.code != "" && d.Code != f.code ||
			f.since > 0 && time.Since(d.Time) > f.since || f.before > 0 && d.Number >= f.before
	})
	if f.limit > 0 {
		found = found[:min(len(found), f.limit)]
	}
	return found
}
