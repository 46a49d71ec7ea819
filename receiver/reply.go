package receiver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// What a delivery came to when it did not fail, for the log and for Observe.
const (
	codeAccepted    = "accepted"
	codeAnswered    = "answered"
	codeRepeated    = "replayed"
	codeQuarantined = "kept_aside"
	codeEmptyBatch  = "empty_batch"
	codeHandshake   = "handshake"
)

// replayedField marks stored answers that are repeated, and only those.
const replayedField = "Idempotency-Replayed"

// reply is the answer to a delivery, and what the log says about it.
type reply struct {
	status int
	header http.Header
	body   []byte
	code   string // what happened, precisely
	event  string // our id of the event, when there is one
	err    error  // the private cause of a failure
}

// send writes the reply. It is the only place that writes a status.
func (a *reply) send(w http.ResponseWriter) {
	header := w.Header()
	for name, values := range a.header {
		header[name] = values
	}
	header.Set("X-Content-Type-Options", "nosniff")
	if bodyless(a.status) {
		w.WriteHeader(a.status)
		return
	}
	if len(a.body) == 0 {
		header.Del("Content-Type")
	}
	header.Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a producer that has gone asks again
}

// bodyless reports whether responses of this status have no content (RFC 9110 section 6.4.1).
func bodyless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusResetContent
}

const jsonType = "application/json"

// acceptance is the answer that is stored with an event for On handlers. Where the producer does not ask for a
// body of its own, it names the event, whose id only the store knows: such an answer is stored without its
// body, and acknowledgement adds it every time it is sent.
func acceptance(p *producer.Producer) dedup.Response {
	want := p.Accepted
	a := dedup.Response{Status: want.Status, Header: want.Header.Clone(), Body: want.Body}
	if a.Header == nil {
		a.Header = http.Header{}
	}
	if len(want.Body) == 0 && !bodyless(want.Status) && a.Header.Get("Content-Type") == "" {
		a.Header.Set("Content-Type", jsonType)
	}
	return a
}

func acknowledges(a dedup.Response) bool {
	return len(a.Body) == 0 && !bodyless(a.Status) && a.Header.Get("Content-Type") == jsonType
}

// storedReply is the answer of a record, the first time or, replayed, any later time. A record that was
// reopened before it had an answer is acknowledged like an event for On handlers.
func storedReply(p *producer.Producer, rec dedup.Record, replayed bool) *reply {
	a := rec.Response
	if a.Status == 0 {
		a = acceptance(p)
	}
	r := &reply{status: a.Status, header: a.Header, body: a.Body, code: codeAccepted, event: rec.Event}
	if acknowledges(a) {
		r.body = acknowledgement(rec.Event, "accepted")
	}
	if rec.Hold {
		r.code = codeAnswered
	}
	if replayed {
		r.code = codeRepeated
		if r.header = a.Header.Clone(); r.header == nil { // what is stored stays as it is
			r.header = http.Header{}
		}
		r.header.Set(replayedField, "true")
	}
	return r
}

// quarantinedReply is the answer to a delivery that was kept without being run. It says nothing about the event that
// it belongs to.
func quarantinedReply(p *producer.Producer) *reply {
	a := acceptance(p)
	r := &reply{status: a.Status, header: a.Header, body: a.Body, code: codeQuarantined}
	if acknowledges(a) {
		r.body = acknowledgement("", "kept_aside")
	}
	return r
}

// batchReply is the answer to a batch, all of whose items are kept.
func batchReply(p *producer.Producer, items int) *reply {
	a := acceptance(p)
	r := &reply{status: a.Status, header: a.Header, body: a.Body, code: codeAccepted}
	if acknowledges(a) {
		r.body = fmt.Appendf(nil, "{\"events\":%d,\"status\":\"accepted\"}\n", items)
	}
	return r
}

// handshakeReply is the answer to a subscription handshake.
func handshakeReply(want *dedup.Response) *reply {
	r := &reply{status: want.Status, header: want.Header.Clone(), body: want.Body, code: codeHandshake}
	if r.header == nil {
		r.header = http.Header{}
	}
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if r.header.Get("Content-Type") == "" {
		r.header.Set("Content-Type", "text/plain; charset=utf-8") // never a type that could execute what it echoes
	}
	r.header.Set("Cache-Control", "no-store")
	return r
}

func acknowledgement(event, status string) []byte {
	body, err := json.Marshal(struct {
		Event  string `json:"event,omitempty"`
		Status string `json:"status"`
	}{event, status})
	if err != nil {
		return nil // two strings always marshal
	}
	return append(body, '\n')
}

// connectionFields are about one connection or computed for one response, so that no handler sets them and
// none is stored (RFC 9110 section 7.6.1).
var connectionFields = []string{
	"Connection", "Content-Length", "Date", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", replayedField,
}

// repeatable returns the fields of a handler's response that may be stored and sent, in canonical spelling.
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
