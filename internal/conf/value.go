package conf

import (
	"fmt"
	"strconv"
	"strings"
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
