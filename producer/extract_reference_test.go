package producer

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// reference reads the scalar at a path with encoding/json and a whole tree. ok is false where
// that library hides a duplicate or replaces invalid text, so the two cannot be compared.
func reference(body string, names []string) (want string, ok bool) {
	if !utf8.ValidString(body) || strings.Contains(body, `\u`) {
		return "", false
	}
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	var tree any
	if !json.Valid([]byte(body)) || dec.Decode(&tree) != nil {
		return "", false
	}
	for _, name := range names {
		switch node := tree.(type) {
		case map[string]any:
			tree = node[name]
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || n >= len(node) || strconv.Itoa(n) != name {
				return "", true
			}
			tree = node[n]
		default:
			return "", true
		}
	}
	switch leaf := tree.(type) {
	case string:
		return leaf, true
	case json.Number:
		return leaf.String(), true
	case bool:
		return strconv.FormatBool(leaf), true
	}
	return "", true
}
