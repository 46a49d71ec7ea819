package preset

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// sample is a delivery that looks like one of the vendor's. In its texts {id}, {type}, {time} (RFC 3339) and
// {unix} stand for what they say. Names and values are our own.
type sample struct {
	kind   string // the type when none is asked for
	header map[string]string
	query  string
	media  string // defaults to application/json
	body   string
}

// Sample makes a signed delivery of the vendor, for trying a receiver out. An empty kind is a usual one of the
// vendor's, an empty id a random one. It is an error when the preset's deliveries cannot be signed by anybody
// but the vendor.
func (p Preset) Sample(s Settings, address, kind, id string, now time.Time) (*http.Request, []byte, error) {
	form, ok := samples()[p.Name]
	if !ok {
		return nil, nil, fmt.Errorf("preset %s: only the vendor can sign its deliveries", p.Name)
	}
	made := p.Open(s)
	if made.Err != nil {
		return nil, nil, made.Err
	}
	if kind == "" {
		kind = form.kind
	}
	if id == "" {
		id = rand.Text()
	}
	if strings.ContainsAny(kind+id, "\r\n") {
		return nil, nil, errors.New("sample: type and id are one line each")
	}
	r, body, err := form.request(address, kind, id, now)
	if err != nil {
		return nil, nil, err
	}
	if body, err = sign(made, r, body, now); err != nil {
		return nil, nil, fmt.Errorf("preset %s: %w", p.Name, err)
	}
	setBody(r, body)
	return r, body, nil
}

func sign(p producer.Producer, r *http.Request, body []byte, now time.Time) ([]byte, error) {
	if p.Scheme == nil {
		return body, nil
	}
	return signBy(p.Scheme, r, body, now)
}

// signBy returns the body, which is another where the signature stands in it.
func signBy(by verify.Scheme, r *http.Request, body []byte, now time.Time) ([]byte, error) {
	switch scheme := by.(type) {
	case verify.All:
		for _, one := range scheme {
			var err error
			if body, err = signBy(one, r, body, now); err != nil {
				return nil, err
			}
		}
		return body, nil
	case interface {
		SignBody(body []byte) ([]byte, error)
	}:
		return scheme.SignBody(body)
	case interface {
		Sign(r *http.Request, body []byte, now time.Time) error
	}:
		return body, scheme.Sign(r, body, now)
	}
	return nil, errors.New("its deliveries cannot be signed")
}

func setBody(r *http.Request, body []byte) {
	fresh, err := http.NewRequestWithContext(r.Context(), r.Method, "http://localhost/", bytes.NewReader(body))
	if err != nil {
		return // neither the method nor the address is a user's
	}
	r.Body, r.GetBody, r.ContentLength = fresh.Body, fresh.GetBody, fresh.ContentLength
}

// request fills the sample in.
func (f sample) request(address, kind, id string, now time.Time) (*http.Request, []byte, error) {
	media := f.media
	if media == "" {
		media = "application/json"
	}
	fill := func(text string, escape func(string) string) string {
		return strings.NewReplacer("{id}", escape(id), "{type}", escape(kind), "{time}", now.UTC().Format(time.RFC3339),
			"{unix}", strconv.FormatInt(now.Unix(), 10)).Replace(text)
	}
	inBody := jsonText
	if strings.HasSuffix(media, "urlencoded") {
		inBody = url.QueryEscape
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, nil, errors.New("sample: the address is not absolute")
	}
	if f.query != "" {
		u.RawQuery = strings.Trim(u.RawQuery+"&"+fill(f.query, url.QueryEscape), "&")
	}
	body := []byte(fill(f.body, inBody))
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", media)
	for name, value := range f.header {
		r.Header.Set(name, fill(value, func(s string) string { return s }))
	}
	return r, body, nil
}

// jsonText is the text as it stands within the quotes of a JSON string.
func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return string(b[1 : len(b)-1])
}

