package verify

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const hmacSecret = "kettle-secret-17"

// request returns a delivery; fields are "Name: value" lines and may repeat.
func request(fields ...string) *http.Request {
	r, err := http.NewRequest(http.MethodPost, "https://hooks.example/in?a=1", nil)
	if err != nil {
		panic(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// tag is the reference: the HMAC of the standard library over one string.
func tag(secret, content string) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(content))
	return m.Sum(nil)
}

func hexTag(content string) string { return hex.EncodeToString(tag(hmacSecret, content)) }

func bodyScheme() *HMAC {
	return &HMAC{Headers: []string{"X-Sig"}, Encoding: Hex, Secrets: Secrets(hmacSecret)}
}

func timedScheme() *HMAC {
	return &HMAC{
		Headers: []string{"X-Sig"}, Separator: ",", Entries: []string{"t={timestamp}", "v1={sig}"}, Encoding: Hex,
		Content: "{timestamp}.{body}", Secrets: Secrets(hmacSecret),
	}
}

func idScheme() *HMAC {
	return &HMAC{
		Headers: []string{"new-sig", "old-sig"}, IDHeaders: []string{"new-id", "old-id"},
		TimestampHeaders: []string{"new-time", "old-time"},
		Encoding:         Base64, Content: "{id}.{timestamp}.{body}", Secrets: Secrets(hmacSecret),
	}
}

func algScheme() *HMAC {
	return &HMAC{Headers: []string{"X-Sig"}, Entries: []string{"{alg}={sig}"},
		Hashes: []Hash{SHA256}, Encoding: Hex, Secrets: Secrets(hmacSecret)}
}

// The recorded deliveries of vendors have other fields and bodies.
func TestHMACVerify(t *testing.T) {
	t.Parallel()
	sig := hexTag("tea")
	timed := hexTag("1700000000.tea")
	b64 := base64.StdEncoding.EncodeToString(tag(hmacSecret, "e1.1700000000.tea"))
	keyed := &HMAC{
		Headers: []string{"X-Sig"}, Separator: ",", Entries: []string{"{kid}/{alg}/{sig}"},
		Hashes: []Hash{SHA256}, Encoding: Hex,
		Keys: map[string]Secret{"1": "another", "2": hmacSecret},
	}
	for _, c := range []struct {
		name   string
		scheme *HMAC
		fields []string
		body   string
		want   Code
	}{
		{"good", bodyScheme(), []string{"X-Sig: " + sig}, "tea", ""},
		{"two fields", bodyScheme(), []string{"X-Sig: " + sig, "X-Sig: " + sig}, "tea", AmbiguousField},
		{"a longer signature", bodyScheme(),
			[]string{"X-Sig: " + sig + strings.Repeat("00", 64)}, "tea", SignatureMismatch},
		{"a field of 9 KiB", bodyScheme(), []string{"X-Sig: " + strings.Repeat("a", 9<<10)}, "tea", SignatureMalformed},

		{"timed", timedScheme(), []string{"X-Sig: t=1700000000,v1=" + timed}, "tea", ""},
		{"a list on two lines", timedScheme(), []string{"X-Sig: t=1700000000", "X-Sig: v1=" + timed}, "tea", ""},
		{"a list twice", timedScheme(),
			[]string{"X-Sig: t=1700000000,v1=" + timed, "X-Sig: t=1700000000,v1=" + timed}, "tea", ""},
		{"a list with another time", timedScheme(),
			[]string{"X-Sig: t=1700000000,v1=" + timed, "X-Sig: t=1700000001,v1=" + timed}, "tea", SignatureMalformed},
		{"spaces around entries", timedScheme(), []string{"X-Sig: t=1700000000 , v1=" + timed}, "tea", ""},
		{"65 entries", timedScheme(), []string{"X-Sig: " + strings.Repeat("a,", 63) + "t=1700000000,v1=" + timed},
			"tea", SignatureMalformed},

		{"id and time", idScheme(), []string{"new-sig: " + b64, "new-id: e1", "new-time: 1700000000"}, "tea", ""},
		{"an empty field does not hide the older one", idScheme(),
			[]string{"new-sig: ", "old-sig: " + b64, "old-id: e1", "old-time: 1700000000"}, "tea", ""},
		{"an id of the other family", idScheme(),
			[]string{"new-sig: " + b64, "old-id: e1", "new-time: 1700000000"}, "tea", IDMissing},
		{"two ids", idScheme(), []string{"new-sig: " + b64, "new-id: e1", "new-id: e1", "new-time: 1700000000"},
			"tea", AmbiguousField},
		{"two times in fields", idScheme(),
			[]string{"new-sig: " + b64, "new-id: e1", "new-time: 1700000000", "new-time: 1"}, "tea", AmbiguousField},
		{"a full stop moved from the content into the id", idScheme(), []string{
			"new-sig: " + b64, "new-id: e1.1700000000", "new-time: 1"}, "tea", ComponentUnsupported},

		{"algorithm named", algScheme(), []string{"X-Sig: sha256=" + sig}, "tea", ""},

		{"key by id", keyed, []string{"X-Sig: 2/SHA256/" + sig}, "tea", ""},
		{"key without an id", keyed, []string{"X-Sig: /SHA256/" + sig}, "tea", SignatureMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := c.scheme.Verify(request(c.fields...), bodyOf(c.body))
			if got := CodeOf(err); got != c.want || err != nil && got == "" {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestHMACTimesAreStrictlyDecimal(t *testing.T) {
	t.Parallel()
	for stamp, want := range map[string]Code{
		"1700000000": "", "0": "", "": TimestampMalformed, "hello": TimestampMalformed,
		"1e9": TimestampMalformed, "-1": TimestampMalformed,
		"+1700000000": TimestampMalformed, "0x10": TimestampMalformed,
		"1_0": TimestampMalformed, "1.5": TimestampMalformed,
		"9999999999999999": TimestampMalformed, "１７": TimestampMalformed, "999999999999999": "",
	} {
		_, err := timedScheme().Verify(request("X-Sig: t="+stamp+",v1="+hexTag(stamp+".tea")), bodyOf("tea"))
		if CodeOf(err) != want {
			t.Errorf("time %q: got %v, want %q", stamp, err, want)
		}
	}
	header := idScheme()
	r := request("new-sig: "+base64.StdEncoding.EncodeToString(tag(hmacSecret, "e1.1 7.tea")), "new-id: e1")
	for _, stamp := range []string{"1 7", "17\u00a0", "\v17"} {
		r.Header["New-Time"] = []string{stamp}
		if _, err := header.Verify(r, bodyOf("tea")); CodeOf(err) != TimestampMalformed {
			t.Errorf("time %q: got %v", stamp, err)
		}
	}
}

func TestFarFutureTimeIsTooNew(t *testing.T) {
	t.Parallel()
	const stamp = "999999999999999"
	id, err := timedScheme().Verify(request("X-Sig: t="+stamp+",v1="+hexTag(stamp+".tea")), bodyOf("tea"))
	if err != nil {
		t.Fatal(err)
	}
	if err := (Tolerance{}).Check(id, time.Unix(1_700_000_000, 0)); CodeOf(err) != TimestampTooNew {
		t.Errorf("got %v", err)
	}
}

func TestHMACIdentity(t *testing.T) {
	t.Parallel()
	h := &HMAC{
		Headers: []string{"X-Sig"}, TimestampHeaders: []string{"X-Time"},
		TimestampUnit: Milliseconds, IDHeaders: []string{"X-Id"},
		Encoding: Base64, Content: "{id}|{timestamp}|{url}|{header:X-Topic}|{config:shop}|{body}",
		Config: map[string]string{"shop": "teapots"}, Secrets: Secrets(hmacSecret),
	}
	content := "e.1|1700000000123|https://hooks.example/in?a=1|brew|teapots|tea"
	sig := base64.StdEncoding.EncodeToString(tag(hmacSecret, content))
	fields := []string{"X-Id: e.1", "X-Time: 1700000000123", "X-Topic: brew", "X-Sig: " + sig}
	id, err := h.Verify(request(fields...), bodyOf("tea"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(content))
	if !bytes.Equal(id.Signed, sum[:]) {
		t.Error("Signed is not the digest of the signed content")
	}
	if !id.SignedAt.Equal(time.UnixMilli(1700000000123)) {
		t.Errorf("got time %v", id.SignedAt)
	}
	for _, name := range []string{"@body", "@target-uri", "x-topic", "x-id", "x-time"} {
		if !id.Covers(name) {
			t.Errorf("%s is not covered: %v", name, id.Covered)
		}
	}
	if id.Covers("x-sig") || id.KeyID != "" {
		t.Errorf("got %+v", id)
	}
	if _, err := h.Verify(request(append(fields, "X-Topic: boil")...), bodyOf("tea")); CodeOf(err) != AmbiguousField {
		t.Errorf("a signed field twice: got %v", err)
	}
	r := request(fields[0], fields[1], fields[3])
	if _, err := h.Verify(r, bodyOf("tea")); CodeOf(err) != InsufficientCoverage {
		t.Errorf("a signed field missing: got %v", err)
	}
}

func TestHMACCheckReportsEveryError(t *testing.T) {
	t.Parallel()
	short := ed25519.PublicKey("short")
	for _, c := range []struct {
		scheme *HMAC
		want   []string
	}{
		{&HMAC{}, []string{"headers: no field", "encoding:", "secrets: none is set"}},
		{&HMAC{Headers: []string{"X Sig"}, Encoding: Raw, Secrets: Secrets("")},
			[]string{`"X Sig" is not a field name`, "encoding:", "secret 1 of 1 is empty"}},
		{&HMAC{Headers: []string{"A", "B"}, IDHeaders: []string{"1", "2", "3"}, Encoding: Hex, Secrets: Secrets("s")},
			[]string{"id headers: 3 fields for 2", "content lacks {id}"}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"), Hash: "md5", Hashes: []Hash{"crc", "md5"}},
			[]string{`"md5"`, `"crc"`, "no entry holds {alg}"}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s", "zz "), SecretEncoding: Hex},
			[]string{"secret 1 of 2 is not hex", "secret 2 of 2 begins or ends"}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"), SecretEncoding: "rot13"},
			[]string{`unknown encoding "rot13"`}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("whpk_AAAA"), SecretEncoding: Whsec},
			[]string{"is an Ed25519 key"}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"),
			Content: "{timestamp}{nonce}{header:a b}{config:x}{id}{url:y}"},
			[]string{"no timestamp header", "unknown placeholder {nonce}", "names no field", "{config:x} is not set",
				"no id header", "takes no argument", "0 times"}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"), Content: "{body"},
			[]string{`"{" without`}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"), Content: "body}"},
			[]string{`"}" without`}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"), Content: "{body}{}"},
			[]string{"empty placeholder"}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"), Content: "{body}{jcs}"},
			[]string{"2 times"}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"),
			Entries: []string{"{kid}{sig}", "{sig}={sig}", "{what}", "plain", "{sig}-{ed25519}"}},
			[]string{"without text between", "{sig} twice", "unknown placeholder {what}",
				`"plain": neither`, "both {sig} and {ed25519}"}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"), Entries: []string{"t={timestamp}"}},
			[]string{"none holds a signature", "content lacks {timestamp}"}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"), Entries: []string{"{kid}/{sig}"}},
			[]string{"{kid} and keys by id go together"}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"), Keys: map[string]Secret{"": "", "b": "s"}},
			[]string{"both secrets and keys", "a key without an id", `key "" is empty`}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, PublicKeys: []ed25519.PublicKey{short}},
			[]string{"no entry holds {ed25519}", "not 5"}},
		{&HMAC{Headers: []string{"A"}, Encoding: Hex, Secrets: Secrets("s"), TimestampUnit: 7},
			[]string{"timestamp unit"}},
		{&HMAC{Headers: []string{"A"}, TimestampHeaders: []string{"T"}, Entries: []string{"{timestamp}={sig}"},
			Encoding: Hex, Secrets: Secrets("s")},
			[]string{"both a header and an entry"}},
	} {
		err := c.scheme.Check()
		if err == nil {
			t.Errorf("%v: no error found, want %q", c.scheme, c.want)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q lacks %q", err, want)
			}
		}
		if _, err := c.scheme.Verify(request("A: 00"), bodyOf("")); CodeOf(err) != KeysUnavailable {
			t.Errorf("an invalid scheme verifies: %v", err)
		}
		if c.scheme.Sign(request(), nil, time.Now()) == nil {
			t.Error("an invalid scheme signs")
		}
	}
}

func TestWhsecSecretsNeedNeitherPrefixNorPadding(t *testing.T) {
	t.Parallel()
	want := []byte("0123456789abcdef0123456789") // 26 bytes, so there is padding
	b64 := base64.StdEncoding.EncodeToString(want)
	for _, s := range []string{b64, "whsec_" + b64, "whsec_" + strings.TrimRight(b64, "=")} {
		if got, err := Secret(s).Decode(Whsec); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %q, %v", got, err)
		}
	}
	// Leftover bits, with and without padding: other libraries accept such secrets.
	for _, s := range []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS="} {
		if got, err := Secret(s).Decode(Whsec); err != nil || len(got) != 23 {
			t.Errorf("%q: got %d bytes, %v", s, len(got), err)
		}
	}
	if _, err := Secret("v1,whsec_" + b64).Decode(Whsec); err == nil || !strings.Contains(err.Error(), `"v1,"`) {
		t.Error(err) // as Supabase writes it
	}
	if _, err := Secret("whsec_no base64").Decode(Whsec); err == nil ||
		!strings.Contains(err.Error(), `base64 after "whsec_"`) {
		t.Errorf("got %v", err)
	}
	if got, err := Secret("whsec_x").Decode(Raw); err != nil || string(got) != "whsec_x" {
		t.Errorf("a raw secret was changed to %q, %v", got, err)
	}
	if _, err := Secret(strings.TrimRight(b64, "=")).Decode(Base64); err == nil {
		t.Error("plain base64 needs its padding")
	}
}

