package conf

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/usage"
)

// Variables are the environment variables that a configuration uses: the names by the values.
type Variables map[string]string

// Noting returns a lookup that notes the variables that it finds.
func (v Variables) Noting(lookup func(string) (string, bool)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := lookup(name)
		v[value] = name
		return value, ok
	}
}

// leastHidden is the length in bytes of the shortest value that may be a secret. Errors about
// shorter ones, such as a port, show them.
const leastHidden = 6

// AsWritten returns the errors with ${NAME} in place of values of variables: a value may be a
// secret at a wrong place.
func (v Variables) AsWritten(found usage.Errors) usage.Errors {
	values := slices.Collect(maps.Keys(v))
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, value := range values {
		quoted := strconv.Quote(value)
		for _, form := range []string{value, usage.OneLine(value), usage.OneLine(quoted[1 : len(quoted)-1])} {
			if len(strings.TrimSpace(form)) >= leastHidden {
				pairs = append(pairs, form, "${"+v[value]+"}")
			}
		}
	}
	replacer := strings.NewReplacer(pairs...)
	written := make(usage.Errors, len(found))
	for i, e := range found {
		written[i] = &usage.Error{At: e.At, What: replacer.Replace(e.What), Hint: replacer.Replace(e.Hint)}
	}
	return written
}
