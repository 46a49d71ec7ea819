package interop_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// verifier is a library that verifies what eyelet send signs: a row of the second table.
type verifier struct {
	library string
	signs   string    // arguments of eyelet send: a preset with its type, or a file
	key     keyKind   // of the secret
	tamper  [2]string // a part of the body and its replacement; by default a byte is added at the end
	refuses bool      // the library refuses what is signed
	note    string

	verify func(d signed) error // of a Go library
	node   string               // of a Node library: the name in receivers.mjs
}

// signed is a delivery that eyelet send signed, with what the library needs to verify it.
type signed struct {
	URL    string            `json:"url"`
	Header map[string]string `json:"header"` // names in lower case
	Body   string            `json:"body"`
	Secret string            `json:"secret"` // or public key
}

// verdicts are those of a library: of the delivery, with a changed body, and with another secret.
type verdicts struct{ genuine, tampered, wrongSecret bool }

func (v verifier) name() string {
	return strings.NewReplacer("/", "-", " ", "-").Replace(v.library + " " + v.signs)
}

// testReceivers lets each library verify a delivery of eyelet send, and returns the lines of the
// page.
func testReceivers(t *testing.T, binary string) (lines []string, complete bool) {
	t.Helper()
	for _, v := range verifiers() {
		t.Run(v.name(), func(t *testing.T) {
			genuine, wrong := sendSigned(t, binary, v)
			tampered, other := genuine, genuine
			tampered.Body, other.Secret = genuine.Body+" ", wrong
			if v.tamper[0] != "" {
				tampered.Body = strings.Replace(genuine.Body, v.tamper[0], v.tamper[1], 1)
			}
			if tampered.Body == genuine.Body {
				t.Fatalf("nothing to change in %s", genuine.Body)
			}
			got, printed := v.accepts(t, genuine, tampered, other)
			if want := (verdicts{genuine: !v.refuses}); got != want {
				t.Errorf("the library accepts %+v, want %+v\n%s\n%+v", got, want, printed, genuine)
			}
			lines = append(lines, v.line(got))
		})
	}
	return lines, len(lines) == len(verifiers())
}