func TestEd25519BesideHMAC(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	entry := func(content string) string {
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(content)))
	}
	h := &HMAC{
		Headers: []string{"S"}, Separator: " ", Entries: []string{"v1,{sig}", "v1a,{ed25519}"}, Encoding: Base64,
		PublicKeys: []ed25519.PublicKey{bytes.Repeat([]byte{1}, 32), public},
	}
	if _, err := h.Verify(request("S: v1,AAAA "+entry("tea")), bodyOf("tea")); err != nil {
		t.Error(err)
	}
	if _, err := h.Verify(request("S: "+entry("tea")), bodyOf("Tea")); CodeOf(err) != SignatureMismatch {
		t.Errorf("another body: got %v", err)
	}
	unkeyed := request("S: v1," + base64.StdEncoding.EncodeToString(tag("", "tea")))
	if _, err := h.Verify(unkeyed, bodyOf("tea")); CodeOf(err) != SignatureMalformed {
		t.Errorf("a MAC without a secret: got %v", err)
	}
	flood := strings.TrimSpace(strings.Repeat(entry("coffee")+" ", 20)) + " " + entry("tea")
	if _, err := h.Verify(request("S: "+flood), bodyOf("tea")); CodeOf(err) != SignatureMismatch {
		t.Errorf("the work is not bounded: got %v", err)
	}
}

