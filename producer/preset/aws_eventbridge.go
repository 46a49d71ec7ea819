package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// EventBridge receives from an API destination of Amazon EventBridge with the credential of its connection:
// verify.HeaderValue for an API key (make it long and random), or verify.Basic. Nothing is signed. (OAuth
// connections send tokens that the receiver's own authorization server made; use a JWT scheme for them.)
//
// The body is the event unless an input transformer makes another of it; then set Key and Type. EventBridge wants
// 2xx within 5 seconds and tries for 24 hours, but only after 401, 407, 409, 429 and 5xx (the list is from
// secondary sources).
//
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html
func EventBridge(credential *verify.Static) producer.Producer {
	p := webhook("aws-eventbridge", "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html")
	p = withCredential(p, credential)
	p.Key = producer.JSON("id")
	p.Type = producer.JSON("detail-type")
	p.Attributes = attributes(map[string]producer.Extractor{"source": producer.JSON("source"), "time": producer.JSON("time")})
	p.Window = 48 * time.Hour
	return p
}
