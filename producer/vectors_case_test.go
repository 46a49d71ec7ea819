package producer_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// vectorCase is a recorded request and its expected result. Unknown members are refused, so no
// expectation is overlooked.
type vectorCase struct {
	Name, Producer, Scheme, Kind, Source, Note string
	Method, URL, Body                          string
	BodyEncoding                               string `json:"body_encoding"`
	Headers                                    map[string]oneOrMore
	Secret                                     oneOrMore
	Keys                                       vectorKeys
	Config                                     vectorConfig
	Now                                        int64
	Advisory                                   bool
	Expect                                     vectorExpectation
	Response                                   *vectorReply
}

type vectorExpectation struct {
	Valid                             bool
	Reason, ID, Type, Source, Subject string
	Data                              json.RawMessage
	Events                            []vectorEvent
	Handshake                         *vectorReply
}

type vectorEvent struct {
	ID, Type, Source, Subject string
	Data                      json.RawMessage
}

type vectorReply struct {
	Status      int
	Body        *string
	JSON        json.RawMessage
	Headers     map[string]string
	ContentType string `json:"content_type"`
	Fetch       *string
	Note        string
}

type vectorConfig struct {
	Account       oneOrMore
	SignedURL     string `json:"signed_url"`
	Audience      oneOrMore
	Issuers       oneOrMore
	Email         string
	Topics        oneOrMore
	Algs          oneOrMore
	Subscriptions []struct{ Topic, Mode, Secret, Token string }
	Encoding      string `json:"signature_encoding"`
	Token         string
	Allow         oneOrMore
	Origins       oneOrMore
	Rate          number
}

// vectorKeys holds the members of "keys"; those with decimal names are secrets by key id.
type vectorKeys struct {
	Certs, PublicKeys            map[string]string
	Roots                        *string
	JWKS                         json.RawMessage
	Header, Query, Value, Bearer string
	Username, Password           string
	Account                      string
	ByID                         map[string]string
}

func (k *vectorKeys) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return err
	}
	into := map[string]any{
		"certs": &k.Certs, "public_keys": &k.PublicKeys, "roots": &k.Roots, "jwks": &k.JWKS, "header": &k.Header,
		"query": &k.Query,
		"value": &k.Value, "bearer": &k.Bearer, "username": &k.Username, "password": &k.Password,
		"by_id": &k.ByID, "account": &k.Account,
	}
	k.ByID = map[string]string{}
	for name, value := range members {
		if at, known := into[name]; known {
			if err := json.Unmarshal(value, at); err != nil {
				return fmt.Errorf("keys.%s: %w", name, err)
			}
			continue
		}
		if _, err := strconv.Atoi(name); err != nil {
			return fmt.Errorf("keys: unknown member %q", name)
		}
		var secret string
		if err := json.Unmarshal(value, &secret); err != nil {
			return err
		}
		k.ByID[name] = secret
	}
	return nil
}

// oneOrMore is a string or a list of strings.
type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*o = nil
		if string(raw) != "null" {
			*o = oneOrMore{one}
		}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(o))
}

// number is an integer, or one as a string of decimal digits; "*" is 0, no limit.
type number int

func (n *number) UnmarshalJSON(raw []byte) error {
	text := string(bytes.Trim(raw, `"`))
	if text == "*" {
		return nil
	}
	value, err := strconv.Atoi(text)
	*n = number(value)
	return err
}

// readCases reads a file of cases strictly.
func readCases(raw []byte) ([]vectorCase, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var cases []vectorCase
	if err := dec.Decode(&cases); err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, errors.New("no case")
	}
	return cases, nil
}

func (c *vectorCase) body(t *testing.T) []byte {
	t.Helper()
	switch c.BodyEncoding {
	case "":
		return []byte(c.Body)
	case "base64":
		raw, err := base64.StdEncoding.DecodeString(c.Body)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	t.Fatalf("body_encoding %q is not known", c.BodyEncoding)
	return nil
}

func (c *vectorCase) request(t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), c.Method, c.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.RequestURI = r.URL.RequestURI()
	for name, values := range c.Headers {
		for _, value := range values {
			r.Header.Add(name, value)
		}
	}
	return r
}

