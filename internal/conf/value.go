package conf

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Hidden is shown in place of secrets.
const Hidden = "<secret>"

// ParseSize reads a number of bytes, such as 1MiB.
func ParseSize(text string) (int64, error) {
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
	return n * unit, nil
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
