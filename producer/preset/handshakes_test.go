package preset

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// signedBody returns a verified delivery with the body, signed with the first secret.
func signedBody(t *testing.T, p producer.Producer, body string) *producer.Delivery {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, testHook, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signBy(p.Scheme, r, []byte(body), testNow); err != nil {
		t.Fatal(err)
	}
	id, err := p.Scheme.Verify(r, func() ([]byte, error) { return []byte(body), nil })
	if err != nil {
		t.Fatal(err)
	}
	return &producer.Delivery{Request: r, Body: []byte(body), Identity: id}
}

func TestSlackChallengeIsEchoedAsText(t *testing.T) {
	t.Parallel()
	p := Slack(testSecret)
	const challenge = `<script>alert(1)</script>`
	reply, err := p.Handshake(context.Background(), signedBody(t, p,
		`{"type":"url_verification","challenge":"<script>alert(1)</script>"}`))
	if err != nil || reply == nil || reply.Status != 200 || string(reply.Body) != challenge ||
		reply.Header.Get("Content-Type") != "text/plain" {
		t.Fatalf("got %+v, %v", reply, err)
	}
	if reply.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Error("a browser may sniff another type")
	}
	for body, want := range map[string]verify.Code{
		`{"type":"event_callback","challenge":"x"}`:      "",
		`{"type":"url_verification"}`:                    verify.EventMalformed,
		`{"type":"url_verification","challenge":{}}`:     verify.EventMalformed,
		`{"type":"url_verification","type":"x"}`:         verify.AmbiguousField,
		`payload=%7B%22type%22%3A%22block_actions%22%7D`: "",
	} {
		if reply, err := p.Handshake(context.Background(), signedBody(t, p, body)); reply != nil ||
			verify.CodeOf(err) != want {
			t.Errorf("%s: got %+v, %v", body, reply, err)
		}
	}
}

func TestZoomChallengeIsAnsweredWithItsOwnSecret(t *testing.T) {
	t.Parallel()
	both := Zoom("new "+testSecret, testSecret)
	const token = `q_17-Az`
	body := `{"event":"endpoint.url_validation","payload":{"plainToken":"q_17-Az"}}`
	for _, secret := range []string{"new " + testSecret, testSecret} {
		reply, err := both.Handshake(context.Background(), signedBody(t, Zoom(secret), body))
		if err != nil || reply == nil || reply.Status != 200 || reply.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("got %+v, %v", reply, err)
		}
		var got map[string]string
		if err := json.Unmarshal(reply.Body, &got); err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(token))
		if got["plainToken"] != token || got["encryptedToken"] != hex.EncodeToString(mac.Sum(nil)) || len(got) != 2 {
			t.Errorf("got %v", got)
		}
	}
	if reply, err := both.Handshake(context.Background(), signedBody(t, Zoom("stranger"), body)); reply != nil ||
		err == nil {
		t.Errorf("a challenge with another secret: got %+v, %v", reply, err)
	}
	for body, want := range map[string]verify.Code{
		`{"event":"meeting.started","payload":{"plainToken":"x"}}`:                        "",
		`{"event":"endpoint.url_validation"}`:                                             verify.EventMalformed,
		`{"event":"endpoint.url_validation","payload":{"plainToken":"v0:1750000000:{}"}}`: verify.EventMalformed,
		`{"event":"endpoint.url_validation","payload":{"plainToken":"a b"}}`:              verify.EventMalformed,
		`{"event":"endpoint.url_validation","payload":{"plainToken":"é"}}`:                verify.EventMalformed,
		`{"event":"endpoint.url_validation","payload":{"plainToken":"` + strings.Repeat("a", 257) +
			`"}}`: verify.EventMalformed,
	} {
		if reply, err := both.Handshake(context.Background(), signedBody(t, Zoom(testSecret), body)); reply != nil ||
			verify.CodeOf(err) != want {
			t.Errorf("%s: got %+v, %v", body, reply, err)
		}
	}
}

