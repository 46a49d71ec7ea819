package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// documented writes the first configuration after a heading of a page, with values for its
// variables, and returns its name.
func documented(t *testing.T, page, heading string, values map[string]string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	check(t, err)
	_, rest, found := strings.Cut(string(text), "\n"+heading+"\n")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	yaml, _, ok := strings.Cut(rest, "```")
	if !found || !ok {
		t.Fatalf("%s has no configuration after %q", page, heading)
	}
	for name, value := range values {
		yaml = strings.ReplaceAll(yaml, "${"+name+"}", value)
	}
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	appended := "listen: 127.0.0.1:0\noperations: 127.0.0.1:0\nlog: {level: error}\n" + yaml
	check(t, os.WriteFile(file, []byte(appended), 0o600))
	return file
}

func macOf(secret, content string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(content))
	return mac.Sum(nil)
}

// send posts a delivery. fields are names and values; an empty value is left out.
func (r *running) send(t *testing.T, at, media, body string, fields ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.deliveries+"/webhooks/"+at, strings.NewReader(body))
	check(t, err)
	req.Header.Set("Content-Type", media)
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i+1] != "" {
			req.Header.Set(fields[i], fields[i+1])
		}
	}
	return answered(t, http.DefaultClient, req)
}

// TestCombinedSchemesInTheFile: each row is one delivery, in order, and what must come back.
func TestCombinedSchemesInTheFile(t *testing.T) {
	t.Parallel()
	key := "lab-signing-key-0123456789abcdef"
	file := documented(t, "config.md", "### Schemes `all` and `any`", map[string]string{
		"LAB_TOKEN": "lab-token-17", "LAB_SIGNING_TOKEN": "whsec_" + base64.StdEncoding.EncodeToString([]byte(key)),
		"PAY_PASSWORD": "pay-password-17", "PAY_SECRET": "pay-secret-17",
	})
	r := launch(t, "serve", "--config", file)
	now := strconv.FormatInt(time.Now().Unix(), 10)
	const push, other = `{"object_kind":"push"}`, `{"object_kind":"tag_push"}`
	lab := func(id, body, token, signedBy, signedBody string) *http.Response {
		signature := ""
		if signedBy != "" {
			signature = "v1," + base64.StdEncoding.EncodeToString(macOf(signedBy, id+"."+now+"."+signedBody))
		}
		return r.send(t, "lab", "application/json", body, "X-Gitlab-Token", token, "webhook-id", id,
			"webhook-timestamp", now, "webhook-signature", signature, "X-Gitlab-Event", "Push Hook")
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("pay:pay-password-17"))
	pay := func(body, authorization, signedBy string) *http.Response {
		signature := ""
		if signedBy != "" {
			signature = hex.EncodeToString(macOf(signedBy, body))
		}
		return r.send(t, "pay", "application/json", body, "Authorization", authorization, "X-Signature", signature)
	}
	for _, tt := range []struct {
		name   string
		res    *http.Response
		status int
		known  bool
		code   string
	}{
		{"the token", lab("l-1", push, "lab-token-17", "", ""), 200, false, ""},
		{"the same event, now signed", lab("l-1", push, "", key, push), 200, true, ""},
		{"a signature", lab("l-2", other, "", key, other), 200, false, ""},
		{"a wrong signature beside the token", lab("l-3", push+" ", "lab-token-17", "x", push), 200, false, ""},
		{"neither", lab("l-4", push, "", "", ""), 401, false, "credentials_missing"},
		{"a wrong token", lab("l-4", push, "lab-token-18", "", ""), 401, false, "credentials_mismatch"},
		{"another key", lab("l-4", push, "", "x", push), 401, false, "signature_invalid"},
		{"a changed body", lab("l-4", other, "", key, push), 401, false, "signature_invalid"},
		{"both", pay(`{"id":"p-1"}`, basic, "pay-secret-17"), 200, false, ""},
		{"both again", pay(`{"id":"p-1"}`, basic, "pay-secret-17"), 200, true, ""},
		{"the password alone", pay(`{"id":"p-2"}`, basic, ""), 401, false, "signature_missing"},
		{"the signature alone", pay(`{"id":"p-2"}`, "", "pay-secret-17"), 401, false, "credentials_missing"},
		{"a wrong signature", pay(`{"id":"p-2"}`, basic, "pay-secret-18"), 401, false, "signature_invalid"},
	} {
		if known := tt.res.Header.Get("Idempotency-Replayed") == "true"; tt.res.StatusCode != tt.status ||
			known != tt.known {
			t.Errorf("%s: %s, known %v", tt.name, tt.res.Status, known)
		}
		problem := make([]byte, 1<<10)
		n, _ := tt.res.Body.Read(problem)
		if tt.code != "" && !strings.Contains(string(problem[:n]), `"code":"`+tt.code+`"`) {
			t.Errorf("%s: %s, want %s", tt.name, problem[:n], tt.code)
		}
	}
	if ask := lab("l-5", push, "", "", "").Header.Get("WWW-Authenticate"); ask == "" {
		t.Error("a refusal names no way to authenticate")
	}
	counted(t, file, "done", 4)
}

