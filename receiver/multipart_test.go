package receiver_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

const multipartX = "multipart/form-data; boundary=X"

// multipartForm is a form with a file after its fields.
func multipartForm(fields ...string) string {
	var b strings.Builder
	for i := 0; i < len(fields); i += 2 {
		b.WriteString("--X\r\nContent-Disposition: form-data; name=" + fields[i] + "\r\n\r\n" + fields[i+1] + "\r\n")
	}
	b.WriteString("--X\r\nContent-Disposition: form-data; name=\"attachment-1\"; filename=\"a.txt\"\r\n" +
		"Content-Type: text/plain\r\n\r\nhello\r\n--X--\r\n")
	return b.String()
}

func hexMAC(text string) string {
	mac := hmac.New(sha256.New, []byte(secret17))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// TestMultipartForms: signature, key, type and event are read of a form with files, which stay in
// the stored body.
func TestMultipartForms(t *testing.T) {
	t.Parallel()
	embedded := producer.Producer{
		Name: "own", Contract: producer.Webhook, Key: producer.Form("id"), Type: producer.Form("kind"),
		Scheme: &producer.Embedded{Signature: producer.Form("sig"), Timestamp: producer.Form("at"),
			Content: "{timestamp}.{form:id}",
			HMAC:    &verify.HMAC{Encoding: verify.Hex, Secrets: verify.Secrets(secret17)}},
	}
	plex := producer.Producer{
		Name: "plex", Contract: producer.Webhook, Key: producer.JSON("id"), Type: producer.JSON("event"),
		FormMember: "payload",
		Scheme:     &verify.HMAC{Headers: []string{"X-Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets(secret17)},
	}
	forms, events := make(chan receiver.Event[url.Values], 9), make(chan receiver.Event[json.RawMessage], 9)
	onForm := func(_ context.Context, ev receiver.Event[url.Values]) error { forms <- ev; return nil }
	store := memstore.New(memstore.Options{})
	rx := opened(t, receiver.Config{
		Store: store, Producers: []producer.Producer{embedded, plex, preset.With("mailgun", secret17)},
		Handlers: []receiver.Handler{
			receiver.On("own", "*", onForm), receiver.On("mailgun", "*", onForm),
			receiver.On("plex", "*", func(_ context.Context, ev receiver.Event[json.RawMessage]) error {
				events <- ev
				return nil
			}),
		},
	})
	at := strconv.FormatInt(time.Now().Unix(), 10)
	token := strings.Repeat("b", 50)
	mail := []string{"timestamp", at, "token", token, "signature", hexMAC(at + token), "subject", "tea"}
	own := multipartForm("sig", hexMAC(at+".17"), "at", at, "id", "17", "kind", "order.paid")
	for name, body := range map[string]string{"own": own, "mailgun": multipartForm(mail...)} {
		if w := answer(rx, post(name, body, "Content-Type", multipartX)); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		ev := <-forms
		if string(ev.Body) != body || len(ev.Data) < 4 || ev.Data.Has("attachment-1") ||
			name == "own" && (ev.ID != "17" || ev.Type != "order.paid") {
			t.Errorf("%s: %+v", name, ev)
		}
	}
	const text = `{"id":"e1","event":"media.play"}`
	whole := multipartForm("payload", text)
	if w := answer(rx, post("plex", whole, "Content-Type", multipartX, "X-Sig", hexMAC(whole))); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if ev := <-events; string(ev.Data) != text || string(ev.Body) != whole || ev.ID != "e1" || ev.Type != "media.play" {
		t.Errorf("%+v", ev)
	}
	accepted := len(recordsOf(t, store))
	for name, row := range map[string]struct {
		producer, media, body string
		want                  int
		code                  string
	}{
		"forged": {"own", multipartX, strings.Replace(own, "=id\r\n\r\n17", "=id\r\n\r\n18", 1), 401,
			"signature_invalid"},
		"twice":       {"mailgun", multipartX, multipartForm(append(mail, "token", token)...), 401, "ambiguous_field"},
		"cut":         {"mailgun", multipartX, own[:len(own)-6], 415, "media_type_unsupported"},
		"no boundary": {"mailgun", "multipart/form-data", own, 415, "media_type_unsupported"},
		"XML":         {"mailgun", "application/xml", "<a/>", 415, "media_type_unsupported"},
		"JSON":        {"own", "application/json", "{}", 415, "media_type_unsupported"},
		"unsigned":    {"mailgun", multipartX, multipartForm("subject", "tea"), 401, "signature_missing"},
	} {
		w := answer(rx, post(row.producer, row.body, "Content-Type", row.media))
		if w.Code != row.want || !strings.Contains(w.Body.String(), `"code":"`+row.code+`"`) {
			t.Errorf("%s: %d %s, want %d %s", name, w.Code, w.Body, row.want, row.code)
		}
		if w.Code == 415 && !strings.Contains(w.Header().Get("Accept-Post"), "multipart/form-data") {
			t.Errorf("%s: Accept-Post is %q", name, w.Header().Get("Accept-Post"))
		}
	}
	if n := len(recordsOf(t, store)); n != accepted {
		t.Errorf("%d events, want %d", n, accepted)
	}
}
