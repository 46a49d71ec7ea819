package verify

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
)

const snsCert = "https://sns.us-east-1.amazonaws.com/made.pem"

// snsMessage signs a message of SNS as the service does.
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
		"Type": "Notification", "MessageId": "m1", "TopicArn": "arn:aws:sns:us-east-1:123456789012:t", "Message": "hello\nworld",
		"Timestamp": "2023-11-14T22:13:20.000Z",
	}
}

func snsScheme() *SNS {
	a := newAuthority()
	return &SNS{
		Topics: []string{"arn:aws:sns:us-east-1:123456789012:t"},
		Certs:  &Certs{Roots: a.roots(), Fetch: serve(pemOf(a.leaf(&a.key.PublicKey, "sns.amazonaws.com"), a.mid))},
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
		code       Code
	}{
		{"version 2", good, ""},
		{"version 1", version1, ""},
		{"an unsigned member", edit(`{`, `{"UnsubscribeURL":"https://evil.example/",`), ""},
		{"null subject", edit(`{`, `{"Subject":null,`), ""},
		{"version 2 said to be 1", edit(`"SignatureVersion":"2"`, `"SignatureVersion":"1"`), SignatureMismatch},
		{"version 3", edit(`"SignatureVersion":"2"`, `"SignatureVersion":"3"`), VersionUnsupported},
		{"subject added", edit(`{`, `{"Subject":"x",`), SignatureMismatch},
		{"message changed", edit(`hello`, `hallo`), SignatureMismatch},
		{"id changed", edit(`"m1"`, `"m2"`), SignatureMismatch},
		{"id is a number", edit(`"m1"`, `1`), EventMalformed},
		{"no id", edit(`"MessageId":"m1",`, ``), EventMalformed},
		{"id twice", edit(`"MessageId":"m1",`, `"MessageId":"m1","MessageId":"m2",`), EventMalformed},
		{"a line feed in the id", edit(`"m1"`, `"m1\nSubject\nx"`), EventMalformed},
		{"a type that is not signed", edit(`"Type":"Notification"`, `"Type":"Other"`), EventMalformed},
		{"no signature", edit(`"Signature":"`, `"Sig":"`), SignatureMissing},
		{"signature with a line feed", edit(`"Signature":"`, `"Signature":"\n`), SignatureMalformed},
		{"another topic", edit(`:t"`, `:u"`), TopicUnexpected},
		{"another host", edit(`https://sns.us-east-1.amazonaws.com/`, `https://evil.example/`), CertURLUntrusted},
		{"no certificate file", edit(`made.pem`, `made`), CertURLUntrusted},
		{"no JSON: raw delivery", "hello", SignatureMissing},
		{"an array", "[]", SignatureMissing},
	}
	for _, c := range cases {
		_, err := snsScheme().Verify(bearer(""), body(c.body))
		if CodeOf(err) != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
	}
	strict := snsScheme()
	strict.MinVersion = 2
	if _, err := strict.Verify(bearer(""), body(version1)); CodeOf(err) != VersionUnsupported {
		t.Errorf("version 1 where 2 is wanted: %v", err)
	}
}

func TestSNSIdentityBindsTheBodyAndHasTheCertificatesDates(t *testing.T) {
	t.Parallel()
	id, err := snsScheme().Verify(bearer(""), body(snsMessage(t, "2", notification())))
	if err != nil {
		t.Fatal(err)
	}
	if !id.Covers("@body") || id.Signed == nil || id.SignedAt.Unix() != tokenNow {
		t.Errorf("identity %+v", id)
	}
	wide := Tolerance{Past: NoLimit, Future: NoLimit}
	for at, code := range map[time.Time]Code{
		newAuthority().begin.Add(-time.Hour):       "", // the tolerance ahead is without a limit
		newAuthority().mid.NotAfter:                "",
		newAuthority().mid.NotAfter.Add(time.Hour): CertExpired,
	} {
		if err := wide.Check(id, at); CodeOf(err) != code {
			t.Errorf("at %v: %v, want %q", at, err, code)
		}
	}
	if err := (Tolerance{Past: NoLimit}).Check(id, newAuthority().begin.Add(-time.Hour)); CodeOf(err) != CertExpired {
		t.Errorf("before the certificate's time: %v", err)
	}
}

func TestSNSChecksItsDescription(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*SNS{
		"nothing": {}, "no topics": {Certs: &Certs{}}, "an empty topic": {Certs: &Certs{}, Topics: []string{""}},
		"no certificates": {Topics: []string{"t"}}, "version 3": {Certs: &Certs{}, Topics: []string{"t"}, MinVersion: 3},
	} {
		if s.Check() == nil {
			t.Errorf("%s was taken", name)
		}
		if _, err := s.Verify(bearer(""), body("{}")); CodeOf(err) != KeysUnavailable {
			t.Errorf("%s: verifies with %v", name, err)
		}
	}
}

// FuzzSNS checks that no body passes that our key did not sign, and that every refusal is typed.
func FuzzSNS(f *testing.F) {
	f.Add(`{"Type":"Notification","MessageId":"m","TopicArn":"arn:aws:sns:us-east-1:123456789012:t","Message":"x",` +
		`"Timestamp":"2023-11-14T22:13:20Z","SignatureVersion":"2","Signature":"AAAA","SigningCertURL":"` + snsCert + `"}`)
	f.Add(`{"Type":"SubscriptionConfirmation"}`)
	f.Add(`[]`)
	f.Add(`{"Signature":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := snsScheme().Verify(bearer(""), body(text)); CodeOf(err) == "" {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
