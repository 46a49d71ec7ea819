package producer

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"path/filepath"
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
			got := scheme.Coverage.Pinned
			if got.NoKey = false; got != row.want { // see the next test
				t.Errorf("%s: %+v, want %+v", name, got, row.want)
			}
		})
	}
}

// TestHostAndPathArePinnedForOneEndpointOnly is about the first producer of each list.
func TestHostAndPathArePinnedForOneEndpointOnly(t *testing.T) {
	t.Parallel()
	text := "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA=="
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	keyed := func(key verify.Key, err error) verify.KeySet {
		if err != nil {
			t.Fatal(err)
		}
		return verify.StaticKeys(key)
	}
	public := keyed(verify.NewPublicKey("k", verify.Ed25519, ed25519.NewKeyFromSeed(raw[:32]).Public()))
	public2 := keyed(verify.NewPublicKey("k", verify.Ed25519, ed25519.NewKeyFromSeed(make([]byte, 32)).Public()))
	secret := keyed(verify.NewHMACKey("a", raw))
	other := keyed(verify.NewHMACKey("a", []byte("another-secret-of-32-octets-or-so")))
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := verify.OpenKeyFile(verify.KeyFile{Path: path, ID: "a", Alg: verify.HMACSHA256})
	if err != nil {
		t.Fatal(err)
	}
	server, err := verify.NewJWKS(verify.JWKSConfig{URL: "https://keys.example/jwks"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	signed := func(keys verify.KeySet, audience ...string) Producer {
		p := Producer{Scheme: &verify.RFC9421{Keys: keys}, Key: JSON("id")}
		if audience != nil {
			p.Audience = &Audience{From: JSON(audience[0]), Is: audience[1]}
		}
		return p
	}
	by := func(s verify.Scheme) Producer { return Producer{Scheme: s, Key: JSON("id")} }
	hmac := func(text string, as verify.Encoding) verify.Scheme {
		return &verify.HMAC{Secrets: verify.Secrets(text), SecretEncoding: as}
	}
	scoped := func(p Producer) Producer { p.QueryScope = true; return p }
	reading := func(part string, p Producer) Producer { p.Reads = []string{part}; return p }
	foreign := hmac("x", verify.Raw)
	type list []Producer
	for name, tt := range map[string]struct {
		all  list
		want bool
	}{
		"a secret":                     {list{signed(secret)}, true},
		"a public key":                 {list{signed(public)}, false},
		"keys of a server":             {list{signed(server)}, false},
		"a secret in a file":           {list{signed(file)}, false},
		"a secret and a public key":    {list{signed(verify.JoinKeys(secret, public))}, false},
		"a secret or a public key":     {list{by(verify.Any{signed(secret).Scheme, signed(public).Scheme})}, false},
		"a secret, and a scope":        {list{scoped(signed(secret))}, false},
		"no scheme of RFC 9421":        {list{by(hmac(text, verify.Base64))}, false},
		"two secrets":                  {list{signed(secret), signed(other)}, true},
		"one secret twice":             {list{signed(secret), signed(secret)}, false},
		"the same bytes, written":      {list{signed(secret), by(hmac(text, verify.Base64))}, false},
		"the same text, other bytes":   {list{signed(secret), by(hmac(text, verify.Raw))}, true},
		"the secret in any":            {list{signed(secret), by(verify.Any{foreign, signed(secret).Scheme})}, false},
		"the secret in all":            {list{signed(secret), by(verify.All{foreign, signed(secret).Scheme})}, false},
		"one of two secrets":           {list{signed(verify.JoinKeys(secret, other)), signed(other)}, false},
		"beside keys of a server":      {list{signed(secret), signed(server)}, true},
		"beside a secret in a file":    {list{signed(secret), signed(file)}, false},
		"beside an unknown scheme":     {list{signed(secret), by(opaque{})}, false},
		"a secret, and the path read":  {list{reading("@path", signed(secret))}, false},
		"a secret, and the host read":  {list{reading("@authority", signed(secret))}, false},
		"an audience":                  {list{signed(server, "to", "us")}, true},
		"beside one without":           {list{signed(server, "to", "us"), signed(server)}, true},
		"beside another":               {list{signed(server, "to", "us"), signed(server, "to", "them")}, true},
		"beside the same":              {list{signed(server, "to", "us"), signed(server, "to", "us")}, false},
		"beside one of another member": {list{signed(server, "to", "us"), signed(server, "at", "us")}, false},
		"beside another of another":    {list{signed(server, "to", "us"), signed(server, "at", "them")}, false},
		"with keys of a server":        {list{signed(public, "to", "us"), signed(server, "at", "us")}, false},
		"with other keys":              {list{signed(public, "to", "us"), signed(public2, "at", "us")}, true},
		"with the same keys":           {list{signed(public, "to", "us"), signed(public, "at", "us")}, false},
	} {
		PinURLs(tt.all)
		p := tt.all[0].WithDefaults()
		eachScheme(p.Scheme, func(s *verify.RFC9421) {
			if got := s.Coverage.Pinned.URL; got != tt.want || p.SignsURL == tt.want {
				t.Errorf("%s: pinned %t, signs the URL %t", name, got, p.SignsURL)
			}
		})
	}
}

// opaque is a scheme of another package.
type opaque struct{ verify.Scheme }

func TestAnIdempotencyKeyThatNothingReadsNeedsNoCoverage(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*Producer)
		want   bool
	}{
		"nothing":         {func(*Producer) {}, true},
		"the key":         {func(p *Producer) { p.Key = IdempotencyKey{} }, false},
		"one of two keys": {func(p *Producer) { p.Key = First(IdempotencyKey{}, JSON("id")) }, false},
		"a lane":          {func(p *Producer) { p.Reads = []string{"idempotency-key"} }, false},
		"items":           {func(p *Producer) { p.Split = SplitCloudEvents }, false},
	} {
		p := Producer{Name: "own", Scheme: &verify.RFC9421{}, Key: JSON("id")}
		row.change(&p)
		eachScheme(p.WithDefaults().Scheme, func(scheme *verify.RFC9421) {
			if got := scheme.Coverage.Pinned.NoKey; got != row.want {
				t.Errorf("%s: %t", name, got)
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
