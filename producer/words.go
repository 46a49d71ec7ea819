package producer

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/words"
)

// The words of a configuration for the values of each type.
var (
	contractWords   = []string{"api", "webhook"}
	nonceWords      = []string{"off", "required", "unique"}
	contentWords    = []string{"", "coded", "decoded"}
	sameSignedWords = []string{"", "off", "quarantine", "refuse", "run"}
)

// MarshalText returns api or webhook.
func (c Contract) MarshalText() ([]byte, error) { return words.Of(c, contractWords) }

// UnmarshalText reads api or webhook.
func (c *Contract) UnmarshalText(text []byte) error { return words.Read(c, text, contractWords) }

// MarshalText returns off, required or unique.
func (n NoncePolicy) MarshalText() ([]byte, error) { return words.Of(n, nonceWords) }

// UnmarshalText reads off, required or unique.
func (n *NoncePolicy) UnmarshalText(text []byte) error { return words.Read(n, text, nonceWords) }

// MarshalText returns coded or decoded, and nothing for SignedEither.
func (s SignedContent) MarshalText() ([]byte, error) { return words.Of(s, contentWords) }

// UnmarshalText reads coded or decoded.
func (s *SignedContent) UnmarshalText(text []byte) error { return words.Read(s, text, contentWords) }

// MarshalText returns off, quarantine, refuse or run, and nothing for SameSignedDefault.
func (s SameSigned) MarshalText() ([]byte, error) { return words.Of(s, sameSignedWords) }

// UnmarshalText reads off, quarantine, refuse or run.
func (s *SameSigned) UnmarshalText(text []byte) error { return words.Read(s, text, sameSignedWords) }

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