func challengeRequest(t *testing.T, method, query string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, testHook+"?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMetaChallengeNeedsTheVerifyToken(t *testing.T) {
	t.Parallel()
	p := Meta("tea & biscuits", testSecret)
	token := "&hub.verify_token=" + url.QueryEscape("tea & biscuits")
	for _, c := range []struct {
		query  string
		status int
		code   verify.Code
	}{
		{"hub.mode=subscribe&hub.challenge=1158201444" + token, 200, ""},
		{"hub.mode=subscribe&hub.challenge=1&hub.verify_token=tea", 403, verify.ChallengeUnexpected},
		{"hub.mode=subscribe&hub.challenge=1&hub.verify_token=", 403, verify.ChallengeUnexpected},
		{"hub.mode=subscribe&hub.challenge=1", 403, verify.ChallengeUnexpected},
		{"hub.mode=unsubscribe&hub.challenge=1" + token, 403, verify.ChallengeUnexpected},
		{"hub.mode=subscribe" + token, 403, verify.ChallengeUnexpected},
		{"", 403, verify.ChallengeUnexpected},
		{"hub.mode=subscribe&hub.challenge=1&hub.challenge=2" + token, 0, verify.AmbiguousField},
		{"hub.mode=subscribe&hub.challenge=" + strings.Repeat("x", 2000) + token, 0, verify.ChallengeUnexpected},
	} {
		reply, err := p.Challenge(challengeRequest(t, http.MethodGet, c.query))
		if verify.CodeOf(err) != c.code || reply == nil && c.status != 0 || reply != nil && reply.Status != c.status {
			t.Errorf("%.80s: got %+v, %v", c.query, reply, err)
		}
		if c.status == 200 && string(reply.Body) != "1158201444" {
			t.Errorf("got %q", reply.Body)
		}
		if c.status != 200 && reply != nil && len(reply.Body) > 0 {
			t.Errorf("a refusal reflects %q", reply.Body)
		}
	}
	if reply, err := p.Challenge(challengeRequest(t, http.MethodPost,
		"hub.mode=subscribe&hub.challenge=1"+token)); reply != nil || err != nil {
		t.Errorf("a POST is answered: got %+v, %v", reply, err)
	}
	if off := Meta("", testSecret); off.Challenge != nil || len(off.ChallengeMethods) > 0 {
		t.Error("the check is on without a token")
	}
}

func TestWebSubConfirmsWantedSubscriptions(t *testing.T) {
	t.Parallel()
	const a, b = "https://a.example/feed", "https://b.example/feed"
	p := WebSub(Subscription{Topic: a, Secret: testSecret, Token: testToken},
		Subscription{Topic: b, Mode: "unsubscribe", Secret: testSecret, Token: "another-" + testToken})
	token := "token=" + testToken + "&"
	for query, want := range map[string]int{
		token + "hub.mode=subscribe&hub.challenge=x17&hub.lease_seconds=1&hub.topic=" + url.QueryEscape(a):       200,
		"token=another-" + testToken + "&hub.mode=unsubscribe&hub.challenge=x17&hub.topic=" + url.QueryEscape(b): 200,
		token + "hub.mode=denied&hub.reason=no&hub.topic=" + url.QueryEscape(a):                                  200,
		token + "hub.mode=denied&hub.topic=" + url.QueryEscape("https://c.example/feed"):                         404,
		token + "hub.mode=subscribe&hub.challenge=x17&hub.topic=" + url.QueryEscape(b):                           404,
		token + "hub.mode=subscribe&hub.challenge=x17":                                                           404,
		token + "hub.mode=subscribe&hub.topic=" + url.QueryEscape(a):                                             404,
		token + "hub.challenge=x17&hub.topic=" + url.QueryEscape(a):                                              404,
		// The token of the callback: none, another one, that of another topic, and a longer
		// one.
		"hub.mode=subscribe&hub.challenge=x17&hub.topic=" + url.QueryEscape(a):                                 404,
		"token=&hub.mode=subscribe&hub.challenge=x17&hub.topic=" + url.QueryEscape(a):                          404,
		"token=another-" + testToken + "&hub.mode=subscribe&hub.challenge=x17&hub.topic=" + url.QueryEscape(a): 404,
		"token=" + testToken + "x&hub.mode=subscribe&hub.challenge=x17&hub.topic=" + url.QueryEscape(a):        404,
		"hub.mode=denied&hub.topic=" + url.QueryEscape(a):                                                      404,
	} {
		reply, err := p.Challenge(challengeRequest(t, http.MethodGet, query))
		if reply == nil || reply.Status != want || (err == nil) != (want == 200) {
			t.Errorf("%s: got %+v, %v", query, reply, err)
			continue
		}
		if echoed := string(reply.Body) == "x17"; echoed != (want == 200 && strings.Contains(query, "challenge")) {
			t.Errorf("%s: echoed %q", query, reply.Body)
		}
		if want == 200 && reply.Header.Get("Content-Type") != "text/plain" {
			t.Errorf("got type %q", reply.Header.Get("Content-Type"))
		}
	}
}