// settings returns the configuration for the case. Fetched URLs are added to fetched.
func (c *vectorCase) settings(t *testing.T, fetched *[]string) preset.Settings {
	t.Helper()
	k, conf := c.Keys, c.Config
	s := preset.Settings{
		Secrets: c.Secret, Keys: k.ByID, Username: k.Username, Password: k.Password, Header: k.Header, Query: k.Query,
		Token: conf.Token, SignedURL: conf.SignedURL, Algs: conf.Algs, Account: conf.Account,
		Audience: conf.Audience, Issuers: conf.Issuers, Email: conf.Email, Topics: conf.Topics,
		Origins: conf.Origins, Rate: producer.Rate{Events: int(conf.Rate), Per: time.Minute},
		SignatureEncoding: conf.Encoding,
	}
	for _, secret := range []string{k.Value, k.Bearer} {
		if secret != "" {
			s.Secrets = append(slices.Clone(s.Secrets), secret)
		}
	}
	if k.Account != "" {
		s.Account = []string{k.Account}
	}
	if len(s.Keys) == 0 {
		s.Keys = nil
	}
	for _, sub := range conf.Subscriptions {
		s.Subscriptions = append(s.Subscriptions, preset.Subscription{Topic: sub.Topic, Mode: sub.Mode,
			Secret: sub.Secret, Token: sub.Token})
	}
	switch {
	case k.JWKS == nil:
	case c.Scheme == "adcp", c.Scheme == "openpayments": // adcp reads the purposes of keys
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write(k.JWKS) //nolint:errcheck // the client sees it
		}))
		t.Cleanup(server.Close)
		s.JWKSURL = server.URL
	case c.Scheme == "ocm":
		s.MessageKeys = serversOf(t, conf.Allow, k.JWKS)
	case c.Scheme == "ucp":
		s.MessageKeys = profilesOf(t, conf.Allow, k.JWKS)
	default:
		s.TokenKeys = tokenKeysOf(t, k.JWKS)
	}
	s.Fetch = func(_ context.Context, address string) ([]byte, error) {
		if text, ok := k.Certs[address]; ok {
			return []byte(text), nil
		}
		*fetched = append(*fetched, address)
		if strings.HasPrefix(address, "https://sns.") && !strings.HasSuffix(address, ".pem") {
			return []byte("<ConfirmSubscriptionResponse/>"), nil
		}
		return nil, errors.New("nothing is there")
	}
	if k.Roots != nil {
		s.Roots = roots(t, *k.Roots)
	}
	s.PinnedKeys = pinned(t, k.PublicKeys)
	return s
}

