package inspect_test

import (
	"context"
	"errors"
	"html"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
)

func TestEditAndSend(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	store := newStore(t)
	rec := claim(t, store, "k", "order.paid", []byte("\n{\"a\":\n1}"))
	large := claim(t, store, "large", "order.paid", []byte(strings.Repeat("x", 70<<10)))
	var sent []string
	var fails error
	o := inspect.Options{
		Store: store, Token: token, ReadToken: readToken, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Send: func(_ context.Context, _ dedup.Record, body []byte) (inspect.Sent, error) {
			sent = append(sent, string(body))
			return inspect.Sent{Status: 401, Code: "signature_mismatch"}, fails
		},
	}
	page := inspect.Page(o)
	t.Cleanup(page.Close)
	cookie := enter(page, "POST", "/ui/login", "", "token="+token).Header().Get("Set-Cookie")
	path := "/ui/events/" + rec.Event
	text := enter(page, "GET", path, cookie, "").Body.String()
	if !strings.Contains(html.UnescapeString(text), ">\n\n{\"a\":\n1}</textarea>") { // the first line end is the form's
		t.Errorf("the form is in %s", text)
	}
	form := url.Values{"form": {formTokens.FindStringSubmatch(text)[1]}, "body": {"\r\n{\"a\":\r\n2}"}}
	post := func(path, cookie string) int { return enter(page, "POST", path, cookie, form.Encode()).Code }
	if status := post(path+"/send", cookie); status != 303 {
		t.Errorf("status %d", status)
	}
	text = enter(page, "GET", "/ui/", cookie, "").Body.String()
	if !strings.Contains(text, "Sent, and answered 401, signature mismatch.") || len(sent) != 1 ||
		sent[0] != "\n{\"a\":\n2}" || !strings.Contains(log.String(), "action=send event="+rec.Event) {
		t.Errorf("sent %q; log %s; page %s", sent, log.String(), text)
	}
	fails = errors.New("only it has the key")
	post(path+"/send", cookie)
	text = enter(page, "GET", path, cookie, "").Body.String()
	if !strings.Contains(text, "Not sent: only it has the key.") {
		t.Errorf("after a failure: %s", text)
	}
	sent = nil
	if status := post("/ui/events/"+large.Event+"/send", cookie); status != 303 || len(sent) > 0 {
		t.Errorf("a large body: status %d, sent %q", status, sent)
	}
	form.Set("form", "wrong")
	if status := post(path+"/send", cookie); status != 403 || len(sent) > 0 {
		t.Errorf("a wrong form: status %d, sent %q", status, sent)
	}
	reader := enter(page, "POST", "/ui/login", "", "token="+readToken).Header().Get("Set-Cookie")
	text = enter(page, "GET", path, reader, "").Body.String()
	form.Set("form", formTokens.FindStringSubmatch(text)[1])
	if status := post(path+"/send", reader); status != 403 || len(sent) > 0 || strings.Contains(text, "Edit and send") {
		t.Errorf("a reader: status %d, sent %q, %s", status, sent, text)
	}

	o.Send = nil
	page = inspect.Page(o)
	t.Cleanup(page.Close)
	cookie = enter(page, "POST", "/ui/login", "", "token="+token).Header().Get("Set-Cookie")
	text = enter(page, "GET", path, cookie, "").Body.String()
	form.Set("form", formTokens.FindStringSubmatch(text)[1])
	if status := post(path+"/send", cookie); status != 404 || strings.Contains(text, "Edit and send") {
		t.Errorf("where it is off: status %d, %s", status, text)
	}
}
