package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// object is a JSON object whose member names occur once and are compared exactly, unlike those that
// encoding/json decodes into a struct: what one reader verifies, another must not read differently.
type object map[string]json.RawMessage

var errObject = errors.New("not a JSON object")

// maxMembers bounds the members of an object that is read before anything is verified: each of them costs much
// more than the bytes that an unauthenticated client needs for it.
const maxMembers = 256

// parseObject reads one JSON object and nothing after it, in one pass. A name that occurs twice is an error.
func parseObject(raw []byte) (object, error) {
	s := jsonScanner{text: raw}
	members := object{}
	err := s.object(func(name []byte) error {
		key := stringOf(name)
		if len(members) == maxMembers {
			return fmt.Errorf("more than %d members", maxMembers)
		}
		if _, twice := members[key]; twice {
			return fmt.Errorf("member %.40q occurs twice", key)
		}
		value, err := s.value()
		members[key] = value
		return err
	})
	if err == nil {
		err = s.end()
	}
	if errors.Is(err, errJSON) || errors.Is(err, errJSONEnd) {
		return nil, errObject
	}
	return members, err
}

// stringOf returns what a JSON string means, given its text with the quotes.
func stringOf(text []byte) string {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1])
	}
	out, _ := appendString(nil, text)
	return string(out)
}

// text returns a member that is a string; ok is false when it is absent, null or something else.
func (o object) text(name string) (value string, ok bool) {
	raw := o[name]
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return stringOf(raw), true
}

// values returns the value of a claim that is a string or a boolean, or the values of one that may be a list of strings.
func (o object) values(name string) []string {
	if one, ok := o.text(name); ok {
		return []string{one}
	}
	raw := string(o[name])
	if raw == "true" || raw == "false" {
		return []string{raw}
	}
	if name != "aud" && name != "roles" {
		return nil
	}
	var list []string
	if json.Unmarshal(o[name], &list) != nil {
		return nil
	}
	return list
}