// TestUnknownKeyIDOfAMACCostsAsMuchAsAKnownOne counts the MACs computed over bodies.
func TestUnknownKeyIDOfAMACCostsAsMuchAsAKnownOne(t *testing.T) {
	t.Parallel()
	h := &HMAC{
		Headers: []string{"S"}, Separator: ",", Entries: []string{"{kid}/{sig}"}, Encoding: Hex,
		Keys: map[string]Secret{"a": "first", "b": "second"},
	}
	if err := h.Check(); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]int{"a/00": 1, "x/00": 1, "x/00,y/00": 1, "a/00,x/00": 1, "a/00,b/00": 2} {
		counted := 0
		for i := range h.plan.keys {
			h.plan.keys[i].pools[SHA256] = &sync.Pool{New: func() any {
				counted++
				return &keyedMAC{Hash: sha256.New()}
			}}
		}
		if _, err := h.Verify(request("S: "+field), bodyOf("tea")); CodeOf(err) != SignatureMismatch {
			t.Errorf("%s: %v", field, err)
		}
		if counted != want {
			t.Errorf("%s: %d MACs, want %d", field, counted, want)
		}
	}
}

func TestBodyIsNotReadIfTheHeaderIsRefused(t *testing.T) {
	t.Parallel()
	for _, fields := range [][]string{nil, {"X-Sig: v1=zz"}, {"X-Sig: v1=00"}, {"X-Sig: t=x,v1=00"}} {
		_, err := timedScheme().Verify(request(fields...), func() ([]byte, error) {
			t.Errorf("%v: the body was read", fields)
			return nil, nil
		})
		if err == nil {
			t.Errorf("%v: accepted", fields)
		}
	}
	cut := errors.New("connection cut")
	read := func() ([]byte, error) { return nil, cut }
	if _, err := bodyScheme().Verify(request("X-Sig: 00"), read); !errors.Is(err, cut) {
		t.Errorf("got %v, want the error of the body as it is", err)
	}
}

