package producer

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// trusting accepts every request, for tests of what follows verification.
type trusting struct{}

func (trusting) Verify(*http.Request, func() ([]byte, error)) (verify.Identity, error) {
	return verify.Identity{}, nil
}

func TestCheckFindsEachMistake(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		spoil func(*Producer)
		want  string // empty: fit to be opened
	}{
		{"fit", func(*Producer) {}, ""},
		{"no name", func(p *Producer) { p.Name = "" }, "a name is"},
		{"a slash in the name", func(p *Producer) { p.Name = "a/b" }, "a name is"},
		{"a name that is a path", func(p *Producer) { p.Name = ".." }, "a name is"},
		{"a long name", func(p *Producer) { p.Name = strings.Repeat("a", 64) }, "a name is"},
		{"no scheme", func(p *Producer) { p.Scheme = nil }, "no scheme"},
		{"addresses instead of a scheme", func(p *Producer) {
			p.Scheme, p.AllowedIPs = nil, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		}, ""},
		{"an invalid address", func(p *Producer) { p.AllowedIPs = []netip.Prefix{{}} }, "address"},
		{"no key", func(p *Producer) { p.Key = nil }, "no key extractor"},
		{"a batch without a key", func(p *Producer) {
			p.Key, p.Split = nil, func(*Delivery) ([]Item, error) { return nil, nil }
		}, ""},
		{"window as long as the tolerance", func(p *Producer) {
			p.Window, p.Tolerance = 10*time.Minute, verify.Tolerance{Past: 9 * time.Minute, Future: time.Minute}
		}, ""},
		{"window shorter than the tolerance", func(p *Producer) {
			p.Window, p.Tolerance = 10*time.Minute, verify.Tolerance{Past: 9 * time.Minute, Future: 61 * time.Second}
		}, "replay"},
		{"no limit to the past", func(p *Producer) { p.Tolerance.Past = verify.NoLimit }, "without limit back"},
		{"no limit to the future", func(p *Producer) { p.Tolerance.Future = verify.NoLimit }, "without limit ahead"},
		{"a negative window", func(p *Producer) { p.Window = -1 }, "must not be negative"},
		{"207", func(p *Producer) { p.Accepted.Status = 207 }, "status 207"},
		{"a redirect", func(p *Producer) { p.Accepted.Status = 302 }, "status 302"},
		{"in flight 422", func(p *Producer) { p.InFlight = 422 }, "in-flight"},
		{"an unknown contract", func(p *Producer) { p.Contract = 7 }, "contract"},
		{"an unknown nonce policy", func(p *Producer) { p.Nonce = -1 }, "nonce"},
		{"an unknown same-signed policy", func(p *Producer) { p.SameSigned = 9 }, "same-signed"},
		{"TRACE", func(p *Producer) { p.Methods = []string{"TRACE"} }, "TRACE"},
		{"a media type", func(p *Producer) { p.MediaTypes = []string{"application/*"} }, ""},
		{"no media type", func(p *Producer) { p.MediaTypes = []string{"json"} }, "media type"},
		{"an invalid secret field", func(p *Producer) { p.SecretHeaders = []string{"a b"} }, "field name"},
		{"a negative limit", func(p *Producer) { p.MaxBody = -1 }, "limit"},
		{"a rate", func(p *Producer) { p.Rate, p.Concurrency = Rate{Events: 5, Per: time.Minute, Burst: 10}, 3 }, ""},
		{"a negative rate", func(p *Producer) { p.Rate.Events = -1 }, "rate and burst"},
		{"a burst alone", func(p *Producer) { p.Rate.Burst = 1 }, "burst without a rate"},
		{"a rate per half a second", func(p *Producer) { p.Rate = Rate{Events: 1, Per: 500 * time.Millisecond} },
			"whole seconds"},
		{"a negative concurrency", func(p *Producer) { p.Concurrency = -1 }, "concurrency"},
		{"a relative URL", func(p *Producer) { p.URL = "/hooks" }, "url"},
		{"a URL with credentials", func(p *Producer) { p.URL = "https://u:p@h.example/" }, "url"},
		{"a mistake of the preset", func(p *Producer) { p.Err = errors.New("secret is empty") }, "secret is empty"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := Producer{Name: "shop", Scheme: trusting{}, Key: Header("X-Id")}
			c.spoil(&p)
			errs := p.Check()
			if c.want == "" && len(errs) != 0 {
				t.Fatalf("refused: %v", errs)
			}
			if c.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want)) {
				t.Fatalf("got %v, want one mistake about %q", errs, c.want)
			}
		})
	}
}

func TestCheckReportsAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	p := Producer{InFlight: 1, Window: -1, Err: errors.Join(errors.New("one"), errors.New("two"))}
	if errs := p.Check(); len(errs) != 6 {
		t.Errorf("got %d mistakes, want 6: %v", len(errs), errs)
	}
}

