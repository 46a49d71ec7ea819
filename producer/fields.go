package producer

import (
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// OwnFields lists the header fields that an intermediary sends on with an event, beside those that the signature covers and
// those that describe the content: Fields, those that hold the signature of an HMAC scheme and what goes with it, and those in
// which the identifier, the type and what Reads names are found. A name that ends with a star is the beginning of several.
func (p *Producer) OwnFields() []string {
	fields := slices.Concat(p.Fields, p.consumed())
	mapScheme(p.Scheme, func(s verify.Scheme) verify.Scheme {
		if h, ok := s.(*verify.HMAC); ok {
			fields = slices.Concat(fields, h.Headers, h.TimestampHeaders, h.IDHeaders)
		}
		return s
	})
	return slices.DeleteFunc(fields, func(name string) bool { return strings.HasPrefix(name, "@") })
}
