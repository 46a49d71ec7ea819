package preset

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Discord receives webhook events and interactions of a Discord application. A key is the
// application's public key, 64 hexadecimal digits. The signed pings with which Discord checks a
// URL are answered: 204 for events, a pong for interactions.
//
// An event is answered with 204, and an interaction with a response that Discord reads: a command
// or a form is deferred, so that a handler has 15 minutes to edit the response, a component leaves
// its message as it is, and a completion offers nothing. An Answer handler, which has 3 seconds,
// gives a response of its own.
//
// An interaction has an id; events have none, and a digest of the signed content identifies
// them. The event type is event.type ("APPLICATION_AUTHORIZED"), or the number of an
// interaction's type. Time and body are signed without a separator; moved digits leave no JSON
// object, and are refused.
//
// Sources, read in November 2026: Discord's documentation of webhook events and interactions,
// discord-interactions 4.4.0 and discordgo 0.29.0. The tolerance of 5 minutes is ours.
//
// https://docs.discord.com/developers/events/webhook-events
func Discord(keys ...string) producer.Producer { return discord.with(keys) }

var discord = Preset{
	Name: "discord", Docs: "https://docs.discord.com/developers/events/webhook-events",
	Auth: "Ed25519 of time and body", ID: "body id, or a digest", Deadline: "3s", Wants: "2xx; 10m",
	Uses: []string{"secret"},
	like: producer.Producer{
		Fields: []string{"X-Signature-*"}, Key: producer.JSON("id"),
		Type: producer.First(producer.JSON("event.type"), producer.JSON("type")), Tolerance: fiveMinutes,
		Window: day + time.Hour,
	},
	build: func(p *producer.Producer, s Settings) {
		scheme := &verify.HMAC{
			Headers: []string{"X-Signature-Ed25519"}, Entries: []string{"{ed25519}"}, Encoding: verify.Hex,
			TimestampHeaders: []string{"X-Signature-Timestamp"}, Content: "{timestamp}{body}", Malleable: true,
		}
		for _, text := range s.Secrets {
			key, err := hex.DecodeString(text)
			if err != nil || len(key) != ed25519.PublicKeySize {
				p.Err = errors.Join(p.Err, errors.New("a public key is not 64 hexadecimal digits"))
				continue
			}
			scheme.PublicKeys = append(scheme.PublicKeys, key)
		}
		if p.Err != nil {
			return
		}
		signedBy(p, scheme)
		p.Handshake = discordHandshake
		p.Accepted.Status = http.StatusNoContent
		p.AcceptedTypes = map[string]dedup.Response{ // by the type of an interaction
			"2": discordReply(`{"type":5}`), "3": discordReply(`{"type":6}`),
			"4": discordReply(`{"type":8,"data":{"choices":[]}}`), "5": discordReply(`{"type":5}`),
		}
	},
	signWith: signDiscord,
}

// discordHandshake answers pings. Type 0 is the ping of events; type 1 is that of interactions,
// and of an event if it has one.
func discordHandshake(_ context.Context, d *producer.Delivery) (*dedup.Response, error) {
	if doc, err := d.JSON(); err != nil || doc[0] != '{' {
		return nil, malformed("body", verify.Public("not a JSON object"))
	}
	kind, err := producer.JSON("type").Extract(d)
	if err != nil {
		return nil, err
	}
	switch event := valueAt(d.Body, "event"); {
	case kind == "0":
		return &dedup.Response{Status: http.StatusNoContent}, nil
	case kind == "1" && event == nil:
		pong := discordReply(`{"type":1}`)
		return &pong, nil
	}
	return nil, nil
}

func discordReply(text string) dedup.Response {
	header := http.Header{"Content-Type": {"application/json"}}
	return dedup.Response{Status: http.StatusOK, Header: header, Body: []byte(text)}
}