func TestWebSubHubsSendForTheirOwnTopic(t *testing.T) {
	t.Parallel()
	const a, b = "https://a.example/feed", "https://b.example/feed"
	p := WebSub(Subscription{Topic: a, Secret: "secret of a", Token: testToken},
		Subscription{Topic: b, Secret: "secret of b", Token: testToken})
	var principal string
	send := func(link, secret string) error {
		r := challengeRequest(t, http.MethodPost, "")
		if link != "" {
			r.Header.Set("Link", `<`+link+`>; rel="self"`)
		}
		hub := &verify.HMAC{Headers: []string{"X-Hub-Signature"}, Entries: []string{"sha256={sig}"},
			Encoding: verify.Hex, Secrets: verify.Secrets(secret)}
		if err := hub.Sign(r, []byte("<feed/>"), testNow); err != nil {
			t.Fatal(err)
		}
		_, id, err := receive(p, r, []byte("<feed/>"), testNow)
		principal = id.Principal
		return err
	}
	for _, c := range []struct {
		link, secret string
		want         verify.Code
	}{
		{a, "secret of a", ""}, {b, "secret of b", ""}, {a, "secret of b", verify.SignatureMismatch},
		{"https://c.example/feed", "secret of a", verify.TopicUnexpected}, {"", "secret of a", verify.TopicUnexpected},
	} {
		if err := send(c.link, c.secret); verify.CodeOf(err) != c.want {
			t.Errorf("topic %q with the %s: got %v, want %q", c.link, c.secret, err, c.want)
		} else if err == nil && principal != c.link {
			t.Errorf("the principal of topic %q is %q", c.link, principal)
		}
	}
	preset, _ := Find("websub")
	p = preset.Open(Settings{Secrets: []string{"common"}})
	if err := errors.Join(send("https://c.example/feed", "common"), send("", "common")); err != nil ||
		len(p.Check()) > 0 {
		t.Errorf("a secret for any topic: %v, %v", err, p.Check())
	}
	if principal != "" {
		t.Errorf("a secret for any topic does not cover the topic, and the principal is %q", principal)
	}
	if reply, err := p.Challenge(challengeRequest(t, http.MethodGet,
		"hub.mode=subscribe&hub.challenge=x&hub.topic=y")); err == nil || reply.Status != 404 {
		t.Errorf("without a subscription: got %+v, %v", reply, err)
	}
	p = preset.Open(Settings{Secrets: []string{"common"}, Subscriptions: []Subscription{{Topic: a, Token: testToken}},
		Algs: []string{"sha512"}})
	if err := send(a, "common"); verify.CodeOf(err) != verify.AlgorithmNotAllowed {
		t.Errorf("an algorithm that is not listed: %v", err)
	}
	p = WebSub(Subscription{Topic: a, Secret: "secret of a", Token: testToken})
	if err := send("", "secret of a"); err != nil || principal != a {
		t.Errorf("without the name of the only topic: %q, %v", principal, err)
	}
}

// TestWebSubWithoutATokenIsConfirmedWhilePending sends a check that any hub could send.
func TestWebSubWithoutATokenIsConfirmedWhilePending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := WebSub(Subscription{Topic: "https://a.example/feed", Secret: testSecret})
		check := func(want int) {
			t.Helper()
			r := httptest.NewRequest(http.MethodGet,
				"/webhooks/websub?hub.mode=subscribe&hub.challenge=c17&hub.topic=https%3A%2F%2Fa.example%2Ffeed", nil)
			reply, err := p.Challenge(r)
			if reply == nil || reply.Status != want || (err != nil) != (want != http.StatusOK) {
				t.Errorf("%+v, %v; want %d", reply, err, want)
			}
		}
		check(http.StatusOK)
		time.Sleep(webSubPending - time.Second)
		check(http.StatusOK)
		time.Sleep(time.Second)
		check(http.StatusNotFound)
	})
}

func TestWebSubTokensMustBeUnguessable(t *testing.T) {
	t.Parallel()
	for token, good := range map[string]bool{
		testToken: true, "": true, "fifteen-letters": false, "sixteen-letters-": true, "a token with spaces": false,
		"percent%2Fencoded%2Ftoken": false,
	} {
		p := WebSub(Subscription{Topic: "https://a.example/feed", Secret: testSecret, Token: token})
		errs := p.Check()
		if (len(errs) == 0) != good {
			t.Errorf("token %q: %v", token, errs)
		}
		if text := errors.Join(errs...); text != nil && token != "" && strings.Contains(text.Error(), token) {
			t.Errorf("the error reveals the token: %v", text)
		}
	}
}
