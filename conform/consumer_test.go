package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// testProfiles complete built-in profiles for the reference.
var testProfiles = map[string]struct{ base, more string }{
	"key": {"idempotency-key", `
claims: [idempotency-key, rfc9457, eyelet]
answers: true
members: [wait, fail]
window: 2s
max_body: 131072
`},
	"events": {"event-delivery", `
claims: [idempotency-key, event-delivery, rfc9421, rfc9530, rfc9457]
secret: a secret of the profile
signature:
  alg: hmac-sha256
  keyid: conform
  tag: conform
  nonce: true
  components: ['"@method"', '"@target-uri"', '"content-type"', '"content-digest"', '"idempotency-key"']
old: {secret: an old secret, keyid: old}
other: {secret: the secret of another producer, keyid: other}
other_url: ORIGIN/other
members: [wait]
window: 24h
clock: 'echo $SECONDS >> DIR/clock'
restart: 'echo >> DIR/kills'
power: 'echo >> DIR/kills'
`},
	"keypair": {"event-delivery", `
secret: ""
signature:
  alg: ed25519
  keyid: conform
  key: DIR/key.pem
  components: ['"@method"', '"@authority"', '"@path"', '"@query"', '"content-type"', '"content-digest"',
    '"idempotency-key"']
`},
	"webhooks": {"standard-webhooks", `
secret: whsec_Y29uZm9ybWNvbmZvcm1jb25mb3Jt
old: {secret: whsec_b2xkb2xkb2xkb2xkb2xkb2xk}
`},
	"github": {"github", "secret: a secret of the profile"},
	"cloudevents": {"cloudevents", `
secret: a secret of the profile
batch: application/cloudevents-batch+json
`},
	"binary": {"cloudevents", `
claims: [cloudevents, idempotency-key]
secret: a secret of the profile
type: application/json
body: '{"n":{n}}'
key: field:Idempotency-Key
fields: {Idempotency-Key: '"{id}"', ce-id: "{id}", ce-source: /conform, ce-type: conform.checked, ce-specversion: "1.0"}
`},
}

