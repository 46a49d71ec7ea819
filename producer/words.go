package producer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/duration"
)

// The words of a configuration for the values of each type, in their order. An empty one is a
// default that has none.
var (
	contractWords   = []string{"api", "webhook"}
	nonceWords      = []string{"off", "required", "unique"}
	contentWords    = []string{"", "coded", "decoded"}
	sameSignedWords = []string{"", "off", "quarantine", "refuse", "run"}
)

// wordOf returns the word of a value.
func wordOf[T ~int](v T, words []string) ([]byte, error) {
	if v < 0 || int(v) >= len(words) {
		return nil, fmt.Errorf("there is no value %d", int(v))
	}
	return []byte(words[v]), nil
}

// readWord sets the value that has a word.
func readWord[T ~int](to *T, text []byte, words []string) error {
	i := slices.Index(words, string(text))
	if i < 0 || len(text) == 0 {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
	}
	*to = T(i)
	return nil
}

// MarshalText returns api or webhook.
func (c Contract) MarshalText() ([]byte, error) { return wordOf(c, contractWords) }

// UnmarshalText reads api or webhook.
func (c *Contract) UnmarshalText(text []byte) error { return readWord(c, text, contractWords) }

// MarshalText returns off, required or unique.
func (n NoncePolicy) MarshalText() ([]byte, error) { return wordOf(n, nonceWords) }

// UnmarshalText reads off, required or unique.
func (n *NoncePolicy) UnmarshalText(text []byte) error { return readWord(n, text, nonceWords) }

// MarshalText returns coded or decoded, and nothing for SignedEither.
func (s SignedContent) MarshalText() ([]byte, error) { return wordOf(s, contentWords) }

// UnmarshalText reads coded or decoded.
func (s *SignedContent) UnmarshalText(text []byte) error { return readWord(s, text, contentWords) }

// MarshalText returns off, quarantine, refuse or run, and nothing for SameSignedDefault.
func (s SameSigned) MarshalText() ([]byte, error) { return wordOf(s, sameSignedWords) }

// UnmarshalText reads off, quarantine, refuse or run.
func (s *SameSigned) UnmarshalText(text []byte) error { return readWord(s, text, sameSignedWords) }

// rateUnits are the times of a rate in text.
var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// MarshalText returns 100/s, 6000/m or 3600/h, with "burst 20" if it has one, and nothing without a
// limit. It fails for another time.
func (r Rate) MarshalText() ([]byte, error) {
	if !r.Limits() {
		return nil, nil
	}
	for unit, per := range rateUnits {
		if r.Per == per {
			text := fmt.Appendf(nil, "%d/%s", r.Events, unit)
			if r.Burst > 0 && r.Burst != r.Events {
				text = fmt.Appendf(text, " burst %d", r.Burst)
			}
			return text, nil
		}
	}
	return nil, fmt.Errorf("there is no word for a rate per %s", duration.Format(r.Per))
}

// UnmarshalText reads 100/s, 6000/m or 3600/h, perhaps with the burst: 100/s burst 20.
func (r *Rate) UnmarshalText(text []byte) error {
	average, burst, bursts := strings.Cut(string(text), " burst ")
	number, unit, _ := strings.Cut(average, "/")
	events, err := strconv.ParseUint(strings.TrimSpace(number), 10, 31)
	per := rateUnits[strings.TrimSpace(unit)]
	once, burstErr := uint64(0), error(nil)
	if bursts {
		once, burstErr = strconv.ParseUint(strings.TrimSpace(burst), 10, 31)
	}
	if err != nil || burstErr != nil || events == 0 || per == 0 || bursts && once == 0 {
		return fmt.Errorf("%q is not a number of events in a time, such as 100/s or 100/s burst 20", text)
	}
	*r = Rate{Events: int(events), Per: per, Burst: int(once)}
	return nil
}
