package producer

import (
	"context"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestOnlyWhatNothingReadsIsPinned: each row has one reader more.
func TestOnlyWhatNothingReadsIsPinned(t *testing.T) {
	t.Parallel()
	both := verify.Pinned{Method: "POST", Query: true}
	put := verify.Pinned{Method: "PUT", Query: true}
	typed := verify.Pinned{Method: "POST", Query: true, MediaType: "application/json"}
	token := &verify.Static{Name: "t", In: verify.InQuery}
	method, query := verify.Pinned{Method: "POST"}, verify.Pinned{Query: true}
	for name, row := range map[string]struct {
		change func(*Producer)
		want   verify.Pinned
	}{
		"nothing":                {func(*Producer) {}, both},
		"HEAD":                   {func(p *Producer) { p.Methods = []string{"POST", "HEAD"} }, both},
		"PUT":                    {func(p *Producer) { p.Methods = []string{"PUT"} }, put},
		"two methods":            {func(p *Producer) { p.Methods = []string{"POST", "PUT"} }, query},
		"a challenge":            {func(p *Producer) { p.ChallengeMethods = []string{"GET"} }, query},
		"the URL":                {func(p *Producer) { p.URL = "https://hooks.example/in?tenant=a" }, method},
		"the scope":              {func(p *Producer) { p.QueryScope = true }, method},
		"the key":                {func(p *Producer) { p.Key = Query("id") }, method},
		"the type":               {func(p *Producer) { p.Type = Query("type") }, method},
		"a lane":                 {func(p *Producer) { p.Reads = []string{"@query"} }, method},
		"a token":                {func(p *Producer) { p.SecretQuery = []string{"token"} }, method},
		"a token of the scheme":  {func(p *Producer) { p.Scheme = verify.All{p.Scheme, token} }, method},
		"attributes":             {func(p *Producer) { p.Attributes = noAttributes }, method},
		"items":                  {func(p *Producer) { p.Split = SplitCloudEvents }, method},
		"a payload":              {func(p *Producer) { p.Payload = noPayload }, method},
		"a fingerprint":          {func(p *Producer) { p.Fingerprint = FingerprintNone }, method},
		"repeats":                {func(p *Producer) { p.Repeatable = noRepeats }, method},
		"a media type":           {func(p *Producer) { p.MediaTypes = []string{"Application/JSON"} }, typed},
		"two media types":        {func(p *Producer) { p.MediaTypes = []string{"a/b", "a/c"} }, both},
		"any media type":         {func(p *Producer) { p.MediaTypes = []string{"application/*"} }, both},
		"a form":                 {withJSON(func(p *Producer) { p.FormMember = "payload" }), both},
		"a key in a form":        {withJSON(func(p *Producer) { p.Key = mustParse("form:id") }), both},
		"a read media type":      {withJSON(func(p *Producer) { p.Reads = []string{"content-type"} }), both},
		"a CloudEvent":           {withJSON(func(p *Producer) { p.Key = mustParse("cloudevent:id") }), both},
		"items of a type":        {withJSON(func(p *Producer) { p.Split = SplitCloudEvents }), method},
		"a handshake of its own": {func(p *Producer) { p.Handshake = noHandshake }, method},
	} {
		p := Producer{Name: "own", Scheme: &verify.RFC9421{}, Key: JSON("id")}
		row.change(&p)
		eachScheme(p.WithDefaults().Scheme, func(scheme *verify.RFC9421) {
			if got := scheme.Coverage.Pinned; got != row.want {
				t.Errorf("%s: %+v, want %+v", name, got, row.want)
			}
		})
	}
}

func noHandshake(context.Context, *Delivery) (*dedup.Response, error) { return nil, nil }

func noAttributes(*Delivery) (map[string]string, error) { return nil, nil }
func noPayload(*Delivery) ([]byte, error)               { return nil, nil }
func noRepeats(*Delivery) Repeats                       { return Repeats{} }

func withJSON(change func(*Producer)) func(*Producer) {
	return func(p *Producer) {
		p.MediaTypes = []string{"application/json"}
		change(p)
	}
}

func mustParse(text string) Extractor {
	x, err := ParseExtractor(text)
	if err != nil {
		panic(err)
	}
	return x
}
