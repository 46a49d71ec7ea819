package producer

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/eyelet-dev/eyelet/verify"
)

// Bounds of what a delivery says about its event. Names end up in logs, environments, exported files and on
// terminals, so that none holds a control character (CloudEvents 1.0.2, type system, forbids them as well).
const (
	// MaxType is the longest event type, in characters.
	MaxType = 1024
	// maxAttributes bounds all attributes of an event, in bytes; each is at most maxValue.
	maxAttributes = 64 << 10
)

var (
	errControl  = verify.Public("it holds a control character")
	errTypeLong = verify.Public("longer than 1,024 characters") // MaxType
)

func holdsControl(text string) bool { return strings.IndexFunc(text, unicode.IsControl) >= 0 }

func controlError(text string) error {
	if holdsControl(text) {
		return errControl
	}
	return nil
}

// fitting returns the attributes that fit: all of them, mostly. Where they are too many, those that say what the
// event is go first.
func fitting(all map[string]string) map[string]string {
	size, fit := 0, true
	for name, value := range all {
		size += len(name) + len(value)
		fit = fit && fits(name, value)
	}
	if fit && size <= maxAttributes {
		return all
	}
	kept := map[string]string{}
	names := append([]string{"id", "source", "subject", "time", "datacontenttype"}, slices.Sorted(maps.Keys(all))...)
	size = 0
	for _, name := range names {
		value, there := all[name]
		if _, twice := kept[name]; !there || twice || !fits(name, value) || size+len(name)+len(value) > maxAttributes {
			continue
		}
		size += len(name) + len(value)
		kept[name] = value
	}
	return kept
}

// fits reports whether an attribute may be kept.
func fits(name, value string) bool {
	return len(name) <= MaxType && len(value) <= maxValue && !holdsControl(name) && !holdsControl(value)
}
