package preset

import (
	"context"
	"net/http"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

var discord = Preset{
	Name: "discord",
	build: func(p *producer.Producer, _ Settings) {
		p.Handshake = discordHandshake
		p.Accepted.Status = http.StatusNoContent
		p.AcceptedTypes = map[string]dedup.Response{ // by the type of an interaction
			"2": discordReply(`{"type":5}`), "3": discordReply(`{"type":6}`),
			"4": discordReply(`{"type":8,"data":{"choices":[]}}`), "5": discordReply(`{"type":5}`),
		}
	},
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
