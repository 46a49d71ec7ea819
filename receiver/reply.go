package receiver

import (
	"cmp"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// The codes of deliveries that did not fail, for the log and for Observe.
const (
	codeAccepted    verify.Code = "accepted"
	codeAnswered    verify.Code = "answered"
	codeRepeated    verify.Code = "replayed"
	codeQuarantined verify.Code = "quarantined"
	codeEmptyBatch  verify.Code = "empty_batch"
	codeHandshake   verify.Code = "handshake"
)

const (
	replayedField = "Idempotency-Replayed" // marks repeated stored responses, and only those
	jsonType      = "application/json"
)

// reply is the response to a delivery, with what the log and the limits need to know about it.
type reply struct {
	dedup.Response
	code   verify.Code // the precise one
	event  string      // our id of the event, if there is one
	err    error       // the private cause of a failure
	fresh  bool        // the delivery brought a new event
	refund bool        // its events do not count against the rate

	replayed bool      // marked as a repeated stored response
	values   [3]string // of the fields that send sets
}

// send writes the reply. It is the only place that writes a status.
func (a *reply) send(w http.ResponseWriter) {
	header := w.Header()
	cookies := header["Set-Cookie"] // of middleware
	maps.Copy(header, a.Header)
	if own := a.Header["Set-Cookie"]; len(cookies) > 0 && len(own) > 0 {
		header["Set-Cookie"] = slices.Concat(cookies, own)
	}
	a.setField(header, 0, "X-Content-Type-Options", "nosniff")
	if a.replayed {
		a.setField(header, 1, replayedField, "true")
	}
	if bodyless(a.Status) {
		w.WriteHeader(a.Status)
		return
	}
	if len(a.Body) == 0 {
		header.Del("Content-Type")
	}
	a.setField(header, 2, "Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // a producer that hung up sends the delivery again
}

// setField sets a field, given its canonical name, to the value in a slot of values.
func (a *reply) setField(h http.Header, slot int, name, value string) {
	a.values[slot] = value
	h[name] = a.values[slot : slot+1 : slot+1]
}

// bodyless reports whether responses of this status have no content (RFC 9110 section 6.4.1).
func bodyless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusResetContent
}

// acceptance is the response that is stored with an event for On handlers. Unless the producer
// requires its own body or none, the body names the event, whose id only the store knows. Such a
// response is stored without a body, and acknowledgement adds it every time it is sent.
func acceptance(p *producer.Producer, kind string) dedup.Response {
	want, own := p.AcceptedTypes[kind]
	if !own {
		want = p.Accepted
	}
	a := dedup.Response{Status: want.Status, Header: cloneHeader(want.Header), Body: want.Body}
	if want.Body == nil && !bodyless(want.Status) && a.Header.Get("Content-Type") == "" {
		a.Header.Set("Content-Type", jsonType)
	}
	return a
}

func acknowledges(a dedup.Response) bool {
	return len(a.Body) == 0 && !bodyless(a.Status) && a.Header.Get("Content-Type") == jsonType
}

// storedReply is the response of a record, sent first or, replayed, again. A record that was
// reopened before it had a response is acknowledged like an event for On handlers, in the memory b.
func storedReply(b []byte, p *producer.Producer, rec *dedup.Record, replayed bool) reply {
	a := rec.Response
	if a.Status == 0 {
		a = acceptance(p, rec.Payload.Type)
	}
	r := reply{Response: a, code: codeAccepted, event: rec.Event, fresh: !replayed, refund: replayed}
	if acknowledges(a) {
		r.Body = acknowledgement(b, rec.Event, "accepted")
	}
	if rec.Hold {
		r.code = codeAnswered
	}
	if replayed {
		r.code, r.replayed = codeRepeated, true
	}
	return r
}

// acceptanceReply acknowledges a delivery with the body, unless the producer requires its own.
func acceptanceReply(p *producer.Producer, kind string, code verify.Code, body []byte) *reply {
	r := &reply{Response: acceptance(p, kind), code: code}
	if acknowledges(r.Response) {
		r.Body = body
	}
	return r
}

// handshakeReply is the reply to a subscription handshake.
func handshakeReply(want *dedup.Response) *reply {
	r := &reply{Response: *want, code: codeHandshake}
	r.Header, r.Status = cloneHeader(want.Header), cmp.Or(want.Status, http.StatusOK)
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "text/plain; charset=utf-8") // a type that cannot execute what it echoes
	}
	r.Header.Set("Cache-Control", "no-store")
	return r
}

// cloneHeader returns a copy that is not nil.
func cloneHeader(h http.Header) http.Header {
	if h == nil {
		return http.Header{}
	}
	return h.Clone()
}

// acknowledgement returns the body of an acknowledgement, in the memory b if that is enough.
func acknowledgement(b []byte, event, status string) []byte {
	b = append(b[:0], '{')
	if event != "" {
		b = append(strictjson.Quote(append(b, `"event":`...), event), ',')
	}
	return append(strictjson.Quote(append(b, `"status":`...), status), "}\n"...)
}

// connectionFields belong to one connection or are computed for one response. Handlers cannot
// set them, and they are not stored (RFC 9110 section 7.6.1).
var connectionFields = []string{
	"Connection", "Content-Length", "Date", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", replayedField,
}

// repeatable returns the fields of a handler's response that may be stored and sent, with
// canonical names.
func repeatable(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		name = textproto.CanonicalMIMEHeaderKey(name)
		out[name] = append(out[name], values...)
	}
	for _, name := range connectionFields {
		out.Del(name)
	}
	return out
}
