package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
)

// GitHub receives webhooks of GitHub and GitHub Enterprise Server. The event type is
// X-GitHub-Event ("push", "pull_request"); the attribute "action" is that member of the body. A
// new webhook sends one event of type "ping". Of a webhook with the content type
// application/x-www-form-urlencoded, which is GitHub's default, handlers get the JSON in the form.
//
// GitHub does not retry: a refused event is lost until it is redelivered by hand. Bodies of up to
// 25 MiB, the vendor's own limit, are therefore accepted. Redeliveries have the same
// X-GitHub-Delivery, for 3 days (general knowledge, not re-read). That field is not signed, and
// several hooks of one action share it, so a digest of the body identifies the event. Bodies
// without a time or number of their own (workflow_dispatch, membership, ping and a few more) are
// accepted up to 16 times with different identifiers. Any other repeated body is quarantined.
//
// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
func GitHub(secrets ...string) producer.Producer { return gitHub.with(secrets) }

var gitHub = Preset{
	Name: "github", Docs: "https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
	Auth: "HMAC-SHA256 of the body", ID: "X-GitHub-Delivery", Deadline: "10s", Wants: "2xx; tries once",
	Uses: []string{"secret", "alg"},
	like: producer.Producer{
		Fields: []string{"X-GitHub-*", "X-Hub-Signature"}, Key: producer.Header("X-GitHub-Delivery"),
		KeyRequired: true, Type: producer.Header("X-GitHub-Event"), Window: 4 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		signedAsHub(p, s)
		p.Attributes = attributes(map[string]producer.Extractor{"action": producer.JSON("action")})
		p.Repeatable = producer.Shapes(16, gitHubShapes...)
		p.MaxBody, p.FormMember = 25<<20, "payload"
	},
}

// gitHubShapes are the bodies that two events can share, by members of the vendor's schemas. Add a
// line for a new kind of event without a time; until then its repetitions are quarantined.
var gitHubShapes = [][]string{
	{"workflow", "inputs", "ref"},                        // workflow_dispatch
	{"client_payload", "branch"},                         // repository_dispatch
	{"scope", "team", "member"},                          // membership
	{"membership", "organization"},                       // organization: member_added, member_removed
	{"team", "repository", "!action"},                    // team_add
	{"zen", "hook_id"},                                   // ping
	{"check_run", "action=rerequested|requested_action"}, // buttons
}
