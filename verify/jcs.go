package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// maxDepth bounds how deep JSON may nest that we take apart.
const maxDepth = 64

// canonicalJSON returns the canonical form (RFC 8785) of a JSON object. It refuses what two parsers could read
// in two ways, so that the signature over the canonical form is one over what a handler will see: members that
// occur twice, text that is not UTF-8, numbers of 2^53 and above, and numbers that are not spelt as ECMAScript
// spells them.
func canonicalJSON(body []byte) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("json: not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	first, err := dec.Token()
	if err != nil || first != json.Delim('{') {
		return nil, errors.New("json: not an object")
	}
	if err := checkMembers(dec, 1); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("json: more than one value")
	}
	out, err := jcs.Transform(body)
	if err != nil {
		return nil, errors.New("json: no canonical form")
	}
	return out, nil
}

// checkMembers reads the rest of an object.
func checkMembers(dec *json.Decoder, depth int) error {
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return errors.New("json: malformed")
		}
		key, _ := name.(string)
		if seen[key] {
			return errors.New("json: a member occurs twice")
		}
		seen[key] = true
		if err := checkValue(dec, depth); err != nil {
			return err
		}
	}
	return closing(dec)
}

func checkValue(dec *json.Decoder, depth int) error {
	tok, err := dec.Token()
	if err != nil {
		return errors.New("json: malformed")
	}
	switch v := tok.(type) {
	case json.Number:
		return checkNumber(v)
	case json.Delim:
		if depth == maxDepth {
			return fmt.Errorf("json: nested more than %d deep", maxDepth)
		}
		if v == '{' {
			return checkMembers(dec, depth+1)
		}
		for dec.More() {
			if err := checkValue(dec, depth+1); err != nil {
				return err
			}
		}
		return closing(dec)
	}
	return nil
}

func closing(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return errors.New("json: malformed")
	}
	return nil
}

// checkNumber refuses a number that does not survive the way through an ECMAScript program unchanged.
func checkNumber(n json.Number) error {
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil || math.Abs(f) >= 1<<53 {
		return errors.New("json: a number beyond 2^53")
	}
	if s, err := jcs.NumberToJSON(f); err != nil || s != n.String() {
		return errors.New("json: a number that is not spelt as ECMAScript spells it")
	}
	return nil
}
