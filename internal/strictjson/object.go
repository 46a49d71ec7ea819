package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Object is a JSON object in which each member occurs once and names are compared exactly.
// encoding/json takes the last duplicate and ignores case, so another reader could see other
// values than those that were verified.
type Object map[string]json.RawMessage

// ErrObject reports text that is not a JSON object.
var ErrObject = errors.New("not a JSON object")

// maxMembers bounds the members of an object.
const maxMembers = 256

// ParseObject reads a text that is one JSON object within [Unverified].
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

// Text returns a member that is a string; ok is false if it is absent or anything else.
func (o Object) Text(name string) (value string, ok bool) {
	raw := o[name]
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return String(raw), true
}
