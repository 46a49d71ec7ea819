package verify

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

const agentMember = `signature-agent;key="sig1"`

// The signature must cover the member of Signature-Agent that names its directory (section 5.2.1).
func TestSignatureAgentMustBeCovered(t *testing.T) {
	t.Parallel()
	w := newAgentWeb(t)
	p, key := newAgent(t, Ed25519)
	w.publish("bot.example", key)
	w.publish("other.example", key)
	urls := []string{"https://bot.example", "https://other.example"}
	strict := w.open(t, DirectoriesConfig{URLs: urls})
	legacy := w.open(t, DirectoriesConfig{URLs: urls, LegacyAgent: true})
	const bot, text, own, field = `sig1="https://bot.example"`, `"https://bot.example"`, agentMember, "signature-agent"
	const a, b = `signature-agent;key="a"`, `signature-agent;key="b"`
	const both = `a="https://bot.example", b="https://bot.example"`
	encoded := strings.Replace(directoryPath, ".", "%2e", 1)
	for name, c := range map[string]struct {
		agent   string
		covered string // components, with spaces
		code    Code   // "" accepts
	}{
		"covered":                     {bot, own, ""},
		"canonical":                   {bot, own + ";sf", ""},
		"not covered":                 {bot, "@scheme", InsufficientCoverage},
		"not sent":                    {"", "@scheme", InsufficientCoverage},
		"the field is covered":        {bot, field, InsufficientCoverage},
		"beside another member":       {bot + `, a="https://other.example"`, own, ""},
		"relabelled":                  {`a="https://bot.example"`, a, ""},
		"two, one its own":            {`a="https://x.example", ` + bot, a + " " + own, ""},
		"two, its own first":          {bot + `, a="https://x.example"`, own + " " + a, ""},
		"two, none its own":           {both, a + " " + b, InsufficientCoverage},
		"of the type directory":       {bot + "; type=directory", own, ""},
		"of the type jwks_uri":        {bot + ";type=jwks_uri", own, KeyUnknown}, // not the directory of the origin
		"of the type cimd":            {bot + ";type=cimd", own, InsufficientCoverage},
		"of two types":                {bot + ";type=cimd;type=directory", own, InsufficientCoverage},
		"with parameters":             {bot + ";type=directory;a", own, InsufficientCoverage},
		"a token":                     {`sig1=bot`, own, InsufficientCoverage},
		"a list":                      {`sig1=("https://bot.example")`, own, InsufficientCoverage},
		"one string":                  {text, field, InsufficientCoverage},
		"one string, uncovered":       {text, "@scheme", InsufficientCoverage},
		"one string with parameters":  {text + ";a", field, InsufficientCoverage},
		"two strings":                 {text + ", " + text, field, InsufficientCoverage},
		"http":                        {`sig1="http://bot.example"`, own, SignatureMalformed},
		"data":                        {`sig1="data:,"`, own, SignatureMalformed},
		"a user":                      {`sig1="https://a@bot.example"`, own, SignatureMalformed},
		"a query":                     {`sig1="https://bot.example?n=1"`, own, SignatureMalformed},
		"another path":                {`sig1="https://bot.example/a"`, own, KeyUnknown},
		"an encoded well-known path":  {`sig1="https://bot.example` + encoded + `"`, own, KeyUnknown},
		"another host with that name": {`sig1="https://bot.example.evil.example"`, own, KeyUnknown},
		"the list's host in a path":   {`sig1="https://evil.example/https://bot.example"`, own, KeyUnknown},
	} {
		r := agentRequest(t, p, c.agent, strings.Fields(c.covered)...)
		for scheme, want := range map[*RFC9421]Code{strict: c.code, legacy: c.code} {
			if scheme == legacy && name == "one string" {
				want = ""
			}
			id, err := scheme.Verify(r, bodyOf(testBody))
			if CodeOf(err) != want || err == nil && id.Principal != "https://bot.example" {
				t.Errorf("%s: %q, %v, want %q", name, id.Principal, err, want)
			}
		}
	}
	// A later change of the covered member.
	r := agentRequest(t, p, bot)
	r.Header.Set("Signature-Agent", `sig1="https://other.example"`)
	_, err := strict.Verify(r, bodyOf(testBody))
	wantCode(t, err, SignatureMismatch)
	// Several members with one key: parsers disagree about which counts.
	r = agentRequest(t, p, bot)
	r.Header["Signature-Agent"] = []string{`sig1="https://other.example"`, bot}
	_, err = strict.Verify(r, bodyOf(testBody))
	wantCode(t, err, InsufficientCoverage)
}