// TestASignatureInTheDelivery sends what Mailgun sends, in JSON and in a form, to the scheme that
// the documentation shows.
func TestASignatureInTheDelivery(t *testing.T) {
	t.Parallel()
	file := documented(t, "config.md", "### `scheme: hmac`", map[string]string{"MAIL_SECRET": "mail-secret-17"})
	r := launch(t, "serve", "--config", file)
	values := func(token, secret string, at time.Time) (stamp, signature string) {
		stamp = strconv.FormatInt(at.Unix(), 10)
		return stamp, hex.EncodeToString(macOf(secret, stamp+token))
	}
	now := time.Now()
	delivery := func(event, token, secret string, at time.Time) string {
		stamp, signature := values(token, secret, at)
		return `{"signature":{"timestamp":"` + stamp + `","token":"` + token + `","signature":"` + signature +
			`"},"event-data":{"id":"` + event + `","event":"opened"}}`
	}
	form := func(token, secret string) string {
		stamp, signature := values(token, secret, now)
		return url.Values{"timestamp": {stamp}, "token": {token}, "signature": {signature}, "subject": {"tea"}}.Encode()
	}
	const asJSON, asForm = "application/json", "application/x-www-form-urlencoded"
	first := delivery("m-1", "token-1", "mail-secret-17", now)
	stamp, _ := values("token-1", "mail-secret-17", now)
	for _, tt := range []struct {
		name, media, body string
		status            int
		known             bool
	}{
		{"an event", asJSON, first, 200, false},
		{"the same again", asJSON, first, 200, true},
		{"another body: quarantined", asJSON, delivery("m-1", "token-1b", "mail-secret-17", now), 200, false},
		{"another event under its signature", asJSON, strings.Replace(first, "m-1", "m-9", 1), 401, false},
		{"a digit moved to the token", asJSON, strings.NewReplacer(stamp, stamp[:9], "token-1",
			stamp[9:]+"token-1").Replace(first), 400, false},
		{"a form", asForm, form("token-2", "mail-secret-17"), 200, false},
		{"another secret", asJSON, delivery("m-2", "token-3", "mail-secret-18", now), 401, false},
		{"another secret of a form", asForm, form("token-4", "mail-secret-18"), 401, false},
		{"an hour old", asJSON, delivery("m-3", "token-5", "mail-secret-17", now.Add(-time.Hour)), 401, false},
		{"no signature", asJSON, `{"event-data":{"id":"m-4"}}`, 401, false},
		{"no values", asForm, "subject=tea", 401, false},
		{"neither JSON nor a form", "text/plain", "tea", 401, false},
	} {
		res := r.send(t, "mail", tt.media, tt.body)
		known := res.Header.Get("Idempotency-Replayed") == "true"
		if res.StatusCode != tt.status || known != tt.known {
			t.Errorf("%s: %s, known %v", tt.name, res.Status, known)
		}
	}
	counted(t, file, "done", 2)
}
