package producer_test

import (
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

func TestASharedSecretIsAWarning(t *testing.T) {
	t.Parallel()
	const secret, other = "one-secret-for-both-1", "another-secret-of-17"
	named := func(name string, p producer.Producer) producer.Producer { p.Name = name; return p }
	either := func(secret string) producer.Producer {
		p := preset.Twilio(secret)
		p.Scheme = verify.Any{p.Scheme, preset.GitHub(secret).Scheme}
		return p
	}
	type list []producer.Producer
	for name, tt := range map[string]struct {
		producers list
		want      int
	}{
		"one preset":  {list{named("a", preset.GitHub(secret)), named("b", preset.GitHub(other, secret))}, 1},
		"two presets": {list{named("a", preset.GitHub(secret)), named("b", preset.Razorpay(secret))}, 1},
		"none":        {list{named("a", preset.GitHub(secret)), named("b", preset.GitHub(other))}, 0},
		"the URL":     {list{named("a", preset.Twilio(secret)), named("b", preset.Twilio(secret))}, 0},
		"one of any":  {list{named("a", either(secret)), named("b", either(secret))}, 1},
	} {
		found := producer.SharedSecrets(tt.producers)
		if len(found) != tt.want || strings.Contains(strings.Join(found, ""), secret) {
			t.Errorf("%s: %q", name, found)
		}
	}
}