// webOf is another web, which has a text at one URL, and no keys elsewhere.
func webOf(t *testing.T, address string, text []byte) *http.Client {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if "https://"+r.Host+r.URL.Path == address {
			w.Write(text) //nolint:errcheck // the client sees it
		} else {
			fmt.Fprint(w, `{"keys":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	client := server.Client()
	transport, _ := client.Transport.(*http.Transport)
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	transport.TLSClientConfig.ServerName = "example.com" // that of its certificate
	return client
}

// profilesOf is a profile at the first URL.
func profilesOf(t *testing.T, urls []string, text []byte) verify.KeySet {
	t.Helper()
	profiles, err := verify.NewDirectories(verify.DirectoriesConfig{
		URLs: urls, Field: "UCP-Agent", Member: "profile", Client: webOf(t, urls[0], text),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = profiles.Close() })
	return profiles
}

// serversOf are the keys at the first URL, and those of other servers, which have none.
func serversOf(t *testing.T, urls []string, text []byte) verify.KeySet {
	t.Helper()
	var sets []verify.KeySet
	for _, address := range urls {
		client := webOf(t, urls[0], text)
		keys, err := verify.NewJWKS(verify.JWKSConfig{URL: address, Principal: address, Client: client})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = keys.Close() })
		sets = append(sets, keys)
	}
	return verify.JoinKeys(sets...)
}

// tokenKeysOf parses a published key set. A set without a usable key knows no kid, like a
// fetched one.
func tokenKeysOf(t *testing.T, jwks []byte) verify.TokenKeySet {
	t.Helper()
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(jwks, &set); err != nil || set.Keys == nil {
		t.Fatalf("keys.jwks is not a JSON Web Key Set: %v", err)
	}
	keys, err := verify.ParseTokenKeys(jwks)
	if err != nil {
		return noTokenKeys{}
	}
	return keys
}

type noTokenKeys struct{}

func (noTokenKeys) PublicKeys(context.Context, string) ([]verify.JSONWebKey, error) {
	return nil, &verify.Error{Code: verify.KeyUnknown}
}

func roots(t *testing.T, text string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if text != "" && !pool.AppendCertsFromPEM([]byte(text)) {
		t.Fatal("the roots are not certificates")
	}
	return pool
}

func pinned(t *testing.T, keys map[string]string) map[string]crypto.PublicKey {
	t.Helper()
	parsed := map[string]crypto.PublicKey{}
	for address, text := range keys {
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			t.Fatal("a public key is not PEM")
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		parsed[address] = key
	}
	return parsed
}

// producer builds the producer of the case from its preset or its description.
func (c *vectorCase) producer(t *testing.T, fetched *[]string) producer.Producer {
	t.Helper()
	scheme := c.Scheme
	if scheme == "" {
		scheme = c.Producer
	}
	s := c.settings(t, fetched)
	adapt(scheme, &s)
	// Batches and PUT need an agreement.
	s.Batch = scheme == "cloudevents" && strings.HasPrefix(c.request(t).Header.Get("Content-Type"),
		producer.MediaCloudEventBatch)
	var p producer.Producer
	if vendor, ok := preset.Find(scheme); ok {
		p = vendor.Open(s)
	} else if describe, ok := described()[scheme]; ok {
		p = describe(s)
	} else {
		t.Fatalf("scheme %q has no preset and no description in the runner's table", scheme)
	}
	if c.request(t).Method == http.MethodPut {
		p.Methods = []string{http.MethodPost, http.MethodPut}
	}
	if errs := p.Check(); len(errs) != 0 {
		t.Fatal(errors.Join(errs...))
	}
	return p.WithDefaults()
}

// adapt translates the settings of the cases.
func adapt(scheme string, s *preset.Settings) {
	switch scheme {
	case "cloudevents", "yookassa", "websub":
		// Cases without a credential are about the event: allow all addresses.
		if len(s.Secrets) == 0 && !slices.ContainsFunc(s.Subscriptions,
			func(one preset.Subscription) bool { return one.Secret != "" }) {
			s.AllowedIPs = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
		}
	case "gitlab":
		s.Header = "" // the preset knows its field
	}
}

// described are producers without a preset, in the terms of eyelet.yaml.
func described() map[string]func(preset.Settings) producer.Producer {
	return map[string]func(preset.Settings) producer.Producer{
		// https://developers.tabapay.com/reference/verifying-webhook-signatures: v2 is made
		// with the previous secret.
		"tabapay": func(s preset.Settings) producer.Producer {
			return producer.Producer{
				Name: "tabapay", Contract: producer.Webhook, Key: producer.IdempotencyKey{}, KeyRequired: true,
				Tolerance: verify.Tolerance{Past: 5 * time.Minute, Future: 5 * time.Minute},
				Scheme: &verify.HMAC{
					Headers: []string{"X-HMAC-Signature"}, Separator: ",",
					Entries:  []string{"t={timestamp}", "v1={sig}", "v2={sig}"},
					Encoding: verify.Hex, Content: "{timestamp}.{body}", Secrets: verify.Secrets(s.Secrets...),
				},
			}
		},
		"described": func(s preset.Settings) producer.Producer {
			return producer.Producer{
				Name: "described", Contract: producer.Webhook, Key: producer.Header("X-Kitchen-Id"), KeyRequired: true,
				Type: producer.JSON("event"),
				Scheme: &verify.HMAC{
					Headers: []string{"X-Kitchen-Signature"}, Separator: ";",
					Entries:  []string{"at={timestamp}", "mac={sig}"},
					Encoding: verify.Hex, Content: "{timestamp}|{header:X-Kitchen-Id}|{body}",
					Secrets: verify.Secrets(s.Secrets...),
				},
			}
		},
	}
}

func (c *vectorCase) now() time.Time { return time.Unix(c.Now, 0) }
