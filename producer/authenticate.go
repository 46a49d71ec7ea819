package producer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// challenges is the field WWW-Authenticate for a scheme.
func challenges(scheme verify.Scheme, realm string) string {
	var all []string
	mapScheme(scheme, func(s verify.Scheme) verify.Scheme {
		if c := challenge(s, realm); !slices.Contains(all, c) {
			all = append(all, c)
		}
		return s
	})
	return strings.Join(all, ", ")
}

// challenge is the challenge of one scheme. Signatures have no scheme in the registry of IANA; theirs is called Signature.
func challenge(scheme verify.Scheme, realm string) string {
	switch s := scheme.(type) {
	case *verify.JWT:
		if !s.Body {
			return fmt.Sprintf("Bearer realm=%q", realm)
		}
	case *verify.Static:
		switch s.In {
		case verify.InBearer:
			return fmt.Sprintf("Bearer realm=%q", realm)
		case verify.InBasic:
			return fmt.Sprintf("Basic realm=%q, charset=\"UTF-8\"", realm)
		}
	}
	return fmt.Sprintf("Signature realm=%q", realm)
}

// MediaTypesTaken lists the media types that a 415 names: MediaTypes, or those of CloudEvents, whose reader is the only one that
// refuses a media type by itself.
func (p *Producer) MediaTypesTaken() []string {
	switch {
	case len(p.MediaTypes) > 0:
		return p.MediaTypes
	case p.Split != nil:
		return []string{MediaCloudEvent, MediaCloudEventBatch}
	}
	return []string{MediaCloudEvent}
}

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
