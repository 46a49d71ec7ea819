//go:build ignore

// Command generate writes the recorded deliveries of this folder, the same bytes on every run.
// It imports no package of the project, so its signatures are an independent check.
package main

import (
	"cmp"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// now is the time of the first delivery: 2026-06-28T08:30:00Z.
const now = 1782635400

const base = "https://hooks.example"

// delivery is one recording before it is signed.
type delivery struct {
	file, about, expect string
	id, typ             string // as the receiver must read them; empty where it refuses
	now                 int64  // arrival
	producer            string
	fields              [][2]string // in order, without Host and the signature
	body                string
	sign                func(*delivery) [][2]string
	tamper              func(*delivery) // after signing
}

func main() {
	out := flag.String("out", ".", "folder to write to")
	flag.Parse()
	log.SetFlags(0)
	for name, data := range keyFiles() {
		write(filepath.Join(*out, "keys", name), data)
	}
	for _, list := range [][]delivery{shop(), github(), stripe(), standardWebhooks()} {
		for i, d := range list {
			name := fmt.Sprintf("%02d-%s.http", i+1, d.file)
			write(filepath.Join(*out, d.producer, name), d.render())
		}
	}
}

func write(path, data string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		log.Fatal(err)
	}
}

// render signs the delivery and returns the file. Its last note is the digest of everything
// else in it, which also protects bytes that no signature covers.
func (d delivery) render() string {
	d.fields = append([][2]string{}, d.fields...)
	if d.sign != nil {
		d.fields = append(d.fields, d.sign(&d)...)
	}
	if d.tamper != nil {
		d.tamper(&d)
	}
	notes := [][2]string{
		{"about", d.about}, {"producer", d.producer}, {"now", strconv.FormatInt(d.now, 10)}, {"expect", d.expect},
	}
	if d.id != "" {
		notes = append(notes, [2]string{"id", d.id}, [2]string{"type", d.typ})
	}
	var head, message strings.Builder
	for _, n := range notes {
		fmt.Fprintf(&head, "# %s: %s\n", n[0], n[1])
	}
	fmt.Fprintf(&message, "POST /webhooks/%s HTTP/1.1\r\nHost: hooks.example\r\n", d.producer)
	for _, f := range d.fields {
		fmt.Fprintf(&message, "%s: %s\r\n", f[0], f[1])
	}
	message.WriteString("\r\n" + d.body)
	sum := sha256.Sum256([]byte(head.String() + message.String()))
	return head.String() + "# sha256: " + hex.EncodeToString(sum[:]) + "\n" + message.String()
}

// Keys.

func seed(name string) []byte {
	sum := sha256.Sum256([]byte("eyelet test key, known to everybody: " + name))
	return sum[:]
}

func text(name string) string { return base64.RawURLEncoding.EncodeToString(seed(name)) }

func shopKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(seed("shop ed25519")) }

var (
	shopSecret     = text("shop hmac")
	githubSecret   = text("github")
	stripeSecret   = "whsec_" + text("stripe")
	standardSecret = "whsec_" + base64.StdEncoding.EncodeToString(seed("standard webhooks"))
)

func keyFiles() map[string]string {
	private, err := x509.MarshalPKCS8PrivateKey(shopKey())
	if err != nil {
		log.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(shopKey().Public())
	if err != nil {
		log.Fatal(err)
	}
	return map[string]string{
		"shop.pem":                 string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		"shop.pub.pem":             string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"shop.secret":              shopSecret + "\n",
		"github.secret":            githubSecret + "\n",
		"stripe.secret":            stripeSecret + "\n",
		"standard-webhooks.secret": standardSecret + "\n",
		// for the recordings in presets, which `eyelet send` makes
		"presets-plain.secret":    text("presets plain") + "\n",
		"presets-hex.secret":      hex.EncodeToString(seed("presets hex")) + "\n",
		"presets-standard.secret": "whsec_" + base64.StdEncoding.EncodeToString(seed("presets whsec")) + "\n",
	}
}

func mac(secret []byte, content string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(content))
	return h.Sum(nil)
}

