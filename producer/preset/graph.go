package preset

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// microsoftGraph receives change notifications of Microsoft Graph, lifecycle notifications
// included. A secret is the clientState that the program gave its subscription, at most 128
// characters. Every notification of a delivery must have it. It authenticates the sender but not
// the rest of the body, and is left out of the events that handlers get.
//
// The validationToken with which Graph checks a new subscription is returned as text. A delivery
// is a batch. A notification is identified by its id or, where it has none, by a digest of its
// bytes. The type is lifecycleEvent ("missed") or changeType ("created"). Resource data that is
// encrypted stays so, and validationTokens are not read.
//
// Sources, read in November 2026: Microsoft's pages on receiving change notifications through
// webhooks and on lifecycle events. It wants 2xx within 3 seconds and tries for 4 hours.
//
// https://learn.microsoft.com/graph/change-notifications-delivery-webhooks
var microsoftGraph = Preset{
	Name: "graph", Docs: "https://learn.microsoft.com/graph/change-notifications-delivery-webhooks",
	Auth: "clientState of each notification", ID: "id, or a digest", Deadline: "3s", Wants: "2xx; 4h",
	Uses: []string{"secret"}, like: producer.Producer{
		Window:  28 * time.Hour,
		Summary: []string{"{json:resource}"},
	},
	build: func(p *producer.Producer, s Settings) {
		signedBy(p, clientStates(verify.Secrets(s.Secrets...)))
		p.Echo = &producer.Echo{Query: "validationToken", Methods: []string{http.MethodPost}}
		notifications := batch{
			Path: []string{"value"}, ID: producer.JSON("id"),
			Kind: producer.First(producer.JSON("lifecycleEvent"), producer.JSON("changeType")),
			Own: map[string]producer.Extractor{
				"subject": producer.JSON("resource"), "source": producer.JSON("tenantId"),
				"subscription": producer.JSON("subscriptionId"),
			},
		}
		p.Split = func(d *producer.Delivery) ([]producer.Item, error) {
			items, err := notifications.split(d)
			for i := range items {
				if items[i].Body[0] == '{' {
					rest := bytes.TrimSuffix(without(items[i].Body, clientState), []byte(","))
					items[i].Body = append(append([]byte("{"), rest...), '}')
				}
			}
			return items, err
		}
	},
	typeFrom: "json:value.*.changeType",
}

// clientState is the member with the credential of a notification.
const clientState = "clientState"

// clientStates verifies a credential that every notification of a delivery has.
type clientStates []verify.Secret

// Check reports all errors of the description.
func (c clientStates) Check() error {
	if len(c) == 0 {
		return errors.New("credential: no secret is set")
	}
	var errs []error
	for i, secret := range c {
		if _, err := secret.Decode(verify.Raw); err != nil || len(secret) > 128 {
			errs = append(errs, errors.New("credential: secret "+strconv.Itoa(i+1)+" is not 1 to 128 characters"))
		}
	}
	return errors.Join(errs...)
}

// Verify implements [verify.Scheme].
func (c clientStates) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	if err := c.Check(); err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.KeysUnavailable, Err: err}
	}
	raw, err := body()
	if err != nil {
		return verify.Identity{}, err
	}
	id, missing := verify.Identity{}, &verify.Error{Code: verify.CredentialsMissing, Component: clientState}
	all := valueAt(raw, "value")
	if len(all) == 0 || all[0] != '[' {
		return id, missing
	}
	err = strictjson.EachElement(all, func(one []byte) error {
		state, err := producer.JSON(clientState).Extract(&producer.Delivery{Request: r, Body: one})
		if err != nil || state == "" {
			return missing
		}
		id.Secret = 0
		for i, secret := range c {
			if sameText(state, string(secret)) {
				id.Secret = i + 1
			}
		}
		if id.Secret == 0 {
			return &verify.Error{Code: verify.CredentialsMismatch, Component: clientState}
		}
		return nil
	})
	switch {
	case err != nil:
		return verify.Identity{}, err
	case id.Secret == 0:
		return id, missing
	}
	return id, nil
}

// SignBody adds the credential to each notification.
func (c clientStates) SignBody(_ *http.Request, body []byte, _ time.Time) ([]byte, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	state := []byte(strconv.Quote(string(c[0])))
	var signed [][]byte
	err := strictjson.EachElement(valueAt(body, "value"), func(one []byte) error {
		signed = append(signed, withMember(one, clientState, string(state), true))
		return nil
	})
	return withMember(body, "value", "["+string(bytes.Join(signed, []byte(",")))+"]", true), err
}

// Binds implements [verify.Binder]: nothing of a delivery is signed.
func (c clientStates) Binds() verify.Binding { return verify.Binding{} }

// String describes the scheme for the policy.
func (c clientStates) String() string {
	return "a fixed value of the member " + clientState + " of each notification"
}