func TestAgentsSignWithTheirTag(t *testing.T) {
	t.Parallel()
	w := newAgentWeb(t)
	p, key := newAgent(t, Ed25519)
	w.publish("bot.example", key)
	for tag, code := range map[string]Code{agentTag: "", "": InsufficientCoverage, "other": InsufficientCoverage} {
		p.signer.Tag = tag
		scheme := w.open(t, DirectoriesConfig{URLs: []string{"https://bot.example"}})
		_, err := scheme.Verify(agentRequest(t, p, `sig1="https://bot.example"`), bodyOf(testBody))
		if CodeOf(err) != code {
			t.Errorf("tag %q: %v", tag, err)
		}
	}
	scheme := w.open(t, DirectoriesConfig{URLs: []string{"https://bot.example"}})
	const want = `sig1=("@method" "@target-uri" "content-digest" "content-type" ` +
		`"signature-agent";key="sig1");created;tag="web-bot-auth"`
	if got := scheme.AcceptSignature(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if algs := PublishedAlgorithms(scheme); len(algs) != 4 || slices.Contains(algs, string(HMACSHA256)) {
		t.Errorf("published: %q", algs)
	}
}

// An unauthenticated client makes the receiver fetch nothing that is not listed, and of one
// request at most two directories.
func TestUnauthenticatedClientsCauseFewFetches(t *testing.T) {
	t.Parallel()
	w := newAgentWeb(t)
	p, key := newAgent(t, Ed25519)
	var urls []string
	for i := range 8 {
		host := fmt.Sprintf("bot%d.example", i)
		urls = append(urls, "https://"+host)
		w.set(host+directoryPath, http.NotFound)
	}
	w.publish("good.example", key)
	clock := newFakeClock()
	scheme := w.open(t, DirectoriesConfig{URLs: append(urls, "https://good.example"), Now: clock.Now})
	verify := func(r *http.Request) error {
		_, err := scheme.Verify(r, bodyOf(testBody))
		return err
	}
	for _, agent := range []string{"https://evil.example", "https://127.0.0.1", "https://bot0.example.evil.example"} {
		wantCode(t, verify(agentRequest(t, p, `sig1="`+agent+`"`)), KeyUnknown)
	}
	r := agentRequest(t, p, `sig1="https://bot0.example"`, "@scheme") // listed, but not covered
	wantCode(t, verify(r), InsufficientCoverage)
	r = agentRequest(t, p, `sig1="https://bot0.example"`)
	r.Header.Add("Signature-Agent", `a="`+strings.Repeat("a", maxStructured)+`"`)
	wantCode(t, verify(r), SignatureMalformed)
	w.wantFetches(t, 0)

	members := make([]string, len(urls))
	for i, url := range urls {
		members[i] = fmt.Sprintf(`s%d=%q`, i, url)
	}
	r = newDelivery(t, testBody)
	r.Header.Set("Signature-Agent", strings.Join(members, ", "))
	for i := range urls {
		p.signer.Label = fmt.Sprintf("s%d", i)
		p.signer.Components = append(slices.Clone(allComponents), fmt.Sprintf(`signature-agent;key="s%d"`, i))
		p.sign(t, r, testBody)
	}
	wantCode(t, verify(r), KeysUnavailable)
	w.wantFetches(t, 2)
	p.signer.Label = ""

	// Unknown keys of a listed directory cause one fetch in 30 seconds, however many there are.
	var all sync.WaitGroup
	for range 20 {
		unknown, _ := newAgent(t, Ed25519)
		r := agentRequest(t, unknown, `sig1="https://good.example"`)
		all.Go(func() {
			if _, err := scheme.Verify(r, bodyOf(testBody)); err == nil {
				t.Error("an unpublished key was accepted")
			}
		})
	}
	all.Wait()
	w.wantFetches(t, 3)
}

// A signature of an unlisted agent costs as much as one of a listed agent, once keys are known, and
// no request more than two verifications.
func TestAtMost2SignaturesOfAgentsAreVerified(t *testing.T) {
	t.Parallel()
	checks := 0
	w := newAgentWeb(t)
	p, key := newAgent(t, Ed25519)
	w.publish("bot.example", key)
	scheme := w.open(t, DirectoriesConfig{URLs: []string{"https://bot.example"}})
	if _, err := scheme.Verify(agentRequest(t, p, `sig1="https://bot.example"`), bodyOf(testBody)); err != nil {
		t.Fatal(err)
	}
	scheme.directories().sets["https://bot.example"].set.keys = newStaticSet([]Key{{
		ID: p.signer.KeyID, Alg: Ed25519, material: &material{
			alg: Ed25519, check: func(_, _ []byte) bool { checks++; return false },
		},
	}})
	for _, agents := range []string{"b", "x", "bb", "xb", "xxxxxxxx", "bbbbbbbb", "xbxbxbxb"} {
		checks = 0
		want := min(2, len(agents))
		r := newDelivery(t, testBody)
		members := make([]string, len(agents))
		for i, name := range agents {
			host := map[rune]string{'b': "bot", 'x': "unlisted"}[name]
			members[i] = fmt.Sprintf(`s%d="https://%s.example"`, i, host)
		}
		r.Header.Set("Signature-Agent", strings.Join(members, ", "))
		for i := range members {
			signer := p
			signer.signer.Label = fmt.Sprintf("s%d", i)
			signer.signer.Components = append(slices.Clone(allComponents), fmt.Sprintf(`signature-agent;key="s%d"`, i))
			signer.sign(t, r, testBody)
		}
		_, err := scheme.Verify(r, bodyOf(testBody))
		wantCode(t, err, KeyUnknown, SignatureMismatch)
		if checks != want {
			t.Errorf("agents %s: %d verifications, want %d", agents, checks, want)
		}
	}
	w.wantFetches(t, 1)
}