// checked runs checks on a reference.
func checked(t *testing.T, profile, sabotage string, only ...string) *Report {
	t.Helper()
	of, ok := testProfiles[profile]
	if !ok {
		t.Fatalf("no profile %q", profile)
	}
	_, p, url := start(t, of.base, of.more, sabotage)
	r, err := Run(context.Background(), Options{Role: Consumer, URL: url, Profile: p, Only: only, Seed: 1, Kills: 20})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheReferenceHolds(t *testing.T) {
	t.Parallel()
	held := make(chan []string, len(testProfiles))
	t.Run("profiles", func(t *testing.T) {
		for profile := range testProfiles {
			t.Run(profile, func(t *testing.T) {
				t.Parallel()
				r := checked(t, profile, "")
				var all []string
				for _, one := range r.Results {
					switch one.Verdict {
					case Holds:
						all = append(all, one.Check)
					case Fails:
						t.Errorf("%s %s: %s\n%v", one.Check, one.Title, one.Reason, last(one.Exchanges))
					}
				}
				held <- all
				t.Log(r.Summary(), r.Took)
			})
		}
	})
	close(held)
	var all []string
	for one := range held {
		all = append(all, one...)
	}
	for _, c := range checksOf(Consumer) {
		if !slices.Contains(all, c.number) && !slices.Contains(neverHold, c.number) {
			t.Errorf("%s %s holds with no profile", c.number, c.title)
		}
	}
}

// neverHold are checks of responses that the reference does not send.
var neverHold = []string{"C245", "C246", "C247"}

func last(all []Exchange) string {
	if len(all) == 0 {
		return ""
	}
	e := all[len(all)-1]
	return e.Request + "\n---\n" + e.Response
}

// sabotages break one thing of a reference, which that check must find.
var sabotages = []struct{ profile, sabotage, check string }{
	{"key", "no key needed", "C101"},
	{"key", "no policy", "C102"},
	{"key", "bare keys", "C103"},
	{"key", "any key", "C104"},
	{"key", "an empty field is no field", "C104"},
	{"key", "the first line of the key", "C105"},
	{"key", "empty keys", "C106"},
	{"key", "parameters in the key", "C107"},
	{"key", "short keys", "C108"},
	{"key", "the beginning of keys", "C108"},
	{"key", "names with case", "C109"},
	{"github", "signatures with case", "C109"},
	{"events", "loses events", "C110"},
	{"key", "another answer", "C111"},
	{"webhooks", "handles duplicates later", "C111"},
	{"key", "no memory", "C111"},
	{"github", "no memory", "C308"},
	{"key", "the attempt in the payload", "C112"},
	{"key", "no conflicts", "C113"},
	{"key", "conflicts overwrite", "C114"},
	{"key", "a race", "C115"},
	{"key", "runs twice", "C116"},
	{"key", "no Retry-After", "C117"},
	{"key", "stores transient failures", "C118"},
	{"key", "forgets terminal failures", "C119"},
	{"key", "GET reveals", "C120"},
	{"key", "never forgets", "C121"},
	{"events", "never forgets", "C121"},
	{"key", "a third of the window", "C121"},
	{"events", "a third of the window", "C121"},
	{"key", "a window from the start", "C122"},
	{"key", "cut bodies", "C201"},
	{"events", "cut bodies", "C202"},
	{"key", "no 408", "C203"},
	{"key", "any Host", "C204"},
	{"key", "stays open", "C205"},
	{"key", "any length", "C206"},
	{"github", "NUL", "C207"},
	{"key", "no 100", "C208"},
	{"key", "any expectation", "C209"},
	{"key", "any method", "C221"},
	{"key", "any type", "C222"},
	{"key", "any coding", "C223"},
	{"key", "a bomb", "C224"},
	{"key", "no limit", "C225"},
	{"key", "no limit for chunks", "C226"},
	{"key", "32 KiB at most", "C227"},
	{"key", "early data", "C228"},
	{"key", "early data by its value", "C229"},
	{"key", "no Allow", "C241"},
	{"key", "no Accept-Post", "C242"},
	{"key", "no Date", "C243"},
	{"key", "Retry-After in words", "C244"},
	{"key", "429", "C245"},
	{"key", "429", "C246"},
	{"events", "204 with a length", "C247"},
	{"key", "no Content-Type", "C248"},
	{"key", "redirects deliveries", "C249"},
	{"key", "redirect", "C254"},
	{"key", "another status in the problem", "C250"},
	{"github", "no WWW-Authenticate", "C251"},
	{"github", "a stack", "C252"},
	{"github", "the secret", "C252"},
	{"events", "Accept-Signature for responses", "C253"},
	{"github", "unsigned", "C301"},
	{"events", "unsigned", "C301"},
	{"events", "handles what is unsigned", "C301"},
	{"cloudevents", "unsigned", "C301"},
	{"webhooks", "any secret", "C302"},
	{"keypair", "any secret", "C302"},
	{"github", "claims before it verifies", "C302"},
	{"github", "trimmed bodies", "C303"},
	{"events", "unsigned bodies", "C303"},
	{"github", "halves of signatures", "C304"},
	{"webhooks", "first octets of signatures", "C304"},
	{"events", "halves of signatures", "C304"},
	{"cloudevents", "halves of signatures", "C304"},
	{"github", "most of signatures", "C304"},
	{"webhooks", "most of signatures", "C304"},
	{"cloudevents", "most of signatures", "C304"},
	{"webhooks", "stale", "C305"},
	{"events", "stale", "C305"},
	{"webhooks", "from the future", "C306"},
	{"webhooks", "ten seconds", "C307"},
	{"events", "says which keys exist", "C309"},
	{"events", "replays before it verifies", "C310"},
	{"webhooks", "no rotation", "C311"},
	{"events", "no rotation", "C311"},
	{"github", "JSON written again", "C312"},
	{"github", "bodies in Latin-1", "C312"},
	{"events", "digests need not be covered", "C401"},
	{"events", "digests are optional", "C401"},
	{"events", "keys need not be covered", "C402"},
	{"events", "types need not be covered", "C403"},
	{"events", "an empty list", "C404"},
	{"events", "labels need not agree", "C405"},
	{"events", "the first label counts", "C406"},
	{"events", "anything parses", "C407"},
	{"events", "any key", "C408"},
	{"events", "any alg", "C409"},
	{"events", "unknown algs", "C410"},
	{"keypair", "a public key is a secret", "C411"},
	{"events", "any created", "C412"},
	{"events", "no created", "C425"},
	{"events", "expires is ignored", "C413"},
	{"events", "any nonce", "C414"},
	{"events", "any tag", "C415"},
	{"events", "all must be good", "C416"},
	{"events", "tries every signature", "C417"},
	{"events", "sig1 alone", "C418"},
	{"events", "trailers", "C419"},
	{"events", "digests are not compared", "C420"},
	{"events", "md5 counts", "C421"},
	{"events", "one good digest", "C422"},
	{"events", "any digest", "C423"},
	{"events", "types without parameters", "C424"},
	{"events", "components twice", "C431"},
	{"events", "any parameter", "C432"},
	{"events", "req", "C433"},
	{"events", "bs with sf", "C434"},
	{"events", "@status", "C435"},
	{"events", "@conform", "C435"},
	{"events", "@signature-params", "C436"},
	{"events", "absent fields", "C437"},
	{"events", "names with capitals", "C438"},
	{"events", "lines are not joined", "C439"},
	{"events", "lines are sorted", "C439"},
	{"events", "the whole dictionary", "C440"},
	{"events", "bs of joined lines", "C441"},
	{"keypair", "methods without case", "C442"},
	{"keypair", "authorities with case", "C443"},
	{"keypair", "queries are parsed", "C444"},
	{"events", "octets above ASCII", "C445"},
	{"webhooks", "no id needed", "C501"},
	{"webhooks", "no time needed", "C501"},
	{"webhooks", "the first signature alone", "C502"},
	{"webhooks", "any version", "C503"},
	{"webhooks", "a full stop", "C504"},
	{"webhooks", "times as floats", "C505"},
	{"binary", "any attributes", "C601"},
	{"binary", "ce-datacontenttype", "C602"},
	{"cloudevents", "any attributes", "C603"},
	{"cloudevents", "any JSON", "C604"},
	{"cloudevents", "types with case", "C605"},
	{"cloudevents", "any format", "C606"},
	{"binary", "batches unasked", "C607"},
	{"cloudevents", "the first of a batch", "C608"},
	{"cloudevents", "halves of batches", "C609"},
	{"cloudevents", "the id alone", "C610"},
	{"cloudevents", "a grant without a rate", "C611"},
	{"events", "waits", "C701"},
	{"events", "another answer", "C702"},
	{"events", "one namespace", "C703"},
	{"events", "one namespace of endpoints", "C704"},
	{"events", "crashes", "C705"},
	{"events", "handles what it refuses", "C706"},
	{"events", "wears out", "C707"},
	{"events", "keeps nothing", "C801"},
	{"events", "keeps nothing", "C802"},
	{"events", "forgets when it is killed", "C803"},
}

// slow checks wait. They run with a sabotage only if they must find it; others if their number has
// the same first two digits, or all with EYELET_LONG.
var slow = []string{"C116", "C117", "C121", "C122", "C203", "C701", "C702"}

func TestSabotage(t *testing.T) {
	t.Parallel()
	const atOnce, others = 16, 9
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for _, one := range sabotages {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			var only []string
			for _, c := range checksOf(Consumer) {
				isNear := c.number[:3] == one.check[:3] || os.Getenv("EYELET_LONG") != ""
				if c.number == one.check || isNear && !slices.Contains(slow, c.number) {
					only = append(only, c.number)
				}
			}
			r := checked(t, one.profile, one.sabotage, only...)
			var failed []string
			for _, result := range r.Results {
				if result.Verdict == Fails {
					failed = append(failed, result.Check)
				} else if c := result.Check; c == one.check {
					t.Errorf("%s, %q: %s %s: %s", one.profile, one.sabotage, c, result.Verdict, result.Reason)
				}
			}
			if len(failed) > others {
				t.Errorf("%s, %q: %d checks fail: %v", one.profile, one.sabotage, len(failed), failed)
			}
			t.Log(one.profile, one.sabotage, failed, r.Took)
		})
	}
	wg.Wait()
}

