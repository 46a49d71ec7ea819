package preset

import (
	"net/http"
	"strings"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

var docuSign = Preset{
	Name: "docusign",
	build: func(p *producer.Producer, _ Settings) {
		p.Key = producer.Join(producer.JSON("event"), producer.JSON("uri"), producer.JSON("generatedDateTime"),
			producer.First(producer.JSON("data.recipientId"), producer.Const("0")),
			producer.First(producer.JSON("configurationId"), producer.Const("0")))
		p.Scheme = docuSignScheme{p.Scheme.(*verify.HMAC)} //nolint:forcetypeassert // that of its row
	},
}

// docuSignField is the canonical name of the fields with a signature, before their number.
const docuSignField = "X-Docusign-Signature-"

// docuSignScheme reads the signatures of all numbered fields as entries of the first one.
type docuSignScheme struct{ *verify.HMAC }

// Verify implements [verify.Scheme].
func (s docuSignScheme) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	return s.verify(s.HMAC, r, body)
}

func (s docuSignScheme) verify(inner verify.Scheme, r *http.Request, body func() ([]byte, error)) (
	verify.Identity, error,
) {
	var all []string
	for name, lines := range r.Header {
		number, ok := strings.CutPrefix(name, docuSignField)
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		if len(lines) > 1 {
			return verify.Identity{}, &verify.Error{Code: verify.AmbiguousField, Component: name}
		}
		all = append(all, lines...)
	}
	joined := r.WithContext(r.Context()) // a shallow copy
	joined.Header = http.Header{docuSignField + "1": {strings.Join(all, ",")}}
	return inner.Verify(joined, body)
}
