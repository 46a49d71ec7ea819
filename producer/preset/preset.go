// Package preset describes vendors. [With] returns the [producer.Producer] of one by its name, and
// [Open] one with other settings than secrets. [All] is the table of them.
package preset

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

const day = 24 * time.Hour

// fiveMinutes is the tolerance of most vendors.
var fiveMinutes = verify.Tolerance{Past: 5 * time.Minute, Future: 5 * time.Minute}

// All returns the presets in the order of their names.
func All() []Preset { return slices.Clone(sorted()) }

var sorted = sync.OnceValue(func() []Preset {
	all := slices.DeleteFunc(coded(), func(p Preset) bool { return p.Docs == "" }) // rows have the others
	all = append(all, readTable()...)
	slices.SortFunc(all, func(a, b Preset) int { return strings.Compare(a.Name, b.Name) })
	return all
})

// coded returns the presets that are not in presets.yaml, and the code of those that are.
func coded() []Preset {
	return []Preset{
		activityPub, adCP, adyen, awsSNS, azureEventGrid, cloudEvents, discord, docuSign, googleEventarc, googlePubSub,
		hubSpot, lark, mailgun, mandrill, mcpEvents, meta, microsoftGraph, ocm, okta, openBankingUK, openPayments,
		payPal, strava, stripe, swt, telegram, twilio, twilioEventStreams, twitch, ucp, webEngage, webSub, xero,
		yandexPay, yooKassa, zoom,
	}
}

// Find returns the preset of that name.
func Find(name string) (Preset, bool) {
	i, ok := slices.BinarySearchFunc(sorted(), name, func(p Preset, name string) int {
		return strings.Compare(p.Name, name)
	})
	if !ok {
		return Preset{}, false
	}
	return sorted()[i], true
}

// With returns the producer of the preset of that name, such as "shopify", with its secrets. An
// unknown name is a mistake in Err. [Open] is for presets with other settings.
func With(name string, secrets ...string) producer.Producer {
	return Open(name, Settings{Secrets: secrets})
}

// Open returns the producer of the preset of that name, as [Preset.Open] does. An unknown name is a
// mistake in Err.
func Open(name string, s Settings) producer.Producer {
	p, ok := Find(name)
	if !ok {
		return producer.Producer{Name: name, Err: fmt.Errorf("unknown preset %q", name)}
	}
	return p.Open(s)
}

// GitHub receives webhooks of GitHub: "github" of [With].
func GitHub(secrets ...string) producer.Producer { return With("github", secrets...) }

// Slack receives the Events API, slash commands and interactions of Slack: "slack" of [With].
func Slack(secrets ...string) producer.Producer { return With("slack", secrets...) }

// Stripe receives webhooks of Stripe: "stripe" of [With].
func Stripe(secrets ...string) producer.Producer { return With("stripe", secrets...) }

// Preset is a vendor.
type Preset struct {
	// Name is the vendor's name in the configuration, Docs the address of its documentation.
	Name, Docs string
	// Auth describes how deliveries are authenticated, and ID where their identifier is.
	Auth, ID string
	// Deadline is how soon the vendor wants a response; "" if unknown.
	Deadline string
	// Wants is the response that counts as received, and how long the vendor retries.
	Wants string
	// Uses lists the settings of the preset by their tags in [Settings]. Every preset has name
	// and allowed_ips.
	Uses []string

	like  producer.Producer                  // the fields that no setting decides
	hmac  *verify.HMAC                       // the scheme, if the setting secrets has its secrets
	build func(*producer.Producer, Settings) // sets another scheme, and what a setting changes

	at       usage.Place // in a file of presets
	types    []string    // known ones, if samples.txt has none
	typeFrom string      // where the type is, for events of a batch
	signWith keySigner   // for vendors that sign with a private key

	needs        map[string]any // further settings of a trial ([Preset.Trial])
	secretPrefix string         // of a new secret

	sharedKeys bool // signWith uses the setting keys, which are shared secrets
}

// Open returns the producer, under the name of the settings if they have one. Settings that the
// preset does not use are a mistake. Mistakes are in Err.
func (p Preset) Open(s Settings) producer.Producer {
	made := p.producer(s)
	if s.Name != "" {
		made.Name = s.Name
	}
	if len(s.AllowedIPs) > 0 {
		made.AllowedIPs = s.AllowedIPs
	}
	made.Err = errors.Join(p.unused(s), made.Err)
	return made
}

// producer builds the producer. All vendors retry, and drop an event on some 4xx.
func (p Preset) producer(s Settings) producer.Producer {
	made := p.like
	made.Name, made.Preset, made.Docs, made.Contract, made.StaleKnown = p.Name, p.Name, p.Docs, producer.Webhook, true
	if p.hmac != nil {
		signedLike(&made, s, p.hmac, p.secretPrefix)
	}
	if p.build != nil {
		p.build(&made, s)
	}
	return made
}

// Window is how long the preset remembers identifiers: as long as the vendor retries, and a day.
func (p Preset) Window() time.Duration { return p.producer(Settings{}).WithDefaults().Window }

// Class returns what identifies the preset's events.
func (p Preset) Class() producer.Class {
	made := p.described()
	return made.Class()
}

// described returns the producer without secrets, for tables of presets. Presets for tokens
// have a scheme only when they know what a token must contain.
func (p Preset) described() producer.Producer {
	named := []string{"any"}
	return p.producer(Settings{Account: named, Audience: named, Issuers: named, JWKSURL: "https://keys.example",
		Allow: []string{"https://shop.example/.well-known/ucp"}})
}

// unused reports the settings that have no meaning for the preset.
func (p Preset) unused(s Settings) error {
	var errs []error
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("conf"), ",")
		used := name == "" || name == "name" || name == "allowed_ips" || slices.Contains(p.Uses, name)
		if used || v.Field(i).IsZero() {
			continue
		}
		uses := strings.Join(p.Uses, ", ")
		errs = append(errs, fmt.Errorf("preset %s has no setting %q; it has %s", p.Name, name, uses))
	}
	return errors.Join(errs...)
}
