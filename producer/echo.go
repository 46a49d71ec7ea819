package producer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
// The value has at most 1,024 characters of printable ASCII and is returned as text, JSON or a
// field, which no browser runs. It is neither stored nor logged.
type Echo struct {
	// Query is a parameter of the URL. A delivery with a credential and a body is not a challenge.
	Query string `conf:"query"`
	// Member is a member of a JSON object in the body of a delivery. The other members are, in a
	// delivery with a credential, those of Members; in one without, any but objects and arrays.
	Member string `conf:"json"`
	// Field is a header field of a delivery without a credential.
	Field string `conf:"header"`
	// Members are further members of the object.
	Members []string `conf:"member"`
	// Methods are those of requests with Query or Field. Defaults to GET for Query, and to the
	// methods of deliveries for Field.
	Methods []string `conf:"methods,nonempty"`
	// Reply is how the value is returned: "text", "json" (the only member of an object) or
	// "header". Defaults to "json" for Member, "header" for Field and "text" for Query, but "json"
	// for hub.challenge: Strava wants that, and the senders that want text have presets.
	Reply string `conf:"reply"`
	// As is the name of the value in the response. Defaults to its name in the request.
	As string `conf:"as"`
}

// The values of Reply.
const (
	replyText  = "text"
	replyJSON  = "json"
	replyField = "header"
)

// errEcho is why a value is not returned.
var errEcho = verify.Public("the value is not 1 to 1,024 characters of printable ASCII") // maxEcho

func (e *Echo) check() error {
	set := slices.DeleteFunc([]string{e.Query, e.Member, e.Field}, func(s string) bool { return s == "" })
	allowed := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch}
	refused := slices.DeleteFunc(slices.Clone(e.Methods), func(m string) bool { return slices.Contains(allowed, m) })
	switch {
	case len(set) != 1:
		return errors.New("challenge: set exactly one of a query parameter, a JSON member and a header field")
	case e.reply() == replyField && !verify.IsToken(e.name()) || e.Field != "" && !verify.IsToken(e.Field):
		return errors.New("challenge: the name of the header field is not one")
	case !slices.Contains([]string{replyText, replyJSON, replyField}, e.reply()):
		return fmt.Errorf("challenge: reply is %q, want text, json or header", e.Reply)
	case len(e.Members) > 0 && e.Member == "":
		return errors.New("challenge: further members are for a JSON member")
	case len(e.Methods) > 0 && e.Member != "":
		return errors.New("challenge: methods are for a query parameter or a header field")
	case len(refused) > 0:
		return fmt.Errorf("challenge: %q is not a method of challenges, which are GET, POST, PUT and PATCH", refused[0])
	}
	return nil
}

func (e *Echo) reply() string {
	switch {
	case e.Reply != "":
		return e.Reply
	case e.Member != "", e.Query == "hub.challenge":
		return replyJSON
	case e.Field != "":
		return replyField
	}
	return replyText
}

func (e *Echo) name() string { return cmp.Or(e.As, e.Query, e.Member, e.Field) }

// install sets the functions of the producer that the handshake needs: Challenge for methods
// without deliveries, the others for those with them.
func (e *Echo) install(p Producer) Producer {
	p.Echo = nil
	methods := e.Methods
	if len(methods) == 0 && e.Query != "" {
		methods = []string{http.MethodGet}
	} else if len(methods) == 0 {
		methods = p.Methods
	}
	var delivers []string
	for _, m := range methods {
		if slices.Contains(p.Methods, m) {
			delivers = append(delivers, m)
		} else {
			p.ChallengeMethods = append(p.ChallengeMethods, m)
		}
	}
	p.Challenge = func(r *http.Request) (*dedup.Response, error) { return e.answer(r, nil, false) }
	if len(delivers) == 0 {
		return p
	}
	p.UnsignedChallenge = func(r *http.Request, body []byte) *dedup.Response {
		if !slices.Contains(delivers, r.Method) {
			return nil
		}
		resp, _ := e.answer(r, body, false) // else the delivery is refused for its credential
		return resp
	}
	if e.Field == "" {
		p.Handshake = func(_ context.Context, d *Delivery) (*dedup.Response, error) {
			if !slices.Contains(delivers, d.Request.Method) || e.Query != "" && len(d.Body) > 0 {
				return nil, nil
			}
			return e.answer(d.Request, d.Body, true)
		}
	}
	return p
}

// answer returns nil for a request that is not a challenge.
func (e *Echo) answer(r *http.Request, body []byte, signed bool) (*dedup.Response, error) {
	var value string
	var err error
	switch d := (&Delivery{Request: r}); {
	case e.Query != "":
		value, err = Query(e.Query).Extract(d)
	case e.Field != "":
		value, err = Header(e.Field).Extract(d)
	default:
		value = e.member(body, signed)
	}
	if value == "" || err != nil {
		return nil, err
	}
	hidden := func(r rune) bool { return r < ' ' || r > '~' }
	if len(value) > maxEcho || strings.ContainsFunc(value, hidden) {
		return nil, &verify.Error{Code: verify.ChallengeUnexpected, Component: e.name(), Err: errEcho}
	}
	switch e.reply() {
	case replyText:
		return echoed("text/plain", []byte(value)), nil
	case replyField:
		resp := echoed("text/plain", nil)
		resp.Header.Set(e.name(), value)
		return resp, nil
	}
	text, err := json.Marshal(map[string]string{e.name(): value})
	return echoed("application/json", text), err
}

// member returns the value of Member if the body is a challenge. A signed event may have a member
// of that name, so its other members must be those of Members.
func (e *Echo) member(body []byte, signed bool) string {
	if len(body) > MaxChallengeBody {
		return ""
	}
	object, err := strictjson.ParseObject(body)
	value, isText := object.Text(e.Member)
	if err != nil || !isText {
		return ""
	}
	for name, raw := range object {
		nested := len(raw) > 0 && (raw[0] == '{' || raw[0] == '[')
		if name != e.Member && !slices.Contains(e.Members, name) && (signed || nested) {
			return ""
		}
	}
	return value
}

func echoed(media string, body []byte) *dedup.Response {
	header := http.Header{"Content-Type": {media}, "X-Content-Type-Options": {"nosniff"}}
	return &dedup.Response{Status: http.StatusOK, Header: header, Body: body}
}