// RFC 9421.

// profile selects how a delivery of the shop is signed.
type profile struct {
	hmac      bool
	keyid     string
	created   int64
	expires   int64
	uncovered string // a component to leave out
}

func (p profile) sign(d *delivery) [][2]string {
	digest := sha256.Sum256([]byte(d.body))
	content := [2]string{"Content-Digest", "sha-256=:" + base64.StdEncoding.EncodeToString(digest[:]) + ":"}
	values := [][2]string{
		{"@method", "POST"}, {"@target-uri", base + "/webhooks/" + d.producer}, {"content-digest", content[1]},
	}
	for _, f := range d.fields {
		values = append(values, [2]string{strings.ToLower(f[0]), f[1]})
	}
	var names []string
	var lines strings.Builder
	for _, v := range values {
		if v[0] == p.uncovered {
			continue
		}
		names = append(names, strconv.Quote(v[0]))
		fmt.Fprintf(&lines, "%q: %s\n", v[0], v[1])
	}
	params := fmt.Sprintf("(%s);created=%d", strings.Join(names, " "), p.created)
	if p.expires != 0 {
		params += fmt.Sprintf(";expires=%d", p.expires)
	}
	params += fmt.Sprintf(";keyid=%q", p.keyid)
	signed := lines.String() + `"@signature-params": ` + params
	signature := ed25519.Sign(shopKey(), []byte(signed))
	if p.hmac {
		signature = mac([]byte(shopSecret), signed)
	}
	return [][2]string{
		content,
		{"Signature-Input", "sig1=" + params},
		{"Signature", "sig1=:" + base64.StdEncoding.EncodeToString(signature) + ":"},
	}
}

func (d delivery) at(t int64) delivery { d.now = t; return d }

func order(key, typ, body string) delivery {
	d := delivery{producer: "shop", body: body, id: strings.Trim(key, `"`), typ: typ, now: now}
	d.fields = [][2]string{{"Content-Type", "application/json"}}
	if key != "" {
		d.fields = append(d.fields, [2]string{"Idempotency-Key", key})
	}
	return d
}

func (d delivery) as(file, expect, about string) delivery {
	d.file, d.expect, d.about = file, expect, about
	if strings.HasPrefix(expect, "refused") {
		d.id, d.typ = "", ""
	}
	return d
}

func (d delivery) signed(p profile) delivery {
	if p.hmac {
		p.keyid = "shop-hmac"
	}
	p.keyid, p.created = cmp.Or(p.keyid, "shop-ed25519"), cmp.Or(p.created, d.now-1)
	d.sign = p.sign
	return d
}

func (d delivery) tampered(from, to string) delivery {
	d.tamper = func(d *delivery) { d.body = strings.Replace(d.body, from, to, 1) }
	return d
}

