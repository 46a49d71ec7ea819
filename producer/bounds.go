package producer

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/verify"
)

// Limits of an event's identifier, type and attributes. They reach logs, environments, exported
// files and terminals, so none may contain a control character (CloudEvents 1.0.2, type system,
// forbids them too).
const (
	// MaxType is the longest event type, in characters.
	MaxType = 1024
	// maxAttributes limits all attributes of an event together, in bytes. Each is at most maxValue.
	maxAttributes = 64 << 10
)

var (
	errControl  error = verify.Public("it contains a control character")
	errTypeLong error = verify.Public("longer than 1,024 characters") // MaxType
)

func hasControl(text string) bool { return strings.IndexFunc(text, unicode.IsControl) >= 0 }

// textError returns tooLong for a text of more than limit characters, or more bytes than those
// can have, and an error for one with a control character.
func textError(text string, limit int, tooLong error) error {
	switch {
	case utf8.RuneCountInString(text) > limit || len(text) > utf8.UTFMax*limit:
		return tooLong
	case hasControl(text):
		return errControl
	}
	return nil
}

// withinLimits returns the valid attributes, usually all. If they are too many, those that
// identify the event are kept first.
func withinLimits(all map[string]string) map[string]string {
	size, fit := 0, true
	for name, value := range all {
		size += len(name) + len(value)
		fit = fit && validAttribute(name, value)
	}
	if fit && size <= maxAttributes {
		return all
	}
	kept := map[string]string{}
	names := append([]string{"id", "source", "subject", "time", "datacontenttype"}, slices.Sorted(maps.Keys(all))...)
	size = 0
	for _, name := range names {
		value, there := all[name]
		_, twice := kept[name]
		more := len(name) + len(value)
		if !there || twice || !validAttribute(name, value) || size+more > maxAttributes {
			continue
		}
		size += more
		kept[name] = value
	}
	return kept
}

func validAttribute(name, value string) bool {
	return len(name) <= MaxType && len(value) <= maxValue && !hasControl(name) && !hasControl(value)
}