// sendSigned returns what eyelet send sends, with the secret to verify it, and another secret.
func sendSigned(t *testing.T, binary string, v verifier) (d signed, wrong string) {
	t.Helper()
	signing, verifying := newKey(t, v.key)
	_, wrong = newKey(t, v.key)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		d = signed{URL: publicURL + r.RequestURI, Body: string(body), Secret: verifying, Header: map[string]string{}}
		for name, values := range r.Header {
			d.Header[strings.ToLower(name)] = strings.Join(values, ", ")
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer srv.Close()
	dir := t.TempDir()
	order := `{"type":"order.created","city":"Berlin"}`
	for name, text := range map[string]string{"secret": signing, "order.json": order} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flag := "--secret-file"
	if verifying != signing {
		flag = "--key"
	}
	args := append([]string{"send"}, strings.Fields(v.signs)...)
	args = append(args, flag, "secret", "--keyid", "k1", "--url", srv.URL+"/hooks", "--signed-url", publicURL)
	if flag == "--key" && args[1] != "order.json" {
		args = append(args, "--set", "secret=["+verifying+"]")
	}
	send := (&server{binary: binary, dir: dir}).command(args...)
	if out, err := send.CombinedOutput(); err != nil {
		t.Fatalf("eyelet %q: %v\n%s", args, err, out)
	}
	return d, wrong
}

// accepts asks the library about three deliveries, and returns its verdicts and errors.
func (v verifier) accepts(t *testing.T, deliveries ...signed) (verdicts, string) {
	t.Helper()
	var all []bool
	var printed strings.Builder
	if v.node == "" {
		for _, d := range deliveries {
			err := v.verify(d)
			all = append(all, err == nil)
			fmt.Fprintln(&printed, err)
		}
		return verdicts{all[0], all[1], all[2]}, printed.String()
	}
	out, stderr := runNode(t, "receivers.mjs", v.node, deliveries)
	for line := range bytes.Lines(out) {
		var accepted bool
		if err := json.Unmarshal(line, &accepted); err != nil {
			t.Fatalf("node receivers.mjs %s printed %s", v.node, line)
		}
		all = append(all, accepted)
	}
	if len(all) != len(deliveries) {
		t.Fatalf("node receivers.mjs %s printed %d verdicts", v.node, len(all))
	}
	return verdicts{all[0], all[1], all[2]}, stderr
}

// line is a line of the page. It names the verdicts that are not as they should be.
func (v verifier) line(got verdicts) string {
	var notes []string
	for _, one := range []struct {
		unusual bool
		what    string
	}{
		{!got.genuine, "refuses what was sent"}, {got.tampered, "accepts a changed body"},
		{got.wrongSecret, "accepts another secret"},
	} {
		if one.unusual {
			notes = append(notes, one.what)
		}
	}
	if v.note != "" {
		notes = append(notes, v.note)
	}
	line := fmt.Sprintf("`%s` | `eyelet send %s` | %s", v.library, v.signs, strings.Join(notes, "; "))
	return strings.TrimRight(line, " ") + "\n"
}

// request returns the delivery as an http.Request.
func (d signed) request() (*http.Request, error) {
	r, err := http.NewRequest(http.MethodPost, d.URL, strings.NewReader(d.Body))
	if err != nil {
		return nil, err
	}
	for name, value := range d.Header {
		r.Header.Set(name, value)
	}
	return r, nil
}

var errNotValid = errors.New("the signature is not valid")

// verifiers are the rows of the second table.
func verifiers() []verifier {
	adyen := [2]string{`"value":`, `"value":1`}
	all := []verifier{
		{library: "github.com/stripe/stripe-go/v85", signs: "stripe invoice.paid", verify: verifyStripe},
		{library: "github.com/svix/svix-webhooks", signs: "svix order.created", key: whsec, verify: verifySvix},
		{library: "github.com/standard-webhooks/standard-webhooks/libraries", signs: "standard-webhooks order.created",
			key: whsec, verify: verifyStandardWebhooks},
		{library: githubGo, signs: "github push", verify: verifyGitHub},
		{library: githubGo, signs: "github push --form", verify: verifyGitHub},
		{library: "github.com/mailgun/mailgun-go/v4", signs: "mailgun delivered", verify: verifyMailgun,
			tamper: [2]string{`"token":"`, `"token":"0`}, note: "the body is not signed; the token was changed"},
	}
	for _, alg := range []string{algEd25519, algP256, algRSAPSS, algHMAC} {
		all = append(all, verifier{library: httpsignGo, signs: "order.json", key: keyKinds[alg], note: algNames[alg],
			verify: func(d signed) error { return verifyYaronf(alg, d) }})
	}
	all = append(all, verifier{library: remitlyGo, signs: "order.json", refuses: true, verify: verifyRemitly,
		note: "the library derives another `@target-uri` than RFC 9421 section 2.2.2"})
	for _, row := range []verifier{
		{library: "stripe", signs: "stripe charge.refunded"},
		{library: "svix", signs: "svix order.created", key: whsec},
		{library: "standardwebhooks", signs: "standard-webhooks order.created", key: whsec},
		{library: "standardwebhooks", signs: "gitlab-signed push", key: whsec, note: "GitLab's signing token"},
		{library: "standardwebhooks", signs: "mcp-events incident.created", key: whsec},
		{library: "openai", signs: "standard-webhooks order.created", key: whsec},
		{library: "@octokit/webhooks-methods", signs: "github issues", node: "octokit"},
		{library: "@octokit/webhooks-methods", signs: "github push --form", node: "octokit"},
		{library: "@slack/bolt", signs: "slack app_mention", node: "slack"},
		{library: "@slack/bolt", signs: "slack block_actions", node: "slack"},
		{library: "@slack/bolt", signs: "slack /brew", node: "slack"},
		{library: "twilio", signs: "twilio received"},
		{library: "twilio", signs: "twilio-event-streams com.twilio.messaging.message.sent", node: "twilio-json"},
		{library: "@shopify/shopify-api", signs: "shopify orders/create", node: "shopify"},
		{library: "razorpay", signs: "razorpay payment.captured"},
		{library: "square", signs: "square payment.created"},
		{library: "@adyen/api-library", signs: "adyen CAPTURE", key: hexKey, node: "adyen", tamper: adyen},
		{library: "@adyen/api-library", signs: "adyen-platform", key: hexKey, node: "adyen-platform"},
		{library: "@line/bot-sdk", signs: "line message", node: "line"},
		{library: "@paddle/paddle-node-sdk", signs: "paddle transaction.paid", node: "paddle"},
		{library: "@workos-inc/node", signs: "workos user.created", node: "workos",
			tamper: [2]string{"mallow@", "marrow@"}},
		{library: "@linear/sdk", signs: "linear Issue", node: "linear"},
		{library: "@hubspot/api-client", signs: "hubspot contact.creation", node: "hubspot"},
		{library: "@sendgrid/eventwebhook", signs: "sendgrid delivered", key: sendGridPair, node: "sendgrid"},
		{library: "discord-interactions", signs: "discord APPLICATION_AUTHORIZED", key: discordPair, node: "discord"},
	} {
		if row.node == "" {
			row.node = row.library
		}
		all = append(all, row)
	}
	for _, alg := range []string{algEd25519, algP256, algRSAPSS, algHMAC} {
		all = append(all, verifier{library: "http-message-signatures", signs: "order.json", key: keyKinds[alg],
			note: algNames[alg], node: "http-message-signatures-" + alg})
	}
	return all
}