func TestSecretsPrintRedacted(t *testing.T) {
	t.Parallel()
	s := Secret(hmacSecret)
	asJSON, err := json.Marshal(map[string]any{"s": s, "h": []Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "s", s, "scheme", bodyScheme())
	printed := []string{string(asJSON), log.String(), s.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		printed = append(printed, fmt.Sprintf(verb+verb+verb, s, bodyScheme(), Basic("u", hmacSecret)))
	}
	for _, p := range printed {
		if strings.Contains(p, hmacSecret) ||
			strings.Contains(strings.ToLower(p), hex.EncodeToString([]byte(hmacSecret))) {
			t.Errorf("%s", p)
		}
	}
}

// anyHMAC generates a valid description.
func anyHMAC(t *rapid.T) *HMAC {
	h := &HMAC{
		Headers: []string{"X-Sig"}, Hash: rapid.SampledFrom([]Hash{SHA1, SHA256, SHA384, SHA512}).Draw(t, "hash"),
		Encoding: rapid.SampledFrom([]Encoding{Hex, Base64}).Draw(t, "encoding"),
		Secrets:  Secrets(rapid.StringMatching(`[!-~]{1,80}`).Draw(t, "secret"), "other"),
		Content:  "{body}",
	}
	if rapid.Bool().Draw(t, "id") {
		h.IDHeaders, h.Content = []string{"X-Id"}, "{id}:"+h.Content
	}
	switch rapid.SampledFrom([]string{"none", "header", "entry"}).Draw(t, "time") {
	case "header":
		h.TimestampHeaders, h.Content = []string{"X-Time"}, "{timestamp}\n"+h.Content
	case "entry":
		h.Separator, h.Entries, h.Content = ",", []string{"t={timestamp}", "{alg}:{sig}"}, h.Content+"\n{timestamp}"
	}
	return h
}

func TestHMACAcceptsExactlyWhatWasSigned(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := anyHMAC(t)
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		r := request("X-Id: " + rapid.StringMatching(`[a-z0-9]{1,8}`).Draw(t, "id"))
		now := time.Unix(rapid.Int64Range(0, 1e11).Draw(t, "now"), 0)
		if err := h.Sign(r, body, now); err != nil {
			t.Fatal(err)
		}
		id, err := h.Verify(r, bodyOf(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		if !id.SignedAt.IsZero() && !id.SignedAt.Equal(now) {
			t.Fatalf("signed at %v, read %v", now, id.SignedAt)
		}
		if len(body) > 0 {
			i := rapid.IntRange(0, len(body)-1).Draw(t, "where")
			changed := slices.Clone(body)
			changed[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "how"))
			if _, err := h.Verify(r, bodyOf(string(changed))); CodeOf(err) != SignatureMismatch {
				t.Fatalf("another body: %v", err)
			}
		}
		if _, err := h.Verify(r, bodyOf(string(body)+"x")); CodeOf(err) != SignatureMismatch {
			t.Fatalf("a longer body: %v", err)
		}
		h2 := *otherSecrets(h)
		if _, err := h2.Verify(r, bodyOf(string(body))); CodeOf(err) != SignatureMismatch {
			t.Fatalf("another secret: %v", err)
		}
	})
}