// TestReportsAreFair tests programs that refuse everything: no refusal is judged. What holds are
// the checks of all responses.
func TestReportsAreFair(t *testing.T) {
	t.Parallel()
	for profile := range testProfiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			r := checked(t, profile, "refuses everything")
			for _, one := range r.Results {
				if one.Verdict == Holds && (one.Check < "C241" || one.Check > "C253") {
					t.Errorf("%s %s holds", one.Check, one.Title)
				}
			}
			if r.Conforms() {
				t.Error("it conforms:", r.Summary())
			}
		})
	}
}

func TestEachCheckHasItsTexts(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, role := range []Role{Consumer, Producer, Intermediary} {
		for _, c := range checksOf(role) {
			if seen[c.number] {
				t.Errorf("%s occurs twice", c.number)
			}
			seen[c.number] = true
			if c.title == "" || c.right == "" || c.cure == "" || len(c.rows) == 0 || c.run == nil {
				t.Errorf("%s is not complete: %s", c.number, fmt.Sprint(c.title, c.right, c.cure, c.rows))
			}
		}
	}
	var all []string
	for _, area := range areas {
		all = slices.AppendSeq(all, maps.Keys(area))
	}
	for _, number := range slices.AppendSeq(all, maps.Keys(allAttempts())) {
		if !seen[number] && number != "usual" {
			t.Errorf("checks.txt has no check %s", number)
		}
	}
}

