package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// EventBridge receives from an API destination of Amazon EventBridge, with the credential of
// its connection: verify.HeaderValue for an API key (make it long and random) or verify.Basic.
// Nothing is signed. OAuth connections send tokens of the receiver's own authorization server;
// use a JWT scheme for them.
//
// The body is the event unless an input transformer changes it; then set Key and Type.
// EventBridge wants 2xx within 5 seconds and retries for 24 hours, but only after 401, 407,
// 409, 429 and 5xx (according to secondary sources).
//
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html
func EventBridge(credential *verify.Static) producer.Producer {
	return awsEventBridge.producer(Settings{static: credential})
}

var awsEventBridge = Preset{
	Name: "aws-eventbridge", Docs: "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html",
	Auth: "API key, basic or bearer", ID: "body id", Deadline: "5s", Wants: "2xx; 24h",
	Uses: []string{"username", "password", "header", "query", "value", "bearer", "secrets"},
	key:  producer.JSON("id"), kind: producer.JSON("detail-type"), window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		withCredential(p, s.credential())
		p.Attributes = attributes(map[string]producer.Extractor{
			"source": producer.JSON("source"), "time": producer.JSON("time"),
		})
	},
}
