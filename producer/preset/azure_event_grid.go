package preset

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// azureEventGrid receives from Azure Event Grid, in its own schema and that of CloudEvents, up
// to 5,000 events per delivery. Event Grid signs nothing. Settings choose how it authenticates:
//
//   - query (or header) and secret: a key in the webhook's URL, or a static header of the
//     subscription.
//   - audience and issuers, and jwks_url: an Entra token of Event Grid's application (account).
//
// Topics, if set, lists the accepted topics (the sources of CloudEvents). An event of another
// topic refuses the whole delivery (topic_unexpected).
//
// The validation event of a new subscription is answered at once. So are OPTIONS requests of the
// CloudEvents schema if origins is set ("eventgrid.azure.net"). The validation URL is never called.
//
// Event Grid retries for 24 hours. After 400 and 413 it dead-letters the event at once.
//
// https://learn.microsoft.com/azure/event-grid/end-point-validation-event-grid-events-schema
var azureEventGrid = Preset{
	Name: "azure-event-grid", Docs: "https://learn.microsoft.com/azure/event-grid/webhook-event-delivery",
	Auth: "key in the URL or a header, or an Entra token", ID: "each event's id", Deadline: "30s",
	Wants: "200-204; 24h",
	Uses: []string{
		"query", "header", "secret", "audience", "issuers", "account", "jwks_url", "alg", "origins", "topic",
	},
	like: producer.Producer{
		Summary: []string{"{json:subject}"},
		Fields: []string{
			"Aeg-Event-Type", "Aeg-Subscription-Name", "Aeg-Delivery-Count", "Aeg-Data-Version", "Aeg-Metadata-Version",
		},
	},
	needs: map[string]any{"query": "code"}, build: buildEventGrid, typeFrom: "json:*.eventType",
}

func buildEventGrid(p *producer.Producer, s Settings) {
	var urlKey verify.Scheme
	switch {
	case s.Query != "":
		scheme := verify.QueryValue(s.Query, s.Secrets...)
		withCredential(p, scheme)
		urlKey = scheme
	case s.Header != "":
		withCredential(p, verify.HeaderValue(s.Header, s.Secrets...))
	default:
		signedByEntra(p, s)
	}
	grid := eventGrid{topics: s.Topics}
	p.Split = grid.split
	p.Handshake = grid.validate
	p.Window = 2 * day
	grantsOrigins(p, s, urlKey)
}

// eventGridApp is the application id of Microsoft.EventGrid, equal in every tenant.
const eventGridApp = "4962773b-9cdb-44cf-a8bf-237846a00ab7"

// signedByEntra verifies the tokens that Event Grid gets for a protected webhook.
func signedByEntra(p *producer.Producer, s Settings) {
	if len(s.Audience) == 0 || len(s.Issuers) == 0 {
		p.Err = errors.New("set query (or header) and secret, or audience and issuers for Entra tokens")
		return
	}
	apps := s.Account
	if len(apps) == 0 {
		apps = []string{eventGridApp}
	}
	signedByTokens(p, s, "https://login.microsoftonline.com/common/discovery/v2.0/keys", &verify.JWT{
		Algorithms: algorithms(s, "RS256"), Audiences: s.Audience, Issuers: s.Issuers,
		Claims: []verify.ClaimRule{
			{Names: []string{"appid", "azp"}, Values: apps},
			{Names: []string{"roles"}, Values: []string{"AzureEventGridSecureWebhookSubscriber"}},
		},
	})
}

const validationEvent = "Microsoft.EventGrid.SubscriptionValidationEvent"

// gridSchema reads Event Grid's own schema.
var gridSchema = batch{
	ID: producer.JSON("id"), Kind: producer.JSON("eventType"), typed: true,
	Own: map[string]producer.Extractor{
		"source": producer.JSON("topic"), "subject": producer.JSON("subject"), "time": producer.JSON("eventTime"),
		"dataversion": producer.JSON("dataVersion"),
	},
}

// eventGrid reads deliveries of the listed topics, or of all if there are none.
type eventGrid struct{ topics []string }

// split reads Event Grid's own schema, or CloudEvents.
func (g eventGrid) split(d *producer.Delivery) ([]producer.Item, error) {
	read := gridSchema.split
	if producer.IsCloudEvent(d.Request.Header) {
		read = producer.SplitCloudEvents
	}
	items, err := read(d)
	if err != nil || len(g.topics) == 0 {
		return items, err
	}
	for _, it := range items {
		// Names of Azure resources are case-insensitive.
		isSource := func(topic string) bool { return strings.EqualFold(topic, it.Attributes["source"]) }
		if verify.CodeOf(it.Err) != verify.EventMalformed && !slices.ContainsFunc(g.topics, isSource) {
			return nil, &verify.Error{Code: verify.TopicUnexpected, Component: "topic"}
		}
	}
	return items, nil
}

// validate answers the validation of a subscription with its code, as JSON.
func (g eventGrid) validate(_ context.Context, d *producer.Delivery) (*dedup.Response, error) {
	if d.Request.Header.Get("Aeg-Event-Type") != "SubscriptionValidation" {
		return nil, nil
	}
	if _, err := g.split(d); err != nil {
		return nil, err
	}
	kind, err := producer.JSON("0.eventType").Extract(d)
	if err != nil {
		return nil, err
	}
	code, err := producer.JSON("0.data.validationCode").Extract(d)
	if err != nil {
		return nil, err
	}
	if kind != validationEvent || code == "" || len(code) > producer.MaxKey {
		return nil, malformed("body", errors.New("not a validation event"))
	}
	return jsonResponse(map[string]string{"validationResponse": code}), nil
}