// otherSecrets is the same description with other secrets.
func otherSecrets(h *HMAC) *HMAC {
	return &HMAC{
		Headers: h.Headers, Hash: h.Hash, Encoding: h.Encoding, Secrets: Secrets("not ours"), Content: h.Content,
		IDHeaders: h.IDHeaders, TimestampHeaders: h.TimestampHeaders, Separator: h.Separator, Entries: h.Entries,
	}
}

func TestSignRefusesWhatItCannotSign(t *testing.T) {
	t.Parallel()
	if err := idScheme().Sign(request(), []byte("tea"), time.Now()); CodeOf(err) != IDMissing {
		t.Errorf("without an id: got %v", err)
	}
	public := &HMAC{
		Headers: []string{"S"}, Entries: []string{"{ed25519}"}, Encoding: Base64,
		PublicKeys: []ed25519.PublicKey{make([]byte, 32)},
	}
	if err := public.Sign(request(), nil, time.Now()); err == nil {
		t.Error("signs with a public key")
	}
}

func FuzzHMACFields(f *testing.F) {
	good := "t=1700000000,v1=" + hexTag("1700000000.tea")
	for _, s := range []string{good, "", "t=", ",", "t=1,v1=", "v1=00,v1=00",
		strings.Repeat("v1=00,", 100), "t=1\x00,v1=zz", "v1={sig}"} {
		f.Add(s, "e1", "1700000000")
	}
	schemes := []*HMAC{timedScheme(), idScheme(), algScheme(), bodyScheme(), {
		Headers: []string{"X-Sig"}, Separator: ",", Entries: []string{"{kid}/{alg}/{sig}", "{sig}"},
		Hashes: []Hash{SHA256, SHA1}, Encoding: Base64,
		Keys: map[string]Secret{"2": hmacSecret},
	}}
	f.Fuzz(func(t *testing.T, sig, id, stamp string) {
		r := request()
		for name, value := range map[string]string{"X-Sig": sig, "New-Sig": sig, "New-Id": id, "New-Time": stamp} {
			r.Header[name] = []string{value}
		}
		for i, h := range schemes {
			_, err := h.Verify(r, bodyOf("tea"))
			if err == nil && !strings.Contains(sig, hexTag("1700000000.tea")) &&
				!strings.Contains(strings.ToLower(sig), hexTag("1700000000.tea")) {
				t.Fatalf("scheme %d: %q was accepted", i, sig)
			}
			if err != nil && CodeOf(err) == "" {
				t.Fatalf("untyped error %v", err)
			}
		}
	})
}

// A producer without a preset is described by what its documentation says.
func ExampleHMAC() {
	tabapay := &HMAC{
		Headers: []string{"X-HMAC-Signature"}, Separator: ",",
		Entries:  []string{"t={timestamp}", "v1={sig}"},
		Encoding: Hex, Content: "{timestamp}.{body}", Secrets: Secrets("our shared secret"),
	}
	r, _ := http.NewRequest(http.MethodPost, "https://hooks.example/webhooks/tabapay", nil)
	body := []byte(`{"event":"settled"}`)
	_ = tabapay.Sign(r, body, time.Unix(1_700_000_000, 0)) // as the producer would

	id, err := tabapay.Verify(r, func() ([]byte, error) { return body, nil })
	fmt.Println(err, id.SignedAt.Unix(), id.Covers("@body"))
	_, err = tabapay.Verify(r, func() ([]byte, error) { return []byte(`{"event":"refunded"}`), nil })
	fmt.Println(CodeOf(err))
	fmt.Println(tabapay)
	// Output:
	// <nil> 1700000000 true
	// signature_mismatch
	// HMAC-SHA256 (hex) of "{timestamp}.{body}" in X-HMAC-Signature, as "t={timestamp},v1={sig}"
}
