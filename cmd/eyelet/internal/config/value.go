package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Hidden is shown in place of secrets.
const Hidden = "<secret>"

// size is a number of bytes, such as 1MiB.
type size int64

func parseSize(text string) (size, error) {
	unit := int64(1)
	for suffix, factor := range map[string]int64{
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1e3, "MB": 1e6, "GB": 1e9,
	} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = strings.TrimSpace(number), factor
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return 0, fmt.Errorf("not a number of bytes: %q", text)
	}
	return size(n * unit), nil
}

// maxDays bounds durations, because a store writes times in nanoseconds.
const maxDays = 36500

// ParseDuration is time.ParseDuration with days (7d), for durations of 0 to 100 years.
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n > maxDays {
			return 0, fmt.Errorf("not a number of days: %q", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	t, err := time.ParseDuration(text)
	if err == nil && (t < 0 || t > maxDays*24*time.Hour) {
		err = fmt.Errorf("negative, or too long: %q", text)
	}
	return t, err
}

// FormatDuration is Duration.String without trailing zero units: 1h, not 1h0m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if d >= time.Minute && d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= time.Hour && d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// toleranceSetting is how far a signed time may be off.
type toleranceSetting struct {
	Node   *node
	Past   time.Duration `conf:"past"`
	Future time.Duration `conf:"future"`
}

// short makes `tolerance: 5m` the tolerance for the past.
func (t *toleranceSetting) short() any { return &t.Past }

// rateSetting is a number of events per time, such as 100/s.
type rateSetting struct {
	events int
	per    time.Duration
	bare   bool // written without a time, which is then a minute
}

const rateHint = "write 100/s, 6000/m or 3600/h"

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

func (r *rateSetting) decodeNode(d *decoder, n *node, path string) {
	if !d.want(n, scalar, path) {
		return
	}
	number, unit, found := strings.Cut(n.text, "/")
	r.bare, r.per = !found, time.Minute
	if found {
		r.per = rateUnits[strings.TrimSpace(unit)]
	}
	events, err := strconv.ParseUint(strings.TrimSpace(number), 10, 31)
	if err != nil || events == 0 || r.per == 0 {
		*r = rateSetting{}
		d.errs.Add(n.at, rateHint, "%s is %q, want a number of events in a time", path, n.text)
		return
	}
	r.events = int(events)
}

// perMinute returns the rate in events per minute, at least 1 if a rate is set.
func (r rateSetting) perMinute() int {
	if r.events == 0 {
		return 0
	}
	return max(1, int(min(math.MaxInt32, int64(r.events)*int64(time.Minute)/int64(r.per))))
}

// rememberSetting bounds the memory of events beyond their window: off, or how long and how many.
type rememberSetting struct {
	Node *node
	For  time.Duration `conf:"for"`
	Max  int           `conf:"max"`
	off  bool
}

const (
	rememberHint = "write off, or {for: 90d, max: 2000000}"
	minRemember  = 24 * time.Hour // the store counts in days
)

func (r *rememberSetting) decodeNode(d *decoder, n *node, path string) {
	if n.kind == scalar {
		if r.off = n.text == "off"; !r.off {
			d.errs.Add(n.at, rememberHint, "%s is %q, want off or a mapping", path, n.text)
		}
		return
	}
	if !d.want(n, mapping, path) {
		return
	}
	d.objects(n, path, r)
	switch {
	case r.Max < 0:
		d.errs.Add(n.place("max"), rememberHint, "%s.max is less than 0", path)
	case r.For != 0 && r.For < minRemember:
		d.errs.Add(n.place("for"), rememberHint, "%s.for is %v, less than a day", path, r.For)
	}
}

func (r *rememberSetting) retention() dedup.Retention {
	if r.off {
		return dedup.Retention{For: -1}
	}
	return dedup.Retention{For: r.For, Max: int64(r.Max)}
}
