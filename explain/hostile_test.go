package explain_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// hostileConfig has an endpoint of each kind.
func hostileConfig(t testing.TB) []producer.Producer {
	t.Helper()
	addressed := custom(func(h *verify.HMAC) { h.Content = "{url}\n{body}" })
	addressed.Name = "x"
	key, err := verify.NewHMACKey("h1", []byte(hexSecret))
	if err != nil {
		t.Fatal(err)
	}
	adyen, _ := preset.Find("adyen")
	sns, _ := preset.Find("aws-sns")
	paypal, _ := preset.Find("paypal")
	all := []producer.Producer{
		preset.Stripe("whsec_live_live_live", "whsec_older_older_older"), preset.GitHub("s3cr3t-s3cr3t-s3cr3t"),
		preset.With("standard-webhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
		preset.With("square", "sq-key-sq-key-sq-key"),
		preset.With("twilio", "12345678901234567890123456789012"),
		adyen.Open(preset.Settings{Secrets: []string{strings.Repeat("ab", 32)}}),
		sns.Open(preset.Settings{Topics: []string{"arn:aws:sns:us-east-1:1:x"}}),
		paypal.Open(preset.Settings{Account: []string{"WH-1"}}),
		addressed, static(verify.BearerToken("tok_0123456789")), producer.Signed("shop", verify.StaticKeys(key)),
	}
	for _, p := range all {
		if p.Err != nil {
			t.Fatal(p.Err)
		}
	}
	return all
}

// signatures are fields of every endpoint, well formed and wrong.
func signatures() http.Header {
	h := http.Header{}
	h.Set("Stripe-Signature", "t=1795319382,v1="+strings.Repeat("0", 64))
	h.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
	h.Set("Webhook-Id", "msg_1")
	h.Set("Webhook-Timestamp", "1795319382")
	h.Set("Webhook-Signature", "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	h.Set("X-Square-Hmacsha256-Signature", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	h.Set("X-Twilio-Signature", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	h.Set("X-Sig", strings.Repeat("0", 64))
	h.Set("Authorization", "Bearer nothing")
	h.Set("Content-Type", "application/json")
	h.Set("Signature-Input", `sig1=("@method" "@target-uri" "content-type");created=1795319382;keyid="h1"`)
	h.Set("Signature", "sig1=:AAAA:")
	return h
}

// long runs every case against every endpoint.
var long = os.Getenv("EYELET_LONG") != ""

// some returns the endpoints of case number n: one, in turn, or all.
func some(config []producer.Producer, n int) []producer.Producer {
	if long {
		return config
	}
	i := n % len(config)
	return config[i : i+1]
}

// hostile explains a delivery to each of those endpoints.
func hostile(t testing.TB, config, those []producer.Producer, target string, h http.Header, body []byte) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		return
	}
	e := explain.New(config)
	for _, p := range those {
		explained(t, e, config, explain.Delivery{
			Endpoint: p.Name, Body: body, Declared: int64(len(body)), Now: signedAt, Request: &http.Request{
				Method: http.MethodPost, URL: u, RequestURI: u.RequestURI(), Host: u.Host, Header: h.Clone(),
				Body: http.NoBody,
			}})
	}
}

// explained checks the bounds and the texts of a run.
func explained(t testing.TB, e *explain.Explainer, config []producer.Producer, d explain.Delivery) {
	t.Helper()
	report := e.Explain(t.Context(), d)
	if report.Trials > explain.MaxTrials {
		t.Errorf("%s: %d trials", d.Endpoint, report.Trials)
	}
	checkReport(t, config, report)
}

func TestHostileDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	config := hostileConfig(t)
	part := 8 // of the sizes
	if long {
		part = 1
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 64 / part {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	for i, tc := range []struct{ name, body string }{
		{"500,000 brackets", strings.Repeat("[", 500_000)},
		{"closed brackets", strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)},
		{"nested to 64", strings.Repeat("[", 64) + strings.Repeat("1,", 100_000/part) + "1" + strings.Repeat("]", 64)},
		{"1 MiB of members", strings.Repeat(`{"a":`, (1<<20)/5/part)},
		{"many short values", "[" + strings.Repeat("1,", 400_000/part) + "1]"},
		{"a gzip bomb", bomb.String()},
		{"not UTF-8", strings.Repeat("\xff\xfe", 1000)},
		{"NUL", "{\"a\":\"\x00\"}"},
		{"a long string", `"` + strings.Repeat(`\u003c`, 150_000/part) + `"`},
		{"many quotes", strings.Repeat(`\"`, 500_000/part)},
		{"long values", `{"id":"` + strings.Repeat("x", 12<<10) + `","type":"` +
			strings.Repeat("\x1b[1m\u202e<b>", 1250) + `"}`},
		{"empty", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			hostile(t, config, some(config, i), public+"/webhooks/x?a=1&b=2&c=3&d=4", signatures(), []byte(tc.body))
		})
	}
}

func TestHostileFieldsAreShownSafely(t *testing.T) {
	t.Parallel()
	config := hostileConfig(t)
	for i, text := range []string{
		strings.Repeat("a", 12<<10), strings.Repeat("<i>\x1b[7m\u202e\x00\xff", 1000),
		"<script>alert(1)</script>", "\x1b[2J\x1b]0;x\a", "\u202eevil\u202c", "\xff\xfe",
		"a\x00b", "&lt;",
	} {
		h := signatures()
		for _, name := range []string{"Content-Type", "X-Forwarded-Host", "X-Forwarded-Prefix", "X-Amz-Sns-Topic-Arn",
			"Forwarded",
			"Idempotency-Key", "X_Sig", "Date"} {
			h[name] = []string{text}
		}
		hostile(t, config, some(config, i), public+"/webhooks/x", h, []byte(`{"id":"`+text+`"}`))
		for _, name := range []string{"Stripe-Signature", "X-Hub-Signature-256", "Authorization", "Signature-Input",
			"X-Sig"} {
			h[name] = []string{text}
		}
		hostile(t, config, some(config, i+1), public+"/webhooks/x", h, nil)
	}
}

// checkReport checks that a report holds no secret and nothing that steers a terminal or a page.
func checkReport(t testing.TB, config []producer.Producer, report explain.Report) {
	t.Helper()
	for _, f := range report.Findings {
		text := fmt.Sprint(f)
		if strings.ContainsFunc(text, func(r rune) bool {
			return r < ' ' || r == 0x7f || r == '<' || r == '>' || r == '&' || r >= 0x202a && r <= 0x202e
		}) {
			t.Errorf("unsafe text %q", text)
		}
		for _, secret := range secretsOf(config) {
			if strings.Contains(text, secret) {
				t.Errorf("a secret in %q", text)
			}
		}
		if !slices.Contains(explain.Causes(), f.Cause) {
			t.Errorf("%q is not in the closed set", f.Cause)
		}
	}
}

func secretsOf(config []producer.Producer) (all []string) {
	for _, p := range config {
		if one, ok := p.Scheme.(verify.Alternator); ok {
			for _, o := range one.Offers(context.Background()) {
				if len(o.Secret) >= 4 {
					all = append(all, string(o.Secret))
				}
			}
		}
	}
	return all
}

