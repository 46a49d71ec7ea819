//go:build unix

package producer_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// The cost of a request that does not verify, in processor time and memory, has a fixed part
// and a part per byte sent. The fixed part is at most two verifications with the algorithm of
// the endpoint, 50 µs and 64 kB. The part per byte is at most 20 times SHA-256, and 4 bytes.
const (
	fixedTime   = 50 * time.Microsecond
	fixedMemory = 64_000
	timesHash   = 20.0
	memory      = 4.0
	bodyBuffer  = 4.0 / 3 // bytes of memory that the receiver needs at most for a byte of body
)

// costTarget is an endpoint and a delivery that it refuses.
type costTarget struct {
	name      string
	scheme    verify.Scheme
	request   *http.Request
	body      []byte
	maxBody   int
	primitive func() // one verification with its algorithm
}

// costPrimitives returns one verification of a short text for each algorithm.
func costPrimitives(t *testing.T) map[string]func() {
	t.Helper()
	text := []byte("a short text")
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed := ed25519.Sign(private, text)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	rsaSigned, err := rsa.SignPKCS1v15(rand.Reader, rsaKey, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	made, err := verify.GenerateKey(verify.RSAPSSSHA512)
	if err != nil {
		t.Fatal(err)
	}
	pssKey := made.(*rsa.PrivateKey)
	long := sha512.Sum512(text)
	pssSigned, err := rsa.SignPSS(rand.Reader, pssKey, crypto.SHA512, long[:], nil)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecSigned, err := ecdsa.SignASN1(rand.Reader, ecKey, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return map[string]func(){
		"hmac":    func() { m := hmac.New(sha256.New, text); m.Write(text); m.Sum(nil) },
		"ed25519": func() { ed25519.Verify(public, text, signed) },
		"rsa":     func() { _ = rsa.VerifyPKCS1v15(&rsaKey.PublicKey, crypto.SHA256, sum[:], rsaSigned) },
		"pss":     func() { _ = rsa.VerifyPSS(&pssKey.PublicKey, crypto.SHA512, long[:], pssSigned, nil) },
		"ecdsa":   func() { ecdsa.VerifyASN1(&ecKey.PublicKey, sum[:], ecSigned) },
	}
}

// costTargets are all presets and schemes.
func costTargets(t *testing.T) []costTarget {
	t.Helper()
	primitives := costPrimitives(t)
	var all []costTarget
	add := func(name, primitive string, p producer.Producer, r *http.Request, body []byte) {
		p = p.WithDefaults()
		if p.Scheme == nil {
			return // addresses only
		}
		all = append(all, costTarget{name, p.Scheme, r, body, int(p.MaxBody), primitives[primitive]})
	}
	for name, s := range presetSettings() {
		vendor, _ := preset.Find(name)
		good, bad := s, s
		if len(s.Secrets) > 1 {
			good.Secrets, bad.Secrets = s.Secrets[:1], s.Secrets[1:]
		}
		if len(s.Secrets) == 1 {
			bad.Secrets = []string{s.Secrets[0] + "x"}
		}
		if bad.Password != "" {
			bad.Password += "x"
		}
		r, body, err := vendor.Sample(bad, testHook, "", "", testNow)
		if err != nil {
			t.Fatal(err)
		}
		add(name, "hmac", vendor.Open(good), r, body)
		if name == "twilio" { // three variants of the query, each with two ports
			r = r.Clone(t.Context())
			r.URL.RawQuery = "it's=%7E"
			add("twilio's queries", "hmac", vendor.Open(good), r, body)
		}
	}
	for name, primitive := range map[string]string{
		"aws-sns": "rsa", "google-eventarc": "rsa", "google-pubsub": "rsa", "openbanking-uk": "rsa", "paypal": "rsa",
		"yandex-pay": "ecdsa", "pawapay": "ecdsa", "activitypub": "rsa", "adcp": "ed25519", "accessowl": "ed25519",
		"ocm": "ed25519", "openpayments": "ed25519", "ucp": "ed25519",
	} {
		c := validCases(t, name)[0]
		var fetched []string
		add(name, primitive, c.producer(t, &fetched), c.request(t), c.body(t))
	}
	for alg, primitive := range map[verify.Alg]string{
		verify.HMACSHA256: "hmac", verify.Ed25519: "ed25519", verify.ECDSAP256SHA256: "ecdsa",
		verify.RSAPSSSHA512: "pss",
	} {
		p, r, body := signedTarget(t, alg)
		add("signed "+string(alg), primitive, p, r, body)
	}
	p, r, body := webhooksTarget(t)
	add("standard-webhooks ed25519", "ed25519", p, r, body)
	slices.SortFunc(all, func(a, b costTarget) int { return strings.Compare(a.name, b.name) })
	return all
}

// readsContent lists the presets that parse the body before it is verified. In the short form the
// others get two bodies.
var readsContent = map[string]bool{
	"adyen": true, "aws-sns": true, "interledger-rafiki": true, "openbanking-uk": true, "twilio": true,
	"twilio's queries": true, "yandex-pay": true, "twilio-event-streams": true,
}

// signedTarget returns an RFC 9421 endpoint and a delivery signed with another key of the same
// id.
func signedTarget(t *testing.T, alg verify.Alg) (producer.Producer, *http.Request, []byte) {
	t.Helper()
	pair := func() (verify.Key, verify.Signer) {
		if alg == verify.HMACSHA256 {
			secret := verify.GenerateSecret()
			key, err := verify.NewHMACKey("k", secret)
			if err != nil {
				t.Fatal(err)
			}
			return key, verify.Signer{KeyID: "k", Secret: secret}
		}
		private, err := verify.GenerateKey(alg)
		if err != nil {
			t.Fatal(err)
		}
		key, err := verify.NewPublicKey("k", alg, private.Public())
		if err != nil {
			t.Fatal(err)
		}
		return key, verify.Signer{KeyID: "k", Alg: alg, Private: private}
	}
	key, _ := pair()
	_, signer := pair()
	body := []byte(`{"type":"order.created"}`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, testHook, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", `"k1"`)
	if err := signer.Sign(r, body, testNow); err != nil {
		t.Fatal(err)
	}
	return producer.Signed("shop", verify.StaticKeys(key)), r, body
}

// webhooksTarget is Standard Webhooks with a public key.
func webhooksTarget(t *testing.T) (producer.Producer, *http.Request, []byte) {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, testHook, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Webhook-Id", "evt-17")
	r.Header.Set("Webhook-Timestamp", fmt.Sprint(testNow.Unix()))
	r.Header.Set("Webhook-Signature", "v1a,"+base64.StdEncoding.EncodeToString(make([]byte, 64)))
	return preset.With("standard-webhooks", "whpk_"+base64.StdEncoding.EncodeToString(public)), r, []byte("{}")
}

// fill repeats the element up to n bytes: begin, elements, end. Elements may contain a %d.
func fill(n int, begin, element, end string) []byte {
	b := make([]byte, 0, n+len(element)+len(end))
	b = append(b, begin...)
	for i := 0; len(b)+len(element)+len(end)+8 < n; i++ {
		if strings.Contains(element, "%") {
			b = fmt.Appendf(b, element, i)
		} else {
			b = append(b, element...)
		}
	}
	return append(b, end...)
}

// shuffled returns an object with names in no order.
func shuffled(n int) []byte {
	b := []byte("{")
	for i := 0; len(b)+20 < n; i++ {
		b = fmt.Appendf(b, `"%x":1,`, uint32(i*2654435761))
	}
	return append(b, `"":1}`...)
}

// costBodies are the most expensive bodies.
func costBodies() map[string]func(n int) []byte {
	token := func(claims func(int) []byte) func(int) []byte {
		return func(n int) []byte {
			enc := base64.RawURLEncoding
			text := enc.EncodeToString([]byte(`{"alg":"PS256","kid":"k"}`)) + "." +
				enc.EncodeToString(claims(n*3/4-100)) + "." + enc.EncodeToString(make([]byte, 256))
			return []byte(strings.Repeat(" ", max(0, n-len(text))) + text)
		}
	}
	numbers := func(n int) []byte { return fill(n, `{"a":[1`, ",1", "]}") }
	members := func(n int) []byte { return fill(n, "{", `"%d":1,`, `"":1}`) }
	return map[string]func(n int) []byte{
		"zeros":            func(n int) []byte { return make([]byte, n) },
		"numbers":          numbers,
		"decimals":         func(n int) []byte { return fill(n, `{"a":[1`, ",0.12345678901234567", "]}") },
		"exponents":        func(n int) []byte { return fill(n, `{"a":[1`, ",1e-7", "]}") },
		"members":          members,
		"shuffled members": shuffled,
		"objects":          func(n int) []byte { return fill(n, `{"a":[{}`, ",{}", "]}") },
		"unsorted objects": func(n int) []byte { return fill(n, `{"a":[{}`, `,{"b":1,"a":2}`, "]}") },
		"escapes":          func(n int) []byte { return fill(n, `{"a":"`, `\u0041`, `"}`) },
		"names of escapes": func(n int) []byte { return fill(n, "{", `"\u0041%d":1,`, `"":1}`) },
		"control escapes":  func(n int) []byte { return fill(n, `{"a":"`, `\u0001`, `"}`) },
		"quotes":           func(n int) []byte { return fill(n, `{"a":"`, `\"`, `"}`) },
		"deep arrays":      func(n int) []byte { return fill(n, `{"a":`, "[", "") },
		"deep objects":     func(n int) []byte { return fill(n, `{"a":`, `{"a":`, "") },
		"unsorted and deep": func(n int) []byte {
			inner := string(fill(n-60*16, `"`, "x", `"`))
			return []byte(strings.Repeat(`{"b":`, 60) + inner + strings.Repeat(`,"a":1}`, 60))
		},
		"a form":           func(n int) []byte { return fill(n, "a=1", "&%d=1", "") },
		"a form of spaces": func(n int) []byte { return fill(n, "a=", "+", "") },
		"an escaped form":  func(n int) []byte { return fill(n, "a=", "&%%61=%%62", "") },
		"Adyen's items": func(n int) []byte {
			return fill(n, `{"notificationItems":[`, `{"NotificationRequestItem":{}},`, `{}]}`)
		},
		"Adyen's large item": func(n int) []byte {
			return fill(n, `{"notificationItems":[{"NotificationRequestItem":{"pspReference":"`, `\u0041`, `"}}]}`)
		},
		"Adyen's members": func(n int) []byte {
			return fill(n, `{"notificationItems":[{"NotificationRequestItem":{`, `"%d":1,`, `"x":1}}]}`)
		},
		"a token of numbers": token(numbers),
		"a token of members": token(members),
		"a token of escapes": token(func(n int) []byte { return fill(n, `{"a":"`, `\u0041`, `"}`) }),
		"dots":               func(n int) []byte { return bytes.Repeat([]byte("."), n) },
		"a message of SNS": func(n int) []byte {
			return fill(n,
				`{"Type":"Notification","MessageId":"1","TopicArn":"arn:aws:sns:eu-central-1:1:t","Timestamp":`+
					`"2026-01-01T00:00:00.000Z",`+
					`"SignatureVersion":"2","Signature":"AAAA","SigningCertURL":"https:`+
					`//sns.eu-central-1.amazonaws.com/x.pem","Message":"`, `\u0041`, `"}`)
		},
		"a signature of SNS": func(n int) []byte {
			return fill(n, `{"Type":"Notification","SignatureVersion":"2","Signature":"`, "AAAA", `"}`)
		},
	}
}

// costHeads make the head of a request as expensive as possible and return its approximate
// size.
func costHeads() map[string]func(r *http.Request) int {
	const size = 14 << 10
	repeated := func(sep string, most int) func(r *http.Request) int {
		return func(r *http.Request) int {
			size := 0
			for name, lines := range r.Header {
				if strings.Contains(strings.ToLower(name), "signature") {
					times := min(most, 8<<10/(len(lines[0])+len(sep)))
					r.Header[name] = []string{lines[0] + strings.Repeat(sep+lines[0], times-1)}
					size += len(r.Header.Get(name))
				}
			}
			return size
		}
	}
	query := func(element string) func(r *http.Request) int {
		return func(r *http.Request) int {
			r.URL.RawQuery = string(fill(size, r.URL.RawQuery+"&a=1", element, ""))
			return size
		}
	}
	return map[string]func(r *http.Request) int{
		"as it is":             func(*http.Request) int { return 0 },
		"entries, with commas": repeated(",", 64),
		"entries, with spaces": repeated(" ", 64),
		"entries, with both":   repeated(", ", 64),
		"many entries":         repeated(",", 1<<10),
		"parameters":           query("&%d=1"),
		"escaped parameters":   query("&%%61=%%62"),
		"quoted parameters":    query("&'%%7e=''"),
		"Link fields": func(r *http.Request) int {
			r.Header["Link"] = []string{string(fill(size, "<a>", `,<%d>;rel="a b c"`, ""))}
			return size
		},
		"Link fields of relations": func(r *http.Request) int {
			r.Header["Link"] = []string{string(fill(size, "<a>;rel=\"", "a ", `"`))}
			return size
		},
		"labels": func(r *http.Request) int {
			inputs, signatures := r.Header.Get("Signature-Input"), r.Header.Get("Signature")
			var in, sig []string
			for i := range 8 {
				in = append(in, strings.Replace(inputs, "sig1", fmt.Sprint("s", i), 1))
				sig = append(sig, strings.Replace(signatures, "sig1", fmt.Sprint("s", i), 1))
			}
			if inputs != "" {
				r.Header.Set("Signature-Input", strings.Join(in, ", "))
				r.Header.Set("Signature", strings.Join(sig, ", "))
			}
			return 8 * (len(inputs) + len(signatures))
		},
		"unknown keys": func(r *http.Request) int {
			r.Header.Set("Signature-Input", strings.ReplaceAll(r.Header.Get("Signature-Input"), `keyid="k"`,
				`keyid="x"`))
			return 0
		},
		"a token": func(r *http.Request) int {
			enc := base64.RawURLEncoding
			r.Header.Set("Authorization",
				"Bearer "+enc.EncodeToString([]byte(`{"alg":"RS256","kid":"k"}`))+"."+
					enc.EncodeToString(shuffled(8<<10))+".AAAA")
			return 11 << 10
		},
		"a token with a large head": func(r *http.Request) int {
			enc := base64.RawURLEncoding
			r.Header.Set("Authorization", "Bearer "+enc.EncodeToString(fill(8<<10, `{"alg":"RS256"`, `,"%d":1`,
				"}"))+"."+enc.EncodeToString([]byte("{}"))+".AAAA")
			return 11 << 10
		},
	}
}

// costMeter measures rounds of calls.
type costMeter struct{ rounds int }

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// of returns the minimum over the rounds of the processor time and memory of one call.
func (m costMeter) of(calls int, f func()) (cpu time.Duration, allocated float64) {
	f()
	cpu, allocated = time.Hour, math.Inf(1)
	for range m.rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cpuTime()
		for range calls {
			f()
		}
		took := cpuTime() - start
		runtime.ReadMemStats(&after)
		cpu = min(cpu, took/time.Duration(calls))
		allocated = min(allocated, float64(after.TotalAlloc-before.TotalAlloc)/float64(calls))
	}
	return cpu, allocated
}

// costRun compares the cost of requests with its limits.
type costRun struct {
	*testing.T
	costMeter
	largest int           // body
	all     bool          // bodies to all endpoints, and limits of time
	slack   float64       // factor by which time limits may be exceeded
	perByte float64       // seconds of SHA-256 per byte
	fixed   time.Duration // fixedTime, scaled to this machine
	worst   map[string]string
	most    map[string]float64
}

func newCostRun(t *testing.T) *costRun {
	t.Helper()
	c := &costRun{T: t, costMeter: costMeter{rounds: 2}, largest: 64 << 10, slack: 3, worst: map[string]string{},
		most: map[string]float64{}}
	if c.all = os.Getenv("EYELET_LONG") != ""; !c.all {
		return c
	}
	c.rounds, c.largest = 3, 1<<20
	if os.Getenv("EYELET_COST") != "" {
		c.rounds, c.slack = 15, 1
	}
	megabyte := make([]byte, 1<<20)
	took, _ := costMeter{rounds: 9}.of(2, func() { sha256.Sum256(megabyte) })
	c.perByte = took.Seconds() / (1 << 20)
	c.fixed = max(fixedTime, time.Duration(c.perByte*80e3*1e9)) // on slow machines, what 80 kB of SHA-256 take
	return c
}

// note stores the largest used part of a limit.
func (c *costRun) note(what, name string, part float64) {
	if part > c.most[what] {
		c.most[what], c.worst[what] = part, name
	}
}

// cost is the cost of one call.
type cost struct {
	cpu    time.Duration
	memory float64
}

// check compares one call of f with the limits for size bytes, of which the receiver buffers
// held.
func (c *costRun) check(name string, of cost, size, held, calls int, f func()) cost {
	c.Helper()
	if !c.all {
		calls = 1
	}
	var got cost
	got.cpu, got.memory = c.of(calls, f)
	if c.all {
		c.checkTime(name, &got, (2*of.cpu+c.fixed).Seconds()+timesHash*c.perByte*float64(size), calls, f)
	}
	got.memory += bodyBuffer * float64(held)
	mostMemory := 2*of.memory + fixedMemory + memory*float64(size)
	c.note("memory", name, got.memory/mostMemory)
	if got.memory > mostMemory {
		c.Errorf("%s: %.0f bytes, at most %.0f", name, got.memory, mostMemory)
	}
	return got
}

// checkTime measures again before it fails.
func (c *costRun) checkTime(name string, got *cost, most float64, calls int, f func()) {
	c.Helper()
	for again := 0; again < 5 && got.cpu.Seconds() > most; again++ {
		cpu, _ := c.of(calls, f)
		got.cpu = min(got.cpu, cpu)
	}
	c.note("time", name, got.cpu.Seconds()/most)
	if got.cpu.Seconds() > most*c.slack {
		c.Errorf("%s: %v, at most %.1f µs", name, got.cpu, most*1e6)
	}
}

func (c *costRun) target(x costTarget) {
	var primitive cost
	primitive.cpu, primitive.memory = c.of(20, x.primitive)
	verifyIt := func(r *http.Request, body []byte) func() {
		return func() { _, _ = x.scheme.Verify(r, func() ([]byte, error) { return body, nil }) }
	}
	for shape, change := range costHeads() {
		r := x.request.Clone(c.Context())
		size := change(r) + len(x.body)
		c.check(x.name+", "+shape, primitive, size, len(x.body), 5, verifyIt(r, x.body))
	}
	largest := min(c.largest, x.maxBody)
	for shape, build := range costBodies() {
		if !c.all && !readsContent[x.name] && shape != "zeros" && shape != "shuffled members" {
			continue
		}
		var got [2]cost
		sizes := [2]int{largest / 16, largest}
		for i, size := range sizes {
			name := fmt.Sprintf("%s, %s, %d bytes", x.name, shape, size)
			got[i] = c.check(name, primitive, size, size, max(1, (64<<10)/size), verifyIt(x.request, build(size)))
		}
		c.checkSlope(x.name+", "+shape, got, float64(sizes[1]-sizes[0]))
	}
}

// checkSlope compares the cost per byte with its limits.
func (c *costRun) checkSlope(name string, got [2]cost, bytes float64) {
	c.Helper()
	if c.all {
		times := (got[1].cpu - got[0].cpu).Seconds() / bytes / c.perByte
		c.note("time per byte", name, times/timesHash)
		if times > timesHash*c.slack {
			c.Errorf("%s: %.1f times SHA-256 for a byte", name, times)
		}
	}
	each := (got[1].memory - got[0].memory) / bytes
	c.note("memory per byte", name, each/memory)
	if each > memory+0.01 {
		c.Errorf("%s: %.2f bytes of memory for a byte", name, each)
	}
}

// TestARefusedRequestCostsLittle measures every preset and scheme with the most expensive heads
// and bodies: the memory, and with EYELET_LONG the processor time. EYELET_LONG=1 EYELET_COST=1
// compares with the exact limits, for which the machine must be idle.
func TestARefusedRequestCostsLittle(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector needs memory of its own")
	}
	c := newCostRun(t)
	for _, x := range costTargets(t) {
		c.target(x)
	}
	for what, name := range c.worst {
		t.Logf("the most of the limit of %s: %.0f %%, %s", what, 100*c.most[what], name)
	}
}
