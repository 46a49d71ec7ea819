package producer

import (
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

func TestClassOfAnHMACTemplate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		content string
		key     Extractor
		want    Class
	}{
		{"{timestamp}.{body}", JSON("id"), ClassIDSigned},
		{"{timestamp}.{header:X-Id}.{body}", Header("X-Id"), ClassIDSigned},
		{"{timestamp}.{body}", Header("X-Id"), ClassTimeSigned},
		{"{timestamp}.{body}", BodyDigest(), ClassTimeSigned},
		{"{body}", Header("X-Id"), ClassContentSigned},
		{"{body}", BodyDigest(), ClassUnnamed},
		{"{body}", JSON("id"), ClassIDSigned},
		{"{header:X-Id}.{body}", Header("X-Id"), ClassIDSigned},
		{"{header:X-Id}{body}", Header("X-Id"), ClassContentSigned},
		// bytes can be moved from the identifier to the body
		{"{url}{body}", JSON("id"), ClassIDSigned},
	} {
		scheme := &verify.HMAC{Headers: []string{"Sig"}, Encoding: verify.Hex, Content: row.content,
			Secrets: verify.Secrets("the-kettle-is-on-17"), Malleable: true}
		if strings.Contains(row.content, "timestamp") {
			scheme.TimestampHeaders = []string{"X-Time"}
		}
		p := Producer{Name: "own", Scheme: scheme, Key: row.key}
		if got := p.Class(); got != row.want {
			t.Errorf("%s with %v: %v, want %v", row.content, row.key, got, row.want)
		}
		warned := strings.Contains(strings.Join(p.Warnings(), " "), "neither id nor time")
		if warned != (row.want == ClassContentSigned) {
			t.Errorf("%s with %v: warned %t", row.content, row.key, warned)
		}
	}
	p := Producer{Name: "own", Scheme: verify.HeaderValue("X-Token", "the-kettle-is-on-17"), Key: Header("X-Id")}
	if got := p.Class(); got != ClassUnsigned {
		t.Errorf("a token: %v", got)
	}
}