func TestBusyAndBrokenServersAreNotJudged(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		status   int
		statuses []int
		want     Verdict
	}{
		{400, nil, Holds},
		{401, nil, Holds},
		{501, nil, Holds},
		{202, nil, Fails},
		{308, nil, Fails},
		{500, nil, NotJudged},
		{429, nil, NotJudged},
		{0, nil, NotJudged},
		{415, []int{415}, Holds},
		{400, []int{415}, Fails},
		{500, []int{415}, Fails},
		{503, []int{415}, NotJudged},
	} {
		got := Holds
		err := statusOf("it", &answer{status: one.status, err: io.EOF}, one.statuses)
		if u, ok := errors.AsType[undecided](err); ok {
			got = u.verdict
		} else if err != nil {
			got = Fails
		}
		if got != one.want {
			t.Errorf("%d where %v is right: %s, want %s", one.status, one.statuses, got, one.want)
		}
	}
}

func TestStrengthIsThatOfTheClaimedDocuments(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ profile, check, strength, document string }{
		{"github", "C111", advice, ownDocument},
		{"keypair", "C111", "SHOULD", "idempotency-key"},
		{"webhooks", "C305", "MUST", profileDocument},
		{"github", "C404", advice, "rfc9421"},
	} {
		r := checked(t, one.profile, "", one.check).Results[0]
		if r.Strength != one.strength || r.Rows[0].Document != one.document {
			t.Errorf("%s, %s: %s of %s, want %s of %s", one.profile, one.check,
				r.Strength, r.Rows[0].Document, one.strength, one.document)
		}
		if isClaimed := one.document != "rfc9421"; isClaimed != (r.Verdict == Holds) {
			t.Errorf("%s, %s: %s", one.profile, one.check, r.Verdict)
		}
	}
}

func TestReportsHaveNoSecret(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	r := checked(t, "github", "the secret", "C252", "C301")
	tokens := checked(t, "cloudevents", "", "C304")
	if err := errors.Join(r.WriteJSON(&b), r.WriteText(&b), tokens.WriteJSON(&b)); err != nil {
		t.Fatal(err)
	}
	if r.Count(Fails, "") != 1 || !strings.Contains(b.String(), "[secret]") {
		t.Fatal("the program did not send its secret:", r.Summary())
	}
	if strings.Contains(b.String(), "a secret of") {
		t.Error("the report has the secret of the profile")
	}
}
