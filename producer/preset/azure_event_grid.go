package preset

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// eventGridApp is the application id of Microsoft.EventGrid, which is the same in every tenant.
const eventGridApp = "4962773b-9cdb-44cf-a8bf-237846a00ab7"

// AzureEventGrid receives from Azure Event Grid, in its own schema and in that of CloudEvents, up to 5,000
// events a delivery. Event Grid signs nothing; one of these settings says how it proves itself:
//
//   - query (or header) and value: a key in the webhook's URL, or a static header of the subscription; while it is
//     changed, secrets holds the others that may match
//   - audience and issuers, and jwks_url: an Entra token of Event Grid's application (app_ids)
//
// Topics, when it is set, lists the topics (the sources of CloudEvents) whose events are taken; one that is not
// on the list has the whole delivery refused (topic_unexpected).
//
// The validation event of a new subscription is answered at once, and OPTIONS requests of the CloudEvents
// schema when origins is set ("eventgrid.azure.net"). The validation address is never called.
//
// Event Grid tries for 24 hours and moves an event to its dead letters on 400 and 413 at once.
//
// https://learn.microsoft.com/azure/event-grid/end-point-validation-event-grid-events-schema
func AzureEventGrid(s Settings) producer.Producer {
	p := webhook("azure-event-grid", "https://learn.microsoft.com/azure/event-grid/webhook-event-delivery")
	var urlKey verify.Scheme
	switch {
	case s.Query != "":
		scheme := &verify.Static{In: verify.InQuery, Name: s.Query, Secrets: verify.Secrets(s.values()...)}
		p, urlKey = signedBy(p, scheme), scheme
		p.SecretQuery = []string{s.Query}
	case s.Header != "":
		p = signedBy(p, &verify.Static{In: verify.InHeader, Name: s.Header, Secrets: verify.Secrets(s.values()...)})
		p.SecretHeaders = []string{s.Header}
	default:
		p = entra(p, s)
	}
	p.KeyRequired = true
	grid := eventGrid{topics: s.Topics}
	p.Split = grid.split
	p.Handshake = grid.validate
	p.Window = 48 * time.Hour
	return grants(p, s, urlKey)
}

// entra verifies the tokens that Event Grid gets for a protected webhook.
func entra(p producer.Producer, s Settings) producer.Producer {
	if len(s.Audience) == 0 || len(s.Issuers) == 0 {
		p.Err = errors.New("set query (or header) and value, or audience and issuers for Entra tokens")
		return p
	}
	apps := s.AppIDs
	if len(apps) == 0 {
		apps = []string{eventGridApp}
	}
	p = signedByTokens(p, s, "https://login.microsoftonline.com/common/discovery/v2.0/keys", &verify.JWT{
		Algorithms: algorithms(s, "RS256"), Audiences: s.Audience, Issuers: s.Issuers,
		Claims: []verify.ClaimRule{
			{Names: []string{"appid", "azp"}, Values: apps},
			{Names: []string{"roles"}, Values: []string{"AzureEventGridSecureWebhookSubscriber"}},
		},
	})
	return p
}

const (
	validationEvent = "Microsoft.EventGrid.SubscriptionValidationEvent"
	maxGridEvents   = 5000
)

// eventGrid reads the deliveries of Event Grid.
type eventGrid struct{ topics []string }

// split takes a delivery apart and checks the topics.
func (g eventGrid) split(d *producer.Delivery) ([]producer.Item, error) {
	items, err := splitGridSchemas(d)
	if err != nil || len(g.topics) == 0 {
		return items, err
	}
	for _, it := range items {
		// The names of Azure's resources have no case.
		if !slices.ContainsFunc(g.topics, func(t string) bool { return strings.EqualFold(t, it.Attributes["source"]) }) {
			return nil, &verify.Error{Code: verify.TopicUnexpected, Component: "topic"}
		}
	}
	return items, nil
}

// splitGridSchemas takes a delivery apart: an array of Event Grid's own schema, or CloudEvents.
func splitGridSchemas(d *producer.Delivery) ([]producer.Item, error) {
	if producer.IsCloudEvent(d.Request.Header) {
		return producer.SplitCloudEvents(d)
	}
	doc, err := d.JSON()
	if err == nil && doc[0] != '[' {
		err = errors.New("not an array of events")
	}
	if err != nil {
		return nil, refused("body", err)
	}
	items := []producer.Item{}
	err = strictjson.EachElement(doc, func(value []byte) error {
		if len(items) == maxGridEvents {
			return refused("body", errors.New("over 5000 events"))
		}
		it, err := gridItem(d, value)
		items = append(items, it)
		return err
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}

func gridItem(d *producer.Delivery, event []byte) (producer.Item, error) {
	one := &producer.Delivery{Request: d.Request, Body: event, Identity: d.Identity}
	it := producer.Item{Body: event, Attributes: map[string]string{}}
	var err error
	if it.ID, err = producer.JSON("id").Extract(one); err != nil {
		return it, err
	}
	if it.Type, err = producer.JSON("eventType").Extract(one); err != nil {
		return it, err
	}
	if it.ID == "" || it.Type == "" {
		return it, refused("body", errors.New("an event without id or eventType"))
	}
	read := attributes(map[string]producer.Extractor{
		"source": producer.JSON("topic"), "subject": producer.JSON("subject"), "time": producer.JSON("eventTime"), "dataversion": producer.JSON("dataVersion"),
	})
	it.Attributes, err = read(one)
	return it, err
}

// validate answers the validation of a subscription with the code that it carries, as JSON.
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
		return nil, refused("body", errors.New("not a validation event"))
	}
	body, err := json.Marshal(map[string]string{"validationResponse": code})
	if err != nil {
		return nil, err
	}
	return &dedup.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
}
