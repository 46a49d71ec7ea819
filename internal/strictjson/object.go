package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Object is a JSON object whose member names occur once and are compared exactly, unlike those that
// encoding/json decodes into a struct: what one reader verifies, another must not read differently.
type Object map[string]json.RawMessage

// ErrObject refuses text that is not a JSON object.
var ErrObject = errors.New("not a JSON object")

// maxMembers bounds the members of an object.
const maxMembers = 256

// ParseObject reads one JSON object, within [Unverified], and nothing after it.
func ParseObject(raw []byte) (Object, error) {
	s := NewScanner(raw, Unverified)
	members := Object{}
	err := s.Object(func(name []byte) error {
		key := String(name)
		if len(members) == maxMembers {
			return fmt.Errorf("more than %d members", maxMembers)
		}
		if _, seen := members[key]; seen {
			return fmt.Errorf("%w: %.40q", ErrDuplicate, key)
		}
		value, err := s.Value()
		members[key] = value
		return err
	})
	if err == nil {
		err = s.End()
	}
	if errors.Is(err, ErrSyntax) || errors.Is(err, ErrTrailing) {
		return nil, ErrObject
	}
	return members, err
}

// Text returns a member that is a string; ok is false when it is absent, null or something else.
func (o Object) Text(name string) (value string, ok bool) {
	raw := o[name]
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return String(raw), true
}
