package preset

import (
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

// webSubFor receives the topics of subscriptions.
func webSubFor(all ...Subscription) producer.Producer {
	return Open("websub", Settings{Subscriptions: all})
}

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

// The recorded deliveries have the challenges that are answered, and other refusals.
func TestSignedChallengesHaveOneReading(t *testing.T) {
	t.Parallel()
	slack, zoom := Slack(testSecret), With("zoom", testSecret)
	reply, err := slack.Handshake(t.Context(), signedBody(t, slack, `{"type":"url_verification","challenge":"<b>"}`))
	if err != nil || string(reply.Body) != "<b>" || reply.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a browser may sniff another type: %+v, %v", reply, err)
	}
	const plain = `{"event":"endpoint.url_validation","payload":{"plainToken":"%"}}`
	for _, c := range []struct {
		p    producer.Producer
		body string
		want verify.Code
	}{
		{slack, `{"type":"url_verification","challenge":{}}`, verify.EventMalformed},
		{slack, `{"type":"url_verification","type":"x"}`, verify.AmbiguousField},
		{slack, `payload=%7B%22type%22%3A%22block_actions%22%7D`, ""},
		{zoom, strings.Replace(plain, "%", "v0:1750000000:{}", 1), verify.EventMalformed},
		{zoom, strings.Replace(plain, "%", "a b", 1), verify.EventMalformed},
		{zoom, strings.Replace(plain, "%", "é", 1), verify.EventMalformed},
		{zoom, strings.Replace(plain, "%", strings.Repeat("a", 257), 1), verify.EventMalformed},
	} {
		reply, err := c.p.Handshake(t.Context(), signedBody(t, c.p, c.body))
		if reply != nil || verify.CodeOf(err) != c.want {
			t.Errorf("%s: got %+v, %v", c.body, reply, err)
		}
	}
	foreign := signedBody(t, With("zoom", "stranger"), plain)
	if reply, err := zoom.Handshake(t.Context(), foreign); reply != nil || err == nil {
		t.Errorf("a challenge with another secret: got %+v, %v", reply, err)
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

func TestUnsignedChallengesHaveOneReading(t *testing.T) {
	t.Parallel()
	p := Open("meta", Settings{Token: "tea & biscuits", Secrets: []string{testSecret}})
	query := "hub.mode=subscribe&hub.verify_token=" + url.QueryEscape("tea & biscuits") + "&hub.challenge="
	for value, want := range map[string]verify.Code{
		"1": "", "1&hub.challenge=2": verify.AmbiguousField, strings.Repeat("x", 2000): verify.ChallengeUnexpected,
	} {
		reply, err := p.Challenge(challengeRequest(t, http.MethodGet, query+value))
		if verify.CodeOf(err) != want || (reply != nil) != (want == "") {
			t.Errorf("%.80s: got %+v, %v", value, reply, err)
		}
	}
	if reply, err := p.Challenge(challengeRequest(t, http.MethodPost, query+"1")); reply != nil || err != nil {
		t.Errorf("a POST is answered: got %+v, %v", reply, err)
	}
	if off := With("meta", testSecret); off.Challenge != nil || len(off.ChallengeMethods) > 0 {
		t.Error("the check is on without a token")
	}
}

// A secret for any topic does not cover the topic.
func TestThePrincipalOfWebSubIsTheTopicOfTheSecret(t *testing.T) {
	t.Parallel()
	const a, b, body = "https://a.example/feed", "https://b.example/feed", "<feed/>"
	both := webSubFor(Subscription{Topic: a, Secret: "secret of a", Token: testToken},
		Subscription{Topic: b, Secret: "secret of b", Token: testToken})
	preset, _ := Find("websub")
	common := preset.Open(Settings{Secrets: []string{"common"}})
	for _, c := range []struct {
		p               producer.Producer
		link, principal string
	}{
		{both, a, a}, {both, b, b}, {webSubFor(Subscription{Topic: a, Secret: "secret of a", Token: testToken}), "", a},
		{common, "https://c.example/feed", ""}, {common, "", ""},
	} {
		r := challengeRequest(t, http.MethodPost, "")
		if c.link != "" {
			r.Header.Set("Link", `<`+c.link+`>; rel="self"`)
		}
		if _, err := signBy(c.p.Scheme, r, []byte(body), testNow); err != nil {
			t.Fatal(err)
		}
		if _, id, err := receive(c.p, r, []byte(body), testNow); err != nil || id.Principal != c.principal {
			t.Errorf("the principal of topic %q is %q, %v", c.link, id.Principal, err)
		}
	}
	if reply, err := common.Challenge(challengeRequest(t, http.MethodGet,
		"hub.mode=subscribe&hub.challenge=x&hub.topic=y")); err == nil || reply.Status != 404 {
		t.Errorf("without a subscription: got %+v, %v", reply, err)
	}
}

// TestWebSubWithoutATokenIsConfirmedWhilePending sends a check that any hub could send.
func TestWebSubWithoutATokenIsConfirmedWhilePending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := webSubFor(Subscription{Topic: "https://a.example/feed", Secret: testSecret})
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
		p := webSubFor(Subscription{Topic: "https://a.example/feed", Secret: testSecret, Token: token})
		errs := p.Check()
		if (len(errs) == 0) != good {
			t.Errorf("token %q: %v", token, errs)
		}
		if text := errors.Join(errs...); text != nil && token != "" && strings.Contains(text.Error(), token) {
			t.Errorf("the error reveals the token: %v", text)
		}
	}
}
