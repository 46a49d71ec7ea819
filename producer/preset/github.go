package preset

import (
	"errors"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// GitHub receives webhooks of GitHub and GitHub Enterprise Server. The event type is X-GitHub-Event ("push",
// "pull_request"); the member "action" of the body is in the event's attributes. A new webhook sends one event
// of type "ping".
//
// GitHub never tries again by itself, so what is refused is lost until somebody redelivers it: bodies of up to
// 25 MiB are accepted, the vendor's own limit. It redelivers under the same X-GitHub-Delivery, for 3 days (from
// general knowledge, not re-read). That field is not signed, and several hooks of one action share it: events are named
// by a digest of the body. Bodies without a time or a number of their own (workflow_dispatch, membership, ping and a few
// more) may come up to 16 times with different identifiers; any other body that comes again is quarantined.
//
// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
func GitHub(secrets ...string) producer.Producer { return gitHub(Settings{Secrets: secrets}) }

func gitHub(s Settings) producer.Producer {
	p := webhook("github", "https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries")
	p = signedAsHub(p, s)
	p.Key, p.KeyRequired = producer.Header("X-GitHub-Delivery"), true
	p.Type = producer.Header("X-GitHub-Event")
	p.Attributes = attributes(map[string]producer.Extractor{"action": producer.JSON("action")})
	p.Repeatable = producer.Shapes(16, gitHubShapes...)
	p.MaxBody = 25 << 20
	p.Window = 4 * 24 * time.Hour
	return p
}

// gitHubShapes are the bodies that two events can share, by the members of them that the vendor's schemas list. A new
// kind of event without a time is quarantined when it comes again, and is one more line here.
var gitHubShapes = [][]string{
	{"workflow", "inputs", "ref"},                        // workflow_dispatch
	{"client_payload", "branch"},                         // repository_dispatch
	{"scope", "team", "member"},                          // membership
	{"membership", "organization"},                       // organization: member_added, member_removed
	{"team", "repository", "!action"},                    // team_add
	{"zen", "hook_id"},                                   // ping
	{"check_run", "action=rerequested|requested_action"}, // buttons
}

// signedAsHub sets the scheme of GitHub and of Meta: an HMAC of the body in X-Hub-Signature-256. The older field
// X-Hub-Signature counts too where something else than SHA-256 is allowed (allow_sha1, algs).
func signedAsHub(p producer.Producer, s Settings) producer.Producer {
	list, err := plainSecrets(s.Secrets)
	scheme := &verify.HMAC{
		Headers: []string{"X-Hub-Signature-256"}, Entries: []string{"{alg}={sig}"}, Hashes: hashes(s.Algs, verify.SHA256),
		Encoding: verify.Hex, Secrets: list,
	}
	if s.AllowSHA1 && !slices.Contains(scheme.Hashes, verify.SHA1) {
		scheme.Hashes = append(scheme.Hashes, verify.SHA1)
	}
	if !slices.Equal(scheme.Hashes, []verify.Hash{verify.SHA256}) {
		scheme.Headers = append(scheme.Headers, "X-Hub-Signature")
	}
	p = signedBy(p, scheme)
	p.Err = errors.Join(err, p.Err)
	return p
}

// hashes are those that the setting algs names, or else the preset's.
func hashes(algs []string, preset ...verify.Hash) []verify.Hash {
	if len(algs) == 0 {
		return preset
	}
	named := make([]verify.Hash, len(algs))
	for i, a := range algs {
		named[i] = verify.Hash(a)
	}
	return named
}

// attributes reads facts that are nice to know. One that cannot be had, or not without doubt, is left out.
func attributes(from map[string]producer.Extractor) func(*producer.Delivery) (map[string]string, error) {
	return func(d *producer.Delivery) (map[string]string, error) {
		found := map[string]string{}
		for name, x := range from {
			if v, err := x.Extract(d); err == nil && v != "" {
				found[name] = v
			}
		}
		return found, nil
	}
}