func TestShortWindowIsAWarning(t *testing.T) {
	t.Parallel()
	p := Producer{Name: "shop", Scheme: trusting{}, Key: Header("X-Id"), Window: time.Hour}
	if len(p.Check()) != 0 || len(p.Warnings()) != 1 {
		t.Errorf("mistakes %v, warnings %v", p.Check(), p.Warnings())
	}
}

func TestAClaimThatOneOfTwoSchemesReadsIsAWarning(t *testing.T) {
	t.Parallel()
	token := &verify.JWT{}
	warned := func(key Extractor, required bool, either verify.Any) bool {
		p := Producer{Name: "shop", Scheme: either, Key: key, KeyRequired: required, Contract: Webhook}
		return strings.Contains(strings.Join(p.Warnings(), " "), "jwt:jti")
	}
	one, two := verify.Any{token, trusting{}}, verify.Any{token, token}
	if !warned(JWT("jti"), true, one) {
		t.Error("no warning")
	}
	if warned(JWT("jti"), false, one) || warned(JWT("jti"), true, two) || warned(Header("X-Id"), true, one) {
		t.Error("a warning of what works")
	}
}

func TestDefaultsFollowTheContract(t *testing.T) {
	t.Parallel()
	api := Producer{Name: "shop", SecretQuery: []string{"token"}, ScopeIgnores: []string{"retry"}}.WithDefaults()
	if api.Accepted.Status != 202 || api.InFlight != 409 || api.SameSigned != SameSignedRefuse ||
		api.Window != 24*time.Hour {
		t.Errorf("API: %+v", api)
	}
	if strings.Join(api.ScopeIgnores, " ") != "retry token" {
		t.Errorf("a credential is a part of the scope: %v", api.ScopeIgnores)
	}
	hook := Producer{Contract: Webhook}.WithDefaults()
	if hook.Accepted.Status != 200 || hook.InFlight != 503 || hook.SameSigned != SameSignedQuarantine {
		t.Errorf("Webhook: %+v", hook)
	}
}

func TestItemsAlwaysHaveAnIdentifier(t *testing.T) {
	t.Parallel()
	p := Producer{Name: "shop", Key: JSON("id"), Type: JSON("type"), KeyFormat: KeyFormatUUID}
	const uuid = "8e03978e-40d5-43e8-bc93-6894a57f9324"
	cases := []struct {
		name, body, id string
		required       bool
		code           verify.Code
	}{
		{"named", `{"id":"` + uuid + `"}`, uuid, true, ""},
		{"unnamed", `{}`, digestID([]byte(`{}`)), false, ""},
		{"unnamed where a name is required", `{}`, "", true, verify.IDMissing},
		{"of another form", `{"id":"e1"}`, "", false, verify.EventMalformed},
		{"ambiguous", `{"id":"a","id":"b"}`, "", false, verify.AmbiguousField},
	}
	for _, c := range cases {
		q := p
		q.KeyRequired = c.required
		items, err := q.Items(delivery(hook, c.body))
		if verify.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.name, err)
		} else if err == nil && items[0].ID != c.id {
			t.Errorf("%s: id %q", c.name, items[0].ID)
		}
	}
	long := Producer{Name: "shop", Key: JSON("id")}
	if _, err := long.Items(delivery(hook, `{"id":"`+strings.Repeat("ä",
		1025)+`"}`)); verify.CodeOf(err) != verify.EventMalformed {
		t.Errorf("an identifier of 1,025 characters: %v", err)
	}
	if _, err := long.Items(delivery(hook, `{"id":"`+strings.Repeat("ä", 1024)+`"}`)); err != nil {
		t.Errorf("an identifier of 1,024 characters: %v", err)
	}
}

func TestFingerprints(t *testing.T) {
	t.Parallel()
	plain := delivery(hook, `{"a":1}`)
	it := Item{Body: plain.Body}
	withAttribute := delivery(hook, `{"a":1}`, "Ce-Subject", "s")
	if FingerprintBody(plain, it) != FingerprintBody(delivery(hook+"?x", `{"a":1}`, "Date", "now"), it) {
		t.Error("the body is the same, the fingerprint is not")
	}
	if FingerprintBody(plain, it) == FingerprintBody(withAttribute, it) {
		t.Error("an attribute in the header does not count")
	}
	if FingerprintBody(plain, it) == FingerprintBody(plain, Item{Body: []byte(`{"a":2}`)}) {
		t.Error("the item's body does not count")
	}
	if FingerprintNone(plain, it) != ([32]byte{}) {
		t.Error("FingerprintNone is not zero")
	}
	fields := FingerprintFields(JSON("a"), JSON("b"))
	if fields(plain, it) != fields(plain, Item{Body: []byte(`{"attempt":2,"a":1}`)}) {
		t.Error("a member that is not selected counts")
	}
	if fields(plain, Item{Body: []byte(`{"a":"12"}`)}) == fields(plain, Item{Body: []byte(`{"a":"1","b":"2"}`)}) {
		t.Error("values run together")
	}
	if one := []byte(`{"a":1,"a":2}`); fields(plain, Item{Body: one}) != FingerprintBody(plain, Item{Body: one}) {
		t.Error("an unreadable value does not make the whole body count")
	}
}