// FuzzExplain explains deliveries to one endpoint. Where its scheme can sign, the first body is
// signed, and the second one arrives.
func FuzzExplain(f *testing.F) {
	config := hostileConfig(f)
	const spelt = "{\n \"id\": \"evt_1\",\n \"key\": \"" + hexSecret + "\"\n}"
	for i := range config { // which, URL, two fields, both bodies, and the seconds between
		f.Add(byte(i), "/webhooks/x?a=1&b=2", "X-Forwarded-Host", "tunnel.example", "Date", "",
			[]byte(doc), []byte(spelt), 7)
	}
	for _, s := range []struct {
		which          byte
		url, name, its string
		signed, came   string
		late           int
	}{
		{0, "/webhooks/stripe", "Stripe-Signature", "t=1795319382,v1=" + hexSecret, doc, doc, 1},
		{0, "/", "X-Original-Uri", "/a%2Fb?whsec_live_live_live", "{}", "{}\r\n", 3600},
		{1, "/webhooks/github", "X-Hub-Signature", "sha1=00", doc, "payload=%7B%7D", -400},
		{2, "/", "Webhook-Timestamp", "1795319382000", spelt, "\xef\xbb\xbf" + spelt, 1<<31 - 1},
		{8, "/a%2Fb/", "X-Original-Uri", "/tok_0123456789", doc, "\"" + strings.Repeat(`\u003c`, 40) + "\"", 0},
		{8, "/webhooks/x", "X_Sig", hexSecret, doc, strings.Repeat("[", 5000), 0},
		{9, "/?token=tok_0123456789", "Authorization", "Basic tok_0123456789", "", doc, 0},
		{10, "/webhooks/shop", "Signature-Input", `sig1=("@method");keyid="h1";created=x`, doc, "\x1f\x8b\x08\x00", 0},
		{138, "/webhooks/shop", "Forwarded", `host="a";proto=http`, doc, "", 30000},
	} {
		f.Add(s.which, s.url, s.name, s.its, "Content-Type", "text/plain", []byte(s.signed), []byte(s.came), s.late)
	}
	f.Fuzz(func(t *testing.T, which byte, target, name1, its1, name2, its2 string, signed, came []byte, late int) {
		u, err := url.Parse(public + target)
		if err != nil || !strings.HasPrefix(target, "/") || len(signed)+len(came) > 1<<20 {
			return
		}
		p := config[int(which&0x7f)%len(config)]
		r := &http.Request{Method: http.MethodPost, URL: u, RequestURI: u.RequestURI(), Host: u.Host,
			Header: signatures(), Body: http.NoBody}
		if by, ok := p.Scheme.(signer); ok {
			_ = by.Sign(r, signed, signedAt) // refused: the wrong signature stays
		}
		r.Header[http.CanonicalHeaderKey(name1)] = []string{its1}
		r.Header[http.CanonicalHeaderKey(name2)] = []string{its2}
		explained(t, explain.New(config), config, explain.Delivery{
			Endpoint: p.Name, Request: r, Body: came, Unread: which > 0x7f, Declared: int64(len(came)),
			Now: signedAt.Add(time.Duration(late) * time.Second), Offsets: []time.Duration{time.Second, -time.Hour},
		})
	})
}

func TestTheContextAndItsTimeEndARun(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	u, _ := url.Parse(public + "/webhooks/stripe")
	for within, ctx := range map[time.Duration]context.Context{time.Hour: ended, time.Nanosecond: t.Context()} {
		e := explain.New(hostileConfig(t))
		e.Within = within
		report := e.Explain(ctx, explain.Delivery{Endpoint: "stripe", Body: []byte(doc), Now: signedAt,
			Request: &http.Request{Method: http.MethodPost, URL: u, Header: signatures()}})
		if report.Complete || report.Trials > 0 || len(report.Findings) > 0 {
			t.Errorf("within %v: %+v", within, report)
		}
	}
}

// TestTheDocumentListsEveryCause holds docs/explain.md and the closed set together.
func TestTheDocumentListsEveryCause(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^`([a-z_0-9]+)` \\| (.+)$").FindAllStringSubmatch(string(raw), -1)
	var listed []explain.Cause
	for _, row := range rows {
		c := explain.Cause(row[1])
		listed = append(listed, c)
		if c.Sentence() != row[2] || c.Remedy() == "" {
			t.Errorf("docs/explain.md: %s is %q, want %q and a remedy", c, row[2], c.Sentence())
		}
	}
	if !slices.Equal(listed, explain.Causes()) {
		t.Errorf("docs/explain.md lists %v, want %v", listed, explain.Causes())
	}
}
