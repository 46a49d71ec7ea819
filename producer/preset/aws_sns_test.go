package preset

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // signature version 1 of SNS
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

const snsCert = "https://sns.us-east-1.amazonaws.com/made.pem"

// snsMessage signs a message like SNS.
func snsMessage(t *testing.T, version string, members map[string]string) string {
	t.Helper()
	raw := map[string]json.RawMessage{}
	for name, value := range members {
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		raw[name] = quoted
	}
	content, err := snsContent(raw)
	if err != nil {
		t.Fatal(err)
	}
	members["SignatureVersion"], members["SigningCertURL"] = version, snsCert
	sum1, sum2 := sha1.Sum(content), sha256.Sum256(content) //nolint:gosec // see the import
	digest, hash := sum2[:], crypto.SHA256
	if version == "1" {
		digest, hash = sum1[:], crypto.SHA1
	}
	signature, err := rsa.SignPKCS1v15(rand.Reader, newAuthority().key, hash, digest)
	if err != nil {
		t.Fatal(err)
	}
	members["Signature"] = base64.StdEncoding.EncodeToString(signature)
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func notification() map[string]string {
	return map[string]string{
		"Type": "Notification", "MessageId": "m1", "TopicArn": "arn:aws:sns:us-east-1:123456789012:t",
		"Message":   "hello\nworld",
		"Timestamp": "2023-11-14T22:13:20.000Z",
	}
}

func testSNS() *snsScheme {
	a := newAuthority()
	return &snsScheme{
		topics: []string{"arn:aws:sns:us-east-1:123456789012:t"},
		certs:  &certStore{Roots: a.roots(), Fetch: serve(pemOf(a.leaf(&a.key.PublicKey, "sns.amazonaws.com"), a.mid))},
	}
}

func TestSNSMessages(t *testing.T) {
	t.Parallel()
	good := snsMessage(t, "2", notification())
	version1 := snsMessage(t, "1", notification())
	edit := func(old, replacement string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in the message", old)
		}
		return strings.Replace(good, old, replacement, 1)
	}
	cases := []struct {
		name, body string
		code       verify.Code
	}{
		{"version 2", good, ""},
		{"version 1", version1, ""},
		{"an unsigned member", edit(`{`, `{"UnsubscribeURL":"https://evil.example/",`), ""},
		{"null subject", edit(`{`, `{"Subject":null,`), ""},
		{"version 2 said to be 1", edit(`"SignatureVersion":"2"`, `"SignatureVersion":"1"`), verify.SignatureMismatch},
		{"version 3", edit(`"SignatureVersion":"2"`, `"SignatureVersion":"3"`), verify.VersionUnsupported},
		{"subject added", edit(`{`, `{"Subject":"x",`), verify.SignatureMismatch},
		{"message changed", edit(`hello`, `hallo`), verify.SignatureMismatch},
		{"id changed", edit(`"m1"`, `"m2"`), verify.SignatureMismatch},
		{"id is a number", edit(`"m1"`, `1`), verify.EventMalformed},
		{"no id", edit(`"MessageId":"m1",`, ``), verify.EventMalformed},
		{"id twice", edit(`"MessageId":"m1",`, `"MessageId":"m1","MessageId":"m2",`), verify.EventMalformed},
		{"a line feed in the id", edit(`"m1"`, `"m1\nSubject\nx"`), verify.EventMalformed},
		{"a type that is not signed", edit(`"Type":"Notification"`, `"Type":"Other"`), verify.EventMalformed},
		{"no signature", edit(`"Signature":"`, `"Sig":"`), verify.SignatureMissing},
		{"signature with a line feed", edit(`"Signature":"`, `"Signature":"\n`), verify.SignatureMalformed},
		{"another topic", edit(`:t"`, `:u"`), verify.TopicUnexpected},
		{"another host", edit(`https://sns.us-east-1.amazonaws.com/`, `https://evil.example/`),
			verify.CertURLUntrusted},
		{"no certificate file", edit(`made.pem`, `made`), verify.CertURLUntrusted},
		{"no JSON: raw delivery", "hello", verify.SignatureMissing},
		{"an array", "[]", verify.SignatureMissing},
	}
	for _, c := range cases {
		_, err := testSNS().Verify(newDelivery(testHook, "").Request, body(c.body))
		if verify.CodeOf(err) != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
	}
	strict := testSNS()
	strict.minVersion = 2
	if _, err := strict.Verify(newDelivery(testHook, "").Request,
		body(version1)); verify.CodeOf(err) != verify.VersionUnsupported {
		t.Errorf("version 1 where 2 is required: %v", err)
	}
}

func TestSNSIdentityCoversTheBodyAndHasTheCertificatesDates(t *testing.T) {
	t.Parallel()
	id, err := testSNS().Verify(newDelivery(testHook, "").Request, body(snsMessage(t, "2", notification())))
	if err != nil {
		t.Fatal(err)
	}
	if !id.Covers("@body") || id.Signed == nil || id.SignedAt.Unix() != tokenNow {
		t.Errorf("identity %+v", id)
	}
	wide := verify.Tolerance{Past: verify.NoLimit, Future: verify.NoLimit}
	for at, code := range map[time.Time]verify.Code{
		newAuthority().begin.Add(-time.Hour):       "", // the tolerance ahead is unlimited
		newAuthority().mid.NotAfter:                "",
		newAuthority().mid.NotAfter.Add(time.Hour): verify.CertExpired,
	} {
		if err := wide.Check(id, at); verify.CodeOf(err) != code {
			t.Errorf("at %v: %v, want %q", at, err, code)
		}
	}
	if err := (verify.Tolerance{Past: verify.NoLimit}).Check(id,
		newAuthority().begin.Add(-time.Hour)); verify.CodeOf(err) != verify.CertExpired {
		t.Errorf("before the certificate's dates: %v", err)
	}
}

func TestSNSChecksItsSettings(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*snsScheme{
		"nothing": {}, "no topics": {certs: &certStore{}}, "an empty topic": {certs: &certStore{},
			topics: []string{""}},
		"no certificates": {topics: []string{"t"}}, "version 3": {certs: &certStore{}, topics: []string{"t"},
			minVersion: 3},
	} {
		if s.Check() == nil {
			t.Errorf("%s was accepted", name)
		}
		if _, err := s.Verify(newDelivery(testHook, "").Request,
			body("{}")); verify.CodeOf(err) != verify.KeysUnavailable {
			t.Errorf("%s: verifies with %v", name, err)
		}
	}
}

// FuzzSNS checks that only bodies signed by our key pass, and that every error is typed.
func FuzzSNS(f *testing.F) {
	f.Add(`{"Type":"Notification","MessageId":"m","TopicArn":"arn:aws:sns:us-east-1:123456789012:t","Message":"x",` +
		`"Timestamp":"2023-11-14T22:13:20Z","SignatureVersion":"2","Signature":"AAAA","SigningCertURL":"` + snsCert +
		`"}`)
	f.Add(`{"Type":"SubscriptionConfirmation"}`)
	f.Add(`[]`)
	f.Add(`{"Signature":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := testSNS().Verify(newDelivery(testHook, "").Request, body(text)); verify.CodeOf(err) == "" {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
