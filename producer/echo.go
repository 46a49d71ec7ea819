package producer

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/verify"
)

// MaxChallengeBody limits the body of an unsigned challenge, in bytes.
const MaxChallengeBody = 4 << 10

// maxEcho limits the echoed value, in bytes.
const maxEcho = 1 << 10

// Echo describes a handshake whose sender wants a value of its request back, as most do that check
// an endpoint before they send events. Exactly one of Query, Member and Field is set.
//
// The value has at most 1,024 bytes and is returned as text or JSON, which no browser runs. It is
// neither stored nor logged.
type Echo struct {
	// Query is a parameter of a GET request. Its value is returned as text.
	Query string
	// Member is the only member of a JSON object in the body of a delivery. The object is returned.
	Member string
	// Field is a header field of a delivery without a credential, which the response repeats.
	Field string
	// Text returns the value of Member as text.
	Text bool
}

func (e *Echo) check(methods []string) error {
	set := slices.DeleteFunc([]string{e.Query, e.Member, e.Field}, func(s string) bool { return s == "" })
	switch {
	case len(set) != 1:
		return errors.New("challenge: set exactly one of a query parameter, a JSON member and a header field")
	case e.Field != "" && !verify.IsToken(e.Field):
		return errors.New("challenge: the name of the header field is not one")
	case e.Text && e.Member == "":
		return errors.New("challenge: only a JSON member is returned as JSON or as text")
	case e.Query != "" && slices.Contains(methods, http.MethodGet):
		return errors.New("challenge: GET is a method of deliveries, so it cannot be one of challenges")
	}
	return nil
}

// install sets the functions of the producer that the handshake needs.
func (e *Echo) install(p Producer) Producer {
	p.Echo = nil
	switch {
	case e.Query != "":
		p.Challenge, p.ChallengeMethods = e.answerQuery, []string{http.MethodGet}
	case e.Member != "":
		p.UnsignedChallenge = func(_ *http.Request, body []byte) *dedup.Response { return e.answerMember(body) }
		p.Handshake = func(_ context.Context, d *Delivery) (*dedup.Response, error) {
			return e.answerMember(d.Body), nil
		}
	case e.Field != "":
		p.UnsignedChallenge = func(r *http.Request, _ []byte) *dedup.Response { return e.answerField(r) }
	}
	return p
}

func (e *Echo) answerQuery(r *http.Request) (*dedup.Response, error) {
	if r.Method != http.MethodGet {
		return nil, nil
	}
	value, err := Query(e.Query).Extract(&Delivery{Request: r})
	if err == nil && value == "" {
		return nil, nil
	}
	if err == nil && !echoes(value) {
		err = &verify.Error{Code: verify.ChallengeUnexpected, Component: e.Query}
	}
	if err != nil {
		return nil, err
	}
	return echoed("text/plain", []byte(value)), nil
}

// answerMember returns nil unless the body is an object with this one member.
func (e *Echo) answerMember(body []byte) *dedup.Response {
	if len(body) > MaxChallengeBody {
		return nil
	}
	object, err := strictjson.ParseObject(body)
	value, isText := object.Text(e.Member)
	if err != nil || len(object) != 1 || !isText || !echoes(value) {
		return nil
	}
	if e.Text {
		return echoed("text/plain", []byte(value))
	}
	text, err := json.Marshal(map[string]string{e.Member: value})
	if err != nil {
		return nil
	}
	return echoed("application/json", text)
}

func (e *Echo) answerField(r *http.Request) *dedup.Response {
	value, err := Header(e.Field).Extract(&Delivery{Request: r})
	if err != nil || !echoes(value) {
		return nil
	}
	resp := echoed("text/plain", nil)
	resp.Header.Set(e.Field, value)
	return resp
}

// echoes reports whether the value may be returned: visible ASCII of a moderate length.
func echoes(value string) bool {
	hidden := func(r rune) bool { return r <= ' ' || r > '~' }
	return value != "" && len(value) <= maxEcho && !strings.ContainsFunc(value, hidden)
}

func echoed(media string, body []byte) *dedup.Response {
	header := http.Header{"Content-Type": {media}, "X-Content-Type-Options": {"nosniff"}}
	return &dedup.Response{Status: http.StatusOK, Header: header, Body: body}
}