func shop() []delivery {
	const key = `"8e03978e-40d5-43dd-bc93-6894a57f9324"`
	const body = `{"type":"order.paid","order":"A-1001","total":"129.00","currency":"EUR"}`
	paid := order(key, "order.paid", body)
	const refunded = `{"type":"order.refunded","order":"A-1001","total":"29.00","currency":"EUR"}`
	refund := order("c1b8f1de-2f1c-4be4-9a2c-5d9b1f3e7c10", "order.refunded", refunded)
	quoted := order(`"c1b8f1de-2f1c-4be4-9a2c-5d9b1f3e7c10"`, refund.typ, refund.body)
	const shipped = `{"type":"order.shipped","order":"A-1002"}`
	fresh := func(n int) delivery {
		return order(fmt.Sprintf(`"0d5f6c2e-0000-4000-8000-%012d"`, n), "order.shipped", shipped)
	}
	return []delivery{
		paid.as("order-new", "new 202", "a signed order, the first time").signed(profile{}),
		paid.at(now+5).
			as("order-retried", "duplicate 202", "the same bytes again: the producer retried").
			signed(profile{created: now - 1}),
		paid.at(now+60).
			as("order-signed-afresh", "duplicate 202", "the same event, signed again with the producer's other key").
			signed(profile{hmac: true}),
		order(key, "order.paid", strings.Replace(body, "129.00", "1290.00", 1)).at(now+61).
			as("order-conflict", "conflict 422", "the same key with another payload").signed(profile{}),
		refund.at(now+70).
			as("refund-new", "new 202", "signed with HMAC, its key sent without quotes").signed(profile{hmac: true}),
		quoted.at(now+71).
			as("refund-quoted", "duplicate 202", "the same key, this time as a quoted string").
			signed(profile{hmac: true}),
		fresh(1).signed(profile{}).tampered("A-1002", "A-1003").
			as("tampered", "refused 401 digest_mismatch", "a byte of the body changed in transit"),
		fresh(2).signed(profile{}).swapped().
			as("key-swapped", "refused 401 signature_mismatch", "the idempotency key changed in transit"),
		fresh(3).signed(profile{created: now - 600}).
			as("stale", "refused 401 timestamp_too_old", "signed ten minutes ago"),
		fresh(4).signed(profile{created: now + 300}).
			as("from-the-future", "refused 401 timestamp_too_new", "signed five minutes ahead"),
		fresh(5).signed(profile{created: now - 60, expires: now - 30}).
			as("expired", "refused 401 token_expired", "after its signed expiry"),
		fresh(6).as("unsigned", "refused 401 signature_missing", "no signature at all"),
		fresh(7).signed(profile{uncovered: "idempotency-key"}).
			as("uncovered", "refused 401 insufficient_coverage", "the signature does not cover the idempotency key"),
		fresh(8).signed(profile{keyid: "shop-2019"}).
			as("unknown-key", "refused 401 key_unknown", "the receiver does not have this key"),
		order("", "order.shipped", shipped).
			as("no-idempotency-key", "refused 400 id_missing", "without a key a retry looks like a new event").
			signed(profile{}),
	}
}

func (d delivery) swapped() delivery {
	d.tamper = func(d *delivery) {
		for i, f := range d.fields {
			if f[0] == "Idempotency-Key" {
				d.fields[i][1] = `"0d5f6c2e-0000-4000-8000-999999999999"`
			}
		}
	}
	return d
}

// Vendors.

