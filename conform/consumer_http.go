package conform

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// httpChecks are those of messages whose framing is broken or odd, of methods, sizes and paths.
var httpChecks = map[string]steps{
	"C203": func(ctx context.Context, t *run) error {
		a := t.sendParts(ctx, attemptsOf(t, "C203")[0].make(t).bytes())
		if a.status == 0 {
			return notJudged("there was no response within %s, which is allowed: %v", t.p.Timeout, a.err)
		}
		return statusOf("an incomplete body", a, []int{http.StatusRequestTimeout})
	},
	"C205": bothLengths,
	"C207": controlOctets,
	"C208": expectContinue,
	"C221": func(ctx context.Context, t *run) error {
		var errs []error
		for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
			if method == t.p.Method {
				continue
			}
			d := t.unsigned()
			d.method = method
			a := t.send(ctx, d.sign())
			n, err := t.settled(ctx, d.id, 1)
			isTaken := n > 0 || method != http.MethodGet && t.accepts(a)
			errs = append(errs, cmp.Or(err, wrongIf(isTaken, "%s got %s, and was handled %d times", method, a, n)))
		}
		return worst(errs)
	},
	"C254": func(ctx context.Context, t *run) error {
		path, query, hasQuery := strings.Cut(t.url.RequestURI(), "?")
		if hasQuery {
			query = "?" + query
		}
		for _, odd := range []string{path + "/", "/" + path, "/." + path, path + "/../conform", strings.ToUpper(path)} {
			d := t.unsigned()
			d.target = odd + query
			if a := t.sendParts(ctx, d.sign().bytes()); a.redirect() != "" {
				return wrong("%s: %s %s", d.target, a, a.redirect())
			}
		}
		return nil
	},
}

// truncated checks that a body is not accepted whose signature is right, and whose framing says
// that more was to come.
func truncated(ctx context.Context, t *run, what string, d *delivery) error {
	if a := t.sendParts(ctx, d.bytes(), nil); t.accepts(a) {
		return wrong("%s: %s", what, a)
	}
	if t.p.Effects != nil {
		time.Sleep(min(t.p.Settle/4, 200*time.Millisecond))
	}
	return unhandled(ctx, t, what, d.id)
}

// breaks checks that a malformed request is refused. Closing the connection without a response
// refuses it, too.
func breaks(ctx context.Context, t *run, what string, d *delivery, statuses []int) error {
	var errs []error
	a := t.sendParts(ctx, d.bytes())
	if a.status != 0 {
		errs = append(errs, statusOf(what, a, statuses))
	}
	if !t.accepts(a) {
		errs = append(errs, unhandled(ctx, t, what, d.id))
	}
	return worst(errs)
}

func bothLengths(ctx context.Context, t *run) error {
	t.lingers = true
	var timeout net.Error
	switch a := t.sendParts(ctx, attemptsOf(t, "C205")[0].make(t).bytes()); {
	case errors.As(a.err, &timeout) && timeout.Timeout():
		return notJudged("there was no response: %v", a.err)
	case a.status != 0 && !a.closed:
		return wrong("%s, and the connection stays open", a)
	}
	return nil
}

func controlOctets(ctx context.Context, t *run) error {
	d := t.unsigned()
	value := d.id + "\x00"
	if t.p.keyField() != "" {
		d.key(strings.ReplaceAll(d.lines(t.p.keyField())[0], d.id, value))
	} else {
		d.add("X-Conform", value)
	}
	a := t.sendParts(ctx, d.sign().bytes())
	if !t.accepts(a) {
		return nil
	}
	if t.p.keyField() == "" || t.p.Effects == nil {
		return notJudged("it was accepted, and what became of the octet cannot be seen")
	}
	if _, err := t.settled(ctx, d.id, 1); err != nil {
		return err
	}
	effects, err := t.effects(ctx)
	isKept := bytes.Contains(effects, []byte(value)) || bytes.Contains(effects, []byte(d.id+`\u0000`))
	return cmp.Or(err, wrongIf(isKept, "%s, and the octet is in the key", a))
}

func expectContinue(ctx context.Context, t *run) error {
	if slices.ContainsFunc(t.answers(), func(a *answer) bool { return a.status != 0 && a.ProtoMinor == 0 }) {
		return notApplicable("it speaks HTTP/1.0, which has no 100")
	}
	d := t.delivery().add("Expect", "100-continue")
	conn, closeConn, err := t.connect(ctx)
	if err != nil {
		return notJudged("%v", err)
	}
	defer closeConn()
	head := d.head("Content-Length: " + strconv.Itoa(len(d.body)))
	if _, err := conn.Write(head); err != nil {
		return notJudged("%v", err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(min(t.p.Timeout, 2*time.Second))); err != nil {
		return err
	}
	in := readerOf(conn)
	resp, err := http.ReadResponse(in, nil) //nolint:bodyclose // it is closed with the connection
	if err != nil {
		t.note(string(head), &answer{err: err})
		return wrong("after the head came: %v", err)
	}
	switch resp.StatusCode {
	case http.StatusContinue:
	case http.StatusRequestTimeout:
		return wrong("after the head came 408: it waited for the body")
	default:
		return nil
	}
	if _, err := conn.Write(d.body); err != nil {
		return notJudged("%v", err)
	}
	a := readAnswer(in)
	t.note(string(head)+string(d.body), a)
	return wrongIf(!t.accepts(a), "after 100 and the body came %s", a)
}
