package verify

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	profile      = "https://shop.example/.well-known/ucp"
	otherProfile = "https://other.example/.well-known/ucp"
)

// profileOf is a profile as the Universal Commerce Protocol has it, with its keys in this member.
func profileOf(member string, keys ...[]byte) http.HandlerFunc {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = string(k)
	}
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"ucp":{"version":"2026-04-08","services":{},"payment_handlers":{}},%q:[%s]}`,
			member, strings.Join(texts, ","))
	}
}

// shopKey is a key with a kid of its owner's choice.
func shopKey(t *testing.T, kid string) (ed25519.PrivateKey, []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return private, jwkWith(t, public, fmt.Sprintf(`"kid":%q,"use":"sig","alg":"EdDSA"`, kid))
}

// signedByHand is a delivery that names an agent, with a base that this test writes itself. The
// last component is the field or the member that names it; its value is value.
func signedByHand(private ed25519.PrivateKey, kid, agent, component, value string, params ...string) *http.Request {
	const body = `{"id":"order_1"}`
	r := httptest.NewRequest(http.MethodPost, "https://hooks.example/orders", strings.NewReader(body))
	r.RequestURI = "/orders"
	sum := sha256.Sum256([]byte(body))
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	input := fmt.Sprintf(`("@method" "@authority" "@path" "@query" "content-digest" "content-type" %s)`+
		`;keyid=%q;created=1776520800%s`, component, kid, strings.Join(params, ""))
	base := "\"@method\": POST\n\"@authority\": hooks.example\n\"@path\": /orders\n\"@query\": ?\n" +
		"\"content-digest\": " + digest + "\n\"content-type\": application/json\n"
	if component != "" {
		base += component + ": " + value + "\n"
	} else {
		input = strings.Replace(input, " )", ")", 1)
	}
	signature := ed25519.Sign(private, []byte(base+"\"@signature-params\": "+input))
	for name, text := range map[string]string{
		"Content-Type": "application/json", "Content-Digest": digest, "Ucp-Agent": agent,
		"Signature-Input": "sig1=" + input, "Signature": "sig1=:" + base64.StdEncoding.EncodeToString(signature) + ":",
	} {
		r.Header.Set(name, text)
	}
	return r
}

func orderOf() ([]byte, error) { return []byte(`{"id":"order_1"}`), nil }

// TestAFieldNamesTheAgent: the field or its member is always covered, only listed complete URLs are
// fetched, and the URL is the principal.
func TestAFieldNamesTheAgent(t *testing.T) {
	t.Parallel()
	w := newAgentWeb(t)
	private, key := shopKey(t, "shop_2026")
	unknown, foreign := shopKey(t, "shop_2026")
	w.set("shop.example/.well-known/ucp", profileOf("signing_keys", key))
	w.set("other.example/.well-known/ucp", profileOf("keys", foreign))
	list := []string{profile, otherProfile, "https://shop.example/p?tenant=1"}
	byMember := w.open(t, DirectoriesConfig{URLs: list, Field: "UCP-Agent", Member: "profile"})
	byField := w.open(t, DirectoriesConfig{URLs: list, Field: "UCP-Agent"})
	const field, member, plain = `"ucp-agent"`, `"ucp-agent";key="profile"`, "http://shop.example/.well-known/ucp"
	const other = `"ucp-agent";key="a"`
	const user, tenant = "https://a@shop.example/.well-known/ucp", "https://shop.example/p?tenant=2"
	quoted := func(u string) string { return `"` + u + `"` }
	in := func(u string) string { return "profile=" + quoted(u) }
	twice := in(tenant) + ", " + in(profile)
	for name, c := range map[string]struct {
		scheme           *RFC9421
		private          ed25519.PrivateKey
		agent, component string
		value            string // of the component
		code             Code   // "" accepts
	}{
		"the field is covered":     {byMember, private, in(profile), field, in(profile), ""},
		"the member is covered":    {byMember, private, in(profile), member, quoted(profile), ""},
		"with a parameter":         {byMember, private, in(profile) + ";v=1", member, quoted(profile) + ";v=1", ""},
		"beside another member":    {byMember, private, "a=1, " + in(profile), member, quoted(profile), ""},
		"not covered":              {byMember, private, in(profile), "", "", InsufficientCoverage},
		"another member":           {byMember, private, "a=1, " + in(profile), other, "1", InsufficientCoverage},
		"not sent":                 {byMember, private, "", field, "", SignatureMalformed},
		"a token":                  {byMember, private, "profile=a", field, "profile=a", SignatureMalformed},
		"twice":                    {byMember, private, twice, field, in(profile), SignatureMalformed},
		"without its member":       {byMember, private, quoted(profile), field, quoted(profile), SignatureMalformed},
		"http":                     {byMember, private, in(plain), field, "", SignatureMalformed},
		"a user":                   {byMember, private, in(user), field, "", SignatureMalformed},
		"another path":             {byMember, private, in(profile + "/x"), field, "", KeyUnknown},
		"with a query":             {byMember, private, in(profile + "?x=1"), field, "", KeyUnknown},
		"with an empty query":      {byMember, private, in(profile + "?"), field, "", KeyUnknown},
		"another query":            {byMember, private, in(tenant), field, "", KeyUnknown},
		"an origin":                {byMember, private, in("https://shop.example"), field, "", KeyUnknown},
		"another shop":             {byMember, private, in(otherProfile), field, in(otherProfile), SignatureMismatch},
		"an unknown key":           {byMember, unknown, in(profile), field, in(profile), SignatureMismatch},
		"all of the field":         {byField, private, profile, field, profile, ""},
		"all of the field, quoted": {byField, private, quoted(profile), field, quoted(profile), ""},
		"a list":                   {byField, private, quoted(profile) + ", 1", field, "", SignatureMalformed},
	} {
		r := signedByHand(c.private, "shop_2026", c.agent, c.component, c.value)
		id, err := c.scheme.Verify(r, orderOf)
		if CodeOf(err) != c.code || err == nil && (id.Principal != profile || id.KeyID != "shop_2026") {
			t.Errorf("%s: %q, %q, %v, want %q", name, id.Principal, id.KeyID, err, c.code)
		}
	}
	r := signedByHand(private, "shop_2026", in(profile), field, in(profile))
	r.Header["Ucp-Agent"] = []string{"a=1", in(profile)}
	_, err := byMember.Verify(r, orderOf)
	wantCode(t, err, AmbiguousField)
	w.wantFetches(t, 3) // of two profiles for one scheme, one for the other
	want := `sig1=("@method" "@target-uri" "content-digest" "content-type" "ucp-agent");created`
	if got := byMember.AcceptSignature(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestNothingOfARequestIsFetched: what is fetched is listed, octet for octet in normal form.
func TestNothingOfARequestIsFetched(t *testing.T) {
	t.Parallel()
	w := newAgentWeb(t)
	private, key := shopKey(t, "a")
	queries := make(chan string, 1)
	w.set("shop.example/p", func(rw http.ResponseWriter, r *http.Request) {
		queries <- r.URL.RawQuery
		profileOf("keys", key)(rw, r)
	})
	list := []string{"https://SHOP.example:443/p?b=1&a=%7e"}
	cfg := DirectoriesConfig{URLs: list, Field: "ucp-agent", Member: "profile"}
	const sent = `profile="https://shop.EXAMPLE/x/../p?b=1&a=%7e"`
	id, err := w.open(t, cfg).Verify(signedByHand(private, "a", sent, `"ucp-agent"`, sent), orderOf)
	if err != nil || id.Principal != "https://shop.example/p?b=1&a=%7e" {
		t.Fatalf("%q, %v", id.Principal, err)
	}
	if got := <-queries; got != "b=1&a=%7e" {
		t.Errorf("fetched with the query %q", got)
	}
}

// TestAKeySetIsNamedByItsURL: the type jwks_uri selects a listed complete URL, whose keys are found
// by their kid or their thumbprint.
func TestAKeySetIsNamedByItsURL(t *testing.T) {
	t.Parallel()
	w := newAgentWeb(t)
	p, key := newAgent(t, Ed25519)
	key = []byte(strings.Replace(string(key), p.signer.KeyID, "a label", 1))
	w.set("bot.example/keys.json", profileOf("keys", key))
	w.publish("bot.example", key)
	scheme := w.open(t, DirectoriesConfig{URLs: []string{"https://bot.example/keys.json", "https://bot.example"}})
	thumb := p.signer.KeyID
	for kid, codes := range map[string][2]Code{
		thumb: {"", ""}, "a label": {"", KeyUnknown}, "another": {KeyUnknown, KeyUnknown},
	} {
		p.signer.KeyID = kid
		for i, agent := range []string{`"https://bot.example/keys.json";type=jwks_uri`, `"https://bot.example"`} {
			id, err := scheme.Verify(agentRequest(t, p, "sig1="+agent), bodyOf(testBody))
			if CodeOf(err) != codes[i] && CodeOf(err) != KeysUnavailable ||
				err == nil && `"`+id.Principal+`"` != strings.TrimSuffix(agent, ";type=jwks_uri") {
				t.Errorf("keyid %q, %s: %q, %v", kid, agent, id.Principal, err)
			}
		}
	}
}

// TestKeysOfAProfileAreThoseOfOneMember: a key that is gone from "keys" is revoked, although older
// readers still find it in "signing_keys".
func TestKeysOfAProfileAreThoseOfOneMember(t *testing.T) {
	t.Parallel()
	_, a := shopKey(t, "a")
	_, b := shopKey(t, "b")
	for text, want := range map[string]string{
		`{"keys":[%s],"signing_keys":[%s]}`: "a", `{"signing_keys":[%s,%s]}`: "ab",
		`{"keys":[],"signing_keys":[%s,%s]}`: "",
	} {
		_, keys, err := parseAgentKeys(fmt.Appendf(nil, text, a, b))
		got := ""
		for _, k := range keys {
			if len(k.ID) == 1 {
				got += k.ID
			}
		}
		if err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{`{}`, `[]`, `{"ucp":{}}`, `{"keys":1}`} {
		if _, _, err := parseAgentKeys([]byte(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func TestAgentFieldsAreChecked(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]DirectoriesConfig{
		"cannot cover the field": {Field: "a b"}, "cannot cover": {Field: "@method"},
		"not a key":      {Field: "ucp-agent", Member: "A"},
		"of the label":   {Member: "profile"},
		"first drafts":   {Field: "ucp-agent", LegacyAgent: true},
		"user or fragme": {Field: "ucp-agent", URLs: []string{"https://a.example/#x"}},
		"listed twice":   {Field: "ucp-agent", URLs: []string{"https://a.example", "https://A.example/"}},
		"not an https":   {Field: "ucp-agent", URLs: []string{"http://a.example/"}},
	} {
		if cfg.URLs == nil {
			cfg.URLs = []string{profile}
		}
		if _, err := NewDirectories(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// TestASignerNamesItsAgent where the scheme that it signs for wants that: the first of the list.
func TestASignerNamesItsAgent(t *testing.T) {
	t.Parallel()
	w := newAgentWeb(t)
	private, key := shopKey(t, "a")
	w.set("shop.example/.well-known/ucp", profileOf("keys", key))
	w.publish("shop.example", key)
	public, _ := private.Public().(ed25519.PublicKey)
	id, err := thumbprint(public)
	if err != nil {
		t.Fatal(err)
	}
	list, origin := []string{profile, "https://z.example/ucp"}, []string{"https://shop.example"}
	for want, c := range map[string]struct {
		cfg   DirectoriesConfig
		keyID string
	}{
		`profile="` + profile + `"`:   {DirectoriesConfig{URLs: list, Field: "UCP-Agent", Member: "profile"}, "a"},
		`"` + profile + `"`:           {DirectoriesConfig{URLs: list, Field: "UCP-Agent"}, "a"},
		`sig1="https://shop.example"`: {DirectoriesConfig{URLs: origin}, id},
	} {
		scheme := w.open(t, c.cfg)
		body, _ := orderOf()
		r := httptest.NewRequest(http.MethodPost, "https://hooks.example/orders", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		signer := &Signer{KeyID: c.keyID, Private: private, Like: scheme}
		if err := signer.Sign(r, body, testNow); err != nil {
			t.Fatal(err)
		}
		if got := r.Header.Get(scheme.directories().field); got != want {
			t.Errorf("the field is %s, want %s", got, want)
		}
		if _, err := scheme.Verify(r, orderOf); err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
}