func github() []delivery {
	sign := func(d *delivery) [][2]string {
		return [][2]string{{"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(mac([]byte(githubSecret), d.body))}}
	}
	push := func(guid, event, body string) delivery {
		return delivery{producer: "github", id: guid, typ: event, body: body, now: now, sign: sign, fields: [][2]string{
			{"Content-Type", "application/json"}, {"X-GitHub-Event", event}, {"X-GitHub-Delivery", guid},
		}}
	}
	const guid = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
	const body = `{"ref":"refs/heads/main","after":"6113728f27ae82c7b1a177c8d03f9e96e0adf246",` +
		`"repository":{"full_name":"octo/shop"}}`
	first := push(guid, "push", body)
	unsigned := push("f00dcafe-cc78-11e3-81ab-4c9367dc0958", "push", body)
	unsigned.sign = nil
	other := strings.Replace(body, "main", "next", 1)
	return []delivery{
		first.as("push-new", "new 200", "a push, signed with the webhook's secret"),
		first.at(now+3600).as("push-redelivered", "duplicate 200", "redelivered manually an hour later"),
		push(guid, "push", other).at(now+3601).
			as("push-other-hook", "new 200", "another hook's payload under the same delivery id: a separate event"),
		push("7d3162e0-cc78-11e3-81ab-4c9367dc0958", "push", body).at(now+3602).
			as("push-replayed", "quarantined 200", "captured bytes under the attacker's own id: quarantined, not run"),
		push("aa3162e0-cc78-11e3-81ab-4c9367dc0958", "push", body).
			as("tampered", "refused 401 signature_mismatch", "the branch changed in transit").tampered("main", "evil"),
		unsigned.as("unsigned", "refused 401 signature_missing", "no signature at all"),
		push("bb3162e0-cc78-11e3-81ab-4c9367dc0958", "ping", `{"zen":"Keep it logically awesome.","hook_id":1}`).
			at(now+3603).
			as("ping-new", "new 200", "the first delivery of a new webhook: a ping"),
	}
}

func stripe() []delivery {
	sign := func(t int64) func(d *delivery) [][2]string {
		return func(d *delivery) [][2]string {
			sig := mac([]byte(stripeSecret), fmt.Sprintf("%d.%s", t, d.body))
			return [][2]string{{"Stripe-Signature", fmt.Sprintf("t=%d,v1=%s", t, hex.EncodeToString(sig))}}
		}
	}
	event := func(id, typ string, signed int64) delivery {
		const form = `{"id":%q,"object":"event","type":%q,"data":{"object":{"id":"in_1001","amount_paid":12900}}}`
		body := fmt.Sprintf(form, id, typ)
		return delivery{producer: "stripe", id: id, typ: typ, body: body, now: signed + 1, sign: sign(signed),
			fields: [][2]string{{"Content-Type", "application/json; charset=utf-8"}}}
	}
	paid := event("evt_1PtestInvoicePaid", "invoice.paid", now)
	again := event("evt_1PtestInvoicePaid", "invoice.paid", now+3600)
	unsigned := event("evt_1PtestUnsigned", "invoice.paid", now)
	unsigned.sign = nil
	return []delivery{
		paid.as("invoice-new", "new 200", "an invoice was paid"),
		again.
			as("invoice-retried", "duplicate 200", "retried an hour later, signed with the time of the retry"),
		paid.at(now+7200).
			as("invoice-stale-known", "duplicate 200", "the first bytes again, two hours later: stale, but known"),
		event("evt_1PtestStale", "invoice.paid", now).at(now+7200).
			as("stale", "refused 401 timestamp_too_old", "signed two hours ago, and not known"),
		event("evt_1PtestTampered", "invoice.paid", now).
			as("tampered", "refused 401 signature_mismatch", "the amount changed in transit").tampered("12900", "1"),
		unsigned.as("unsigned", "refused 401 signature_missing", "no signature at all"),
	}
}

func standardWebhooks() []delivery {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(standardSecret, "whsec_"))
	if err != nil {
		log.Fatal(err)
	}
	event := func(id, body string, signed int64) delivery {
		d := delivery{producer: "standard-webhooks", id: id, typ: "user.created", body: body, now: signed + 1}
		d.fields = [][2]string{
			{"Content-Type", "application/json"}, {"webhook-id", id},
			{"webhook-timestamp", strconv.FormatInt(signed, 10)},
		}
		d.sign = func(d *delivery) [][2]string {
			sig := mac(key, fmt.Sprintf("%s.%d.%s", id, signed, d.body))
			return [][2]string{{"webhook-signature", "v1," + base64.StdEncoding.EncodeToString(sig)}}
		}
		return d
	}
	const body = `{"type":"user.created","timestamp":"2026-06-28T08:30:00Z","data":{"id":"u_1001"}}`
	unsigned := event("msg_unsigned", body, now)
	unsigned.sign = nil
	return []delivery{
		event("msg_1001", body, now).as("user-new", "new 200", "a user was created"),
		event("msg_1001", body, now+300).
			as("user-retried", "duplicate 200", "retried five minutes later, signed with the time of the retry"),
		event("msg_1001", strings.Replace(body, "u_1001", "u_1002", 1), now+301).
			as("user-restated", "duplicate 200", "another body under the same id, which is signed: the same event"),
		event("msg_stale", body, now).at(now+301).
			as("stale", "refused 401 timestamp_too_old", "signed five minutes and a second ago"),
		event("msg_tampered", body, now).
			as("tampered", "refused 401 signature_mismatch", "the user changed in transit").
			tampered("u_1001", "u_0001"),
		unsigned.as("unsigned", "refused 401 signature_missing", "no signature at all"),
	}
}