// samples are the deliveries of the vendors whose secrets we share, by preset.
func samples() map[string]sample {
	return map[string]sample{
		"adyen": {kind: "AUTHORISATION", body: `{"live":"false","notificationItems":[{"NotificationRequestItem":{` +
			`"amount":{"currency":"EUR","value":2450},"eventCode":"{type}","eventDate":"{time}","merchantAccountCode":"EyeletTea",` +
			`"merchantReference":"order-17","originalReference":"","pspReference":"{id}","reason":"","success":"true"}}]}`},
		"adyen-platform": {kind: "balancePlatform.transfer.created",
			body: `{"data":{"balancePlatform":"EyeletTea","id":"{id}","status":"received"},"environment":"test","type":"{type}"}`},
		"aws-eventbridge": {kind: "Order Placed", body: `{"version":"0","id":"{id}","detail-type":"{type}","source":"shop.orders",` +
			`"account":"111122223333","time":"{time}","region":"eu-central-1","resources":[],"detail":{"order":17,"total":"24.50"}}`},
		"azure-event-grid": {kind: "Shop.OrderPlaced", header: map[string]string{"aeg-event-type": "Notification"},
			body: `[{"id":"{id}","eventType":"{type}","subject":"orders/17","eventTime":"{time}","dataVersion":"1",` +
				`"data":{"total":"24.50"},"topic":"/subscriptions/17/topics/shop","metadataVersion":"1"}]`},
		"chargebee": {kind: "subscription_created", body: `{"id":"{id}","occurred_at":{unix},"source":"admin_console","object":"event",` +
			`"api_version":"v2","content":{"subscription":{"id":"tea-monthly-17"}},"event_type":"{type}","webhook_status":"scheduled"}`},
		"cloudevents": {kind: "shop.order.placed", media: "application/cloudevents+json", body: `{"specversion":"1.0","id":"{id}",` +
			`"source":"/shop/orders","type":"{type}","time":"{time}","datacontenttype":"application/json","data":{"order":17}}`},
		"datatrans": {kind: "authorized", body: `{"transactionId":"{id}","merchantId":"1100000017","type":"payment","status":"{type}",` +
			`"currency":"CHF","refno":"order-17","paymentMethod":"TWI","detail":{"authorize":{"amount":2450}}}`},
		"dwolla": {kind: "transfer_completed", body: `{"id":"{id}","resourceId":"order-17","topic":"{type}","timestamp":"{time}","_links":{}}`},
		"github": {kind: "push", header: map[string]string{"X-GitHub-Event": "{type}", "X-GitHub-Delivery": "{id}", "User-Agent": "GitHub-Hookshot/sample"},
			body: `{"ref":"refs/heads/main","repository":{"full_name":"eyelet/teapot"},"sender":{"login":"mallow"},"commits":[]}`},
		"gitlab": {kind: "Push Hook", header: map[string]string{"X-Gitlab-Event": "{type}", "Idempotency-Key": "{id}"},
			body: `{"object_kind":"push","ref":"refs/heads/main","project":{"path_with_namespace":"eyelet/teapot"}}`},
		"interledger-rafiki": {kind: "incoming_payment.completed",
			body: `{"id":"{id}","type":"{type}","data":{"id":"payment-17","receivedAmount":{"value":"2450","assetCode":"EUR","assetScale":2}}}`},
		"meta": {kind: "page", body: `{"object":"{type}","entry":[{"id":"17","time":{unix},"changes":[{"field":"feed","value":{"item":"{id}"}}]}]}`},
		"razorpay": {kind: "payment.captured", header: map[string]string{"x-razorpay-event-id": "{id}"},
			body: `{"entity":"event","event":"{type}","payload":{"payment":{"entity":{"id":"pay_17","amount":2450,"currency":"INR"}}},"created_at":{unix}}`},
		"shopify": {kind: "orders/create", header: map[string]string{
			"X-Shopify-Topic": "{type}", "X-Shopify-Event-Id": "{id}", "X-Shopify-Shop-Domain": "teapots.myshopify.com"},
			body: `{"id":17,"name":"#1017","total_price":"24.50","currency":"EUR"}`},
		"shopify-events": {kind: "orders/create", header: map[string]string{
			"Shopify-Topic": "{type}", "Shopify-Webhook-Id": "{id}", "Shopify-Shop-Domain": "teapots.myshopify.com"},
			body: `{"id":17,"name":"#1017","total_price":"24.50","currency":"EUR"}`},
		"slack": {kind: "app_mention", body: `{"type":"event_callback","team_id":"T17","event_id":"{id}","event_time":{unix},` +
			`"event":{"type":"{type}","user":"U17","text":"is the tea ready?","channel":"C17"}}`},
		"square": {kind: "payment.created", body: `{"merchant_id":"ML17","type":"{type}","event_id":"{id}","created_at":"{time}",` +
			`"data":{"type":"payment","id":"payment-17"}}`},
		"standard-webhooks": {kind: "order.created", header: map[string]string{"webhook-id": "{id}"},
			body: `{"type":"{type}","timestamp":"{time}","data":{"order":17,"total":"24.50"}}`},
		"stripe": {kind: "payment_intent.succeeded", body: `{"id":"{id}","object":"event","created":{unix},"type":"{type}","livemode":false,` +
			`"data":{"object":{"id":"pi_17","amount":2450,"currency":"eur"}}}`},
		"svix": {kind: "order.created", header: map[string]string{"svix-id": "{id}"},
			body: `{"type":"{type}","data":{"order":17,"total":"24.50"}}`},
		"twilio": {kind: "delivered", media: "application/x-www-form-urlencoded", header: map[string]string{"I-Twilio-Idempotency-Token": "{id}"},
			body: `MessageSid=SM17&MessageStatus={type}&From=%2B15550017&To=%2B15550018&Body=tea+is+ready`},
		"webengage": {kind: "push_notification_click", query: "eventType={type}", header: map[string]string{"x-request-id": "{id}"},
			body: `{"response":{"data":{"userId":"u17"}}}`},
		"websub": {kind: "https://blog.example/feed", media: "application/atom+xml",
			header: map[string]string{"Link": `<https://hub.example/>; rel="hub", <{type}>; rel="self"`},
			body:   `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>Teapots</title><id>urn:sample:{id}</id></feed>`},
		"worldpay": {kind: "authorized", body: `{"eventId":"{id}","eventTimestamp":"{time}","eventDetails":{"classification":"payment",` +
			`"transactionReference":"order-17","type":"{type}","amount":{"value":2450,"currencyCode":"EUR"}}}`},
		"yookassa": {kind: "payment.succeeded", body: `{"type":"notification","event":"{type}","object":{"id":"{id}","status":"succeeded"}}`},
		"zoom":     {kind: "meeting.started", body: `{"event":"{type}","event_ts":{unix},"payload":{"account_id":"A17","object":{"uuid":"{id}"}}}`},
	}
}
