package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// returned is what a handler came back with.
type returned struct {
	response *Response
	err      error
}

// start runs the handler once over the record, whose maps and body become the handler's own, in a goroutine of
// its own, which is the only way to survive runtime.Goexit. It and a panic are errors: they end the attempt, not the process. Exactly one value comes
// out of the channel, which nobody needs to receive.
func (h *Handler) start(ctx context.Context, rec *dedup.Record, attempt int) <-chan returned {
	out := make(chan returned, 1)
	ev := eventOf(rec, attempt)
	go func() {
		var r returned
		came := false
		defer func() {
			if v := recover(); v != nil {
				r = returned{err: newPanic(v)}
			} else if !came {
				r = returned{err: errGoexit}
			}
			out <- r
		}()
		r.response, r.err = h.next(ctx, ev)
		probe(r.err)
		came = true
	}()
	return out
}

// probe asks an error all that is asked of it later. A broken one, such as a nil pointer that became an error,
// then panics where the handler's panics are caught.
func probe(err error) {
	if err == nil {
		return
	}
	_ = err.Error()
	_ = errType(err)
	_, _ = classify(err)
	_ = notBefore(err)
}

// eventOf is the event as handlers see it, not decoded yet. It shares its maps and its body with the record.
func eventOf(rec *dedup.Record, attempt int) Event[any] {
	p := &rec.Payload
	ev := Event[any]{
		ID:         rec.Key.ID,
		VendorID:   p.VendorID,
		EventID:    rec.Event,
		Producer:   p.Producer,
		Endpoint:   p.Endpoint,
		Principal:  rec.Key.Principal,
		Type:       p.Type,
		Attempt:    attempt,
		Accepted:   rec.Accepted,
		KeyField:   p.KeyField,
		Method:     p.Method,
		Target:     p.Target,
		Header:     p.Header,
		Attributes: p.Attributes,
		Body:       p.Body,
	}
	ev.describe()
	return ev
}

// decodeEvent gives the event its data.
func decodeEvent[T any](ev Event[any], decode decodeFunc) (Event[T], error) {
	typed := Event[T]{
		ID:        ev.ID,
		VendorID:  ev.VendorID,
		EventID:   ev.EventID,
		Producer:  ev.Producer,
		Endpoint:  ev.Endpoint,
		Principal: ev.Principal,
		Type:      ev.Type,
		Attempt:   ev.Attempt,
		Accepted:  ev.Accepted,
		KeyField:  ev.KeyField,
		Method:    ev.Method,
		Target:    ev.Target,
		Header:    ev.Header,

		SignedFields:   ev.SignedFields,
		SignatureLabel: ev.SignatureLabel,

		Source:     ev.Source,
		Subject:    ev.Subject,
		Time:       ev.Time,
		Extensions: ev.Extensions,
		Attributes: ev.Attributes,
		Body:       ev.Body,
	}
	plain, err := decodedBody(ev.Header, ev.Body, maxPlain)
	if err == nil {
		ev.Body = plain
		err = decodeInto(&typed.Data, ev, decode)
	}
	if err != nil {
		return typed, &undecodable{typ: strings.TrimPrefix(fmt.Sprintf("%T", &typed.Data), "*"), err: err}
	}
	return typed, nil
}

func decodeInto(data any, ev Event[any], decode decodeFunc) error {
	switch v := data.(type) {
	case *[]byte:
		*v = ev.Body
	case *json.RawMessage:
		*v = ev.Body
	case *url.Values:
		form, err := url.ParseQuery(string(ev.Body))
		if err != nil {
			return err
		}
		*v = form
	default:
		contentType, body, err := producer.CloudEventData(ev.Header.Get("Content-Type"), ev.Body)
		if err != nil {
			return err
		}
		return decode(contentType, body, data)
	}
	return nil
}

// decodeJSON is the default of Config.Decode. encoding/json refuses anything after the value. Text is the one
// thing that is taken as it is, by handlers of strings.
func decodeJSON(contentType string, body []byte, v any) error {
	if text, ok := v.(*string); ok && strings.HasPrefix(contentType, "text/") && utf8.Valid(body) {
		*text = string(body)
		return nil
	}
	return json.Unmarshal(body, v)
}

// errGoexit is the error of a handler that ended its goroutine.
var errGoexit = errors.New("the handler called runtime.Goexit")

// panicked is the error of a handler that panicked. Its text may hold bytes of the payload; its stack holds
// none, since it consists of functions and lines without their arguments.
type panicked struct {
	value any
	stack []string
}

func (e *panicked) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// newPanic notes where the panic came from. It must be called by the function that recovered it.
func newPanic(v any) *panicked {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	e := &panicked{value: v}
	for {
		f, more := frames.Next()
		if f.Function != "" {
			e.stack = append(e.stack, fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line))
		}
		if !more {
			return e
		}
	}
}
