package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// object is a JSON object whose member names occur once and are compared exactly, unlike those that
// encoding/json decodes into a struct: what one reader verifies, another must not read differently.
type object map[string]json.RawMessage

var errObject = errors.New("not a JSON object")

// maxMembers bounds the members of an object that is read before anything is verified: each of them costs much
// more than the bytes that a stranger needs for it.
const maxMembers = 1_000

// parseObject reads one JSON object and nothing after it. A name that occurs twice is an error.
func parseObject(raw []byte) (object, error) {
	if !json.Valid(raw) {
		return nil, errObject
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errObject
	}
	members := object{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, errObject
		}
		key, _ := name.(string)
		if len(members) == maxMembers {
			return nil, fmt.Errorf("more than %d members", maxMembers)
		}
		if _, twice := members[key]; twice {
			return nil, fmt.Errorf("member %.40q occurs twice", key)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, errObject
		}
		members[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, errObject
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errObject
	}
	return members, nil
}

// text returns a member that is a string; ok is false when it is absent, null or something else.
func (o object) text(name string) (value string, ok bool) {
	raw := o[name]
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &value) != nil {
		return "", false
	}
	return value, true
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
