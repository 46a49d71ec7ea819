// Package record is the disk format of the store: the layout of keys, the encoding of values,
// their checksums and their version. It knows nothing about the database that holds them.
//
// They are encoded by hand, because every delivery passes through here. An event has two parts:
//
//	value    version | state | checksum (4)
//	content  version | body kind | length of the body | length of the description | description
//	         | body, if it is not large | sequence | checksum (4)
//
// The content is what the claim provided and hardly ever changes; the state is what happens to the
// event. The checksum is a CRC-32C over the bytes and the key, which also detects a value stored
// under the wrong key. Fixed-width numbers are little-endian, others are varints; strings and
// lists are prefixed with their length. The strings of the description are words (see package
// wire).
//
// Events have version 4, aliases version 3, and the other values version 2. No other is read.
package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/eyelet-dev/eyelet/dedup/internal/wire"
)

const (
	eventVersion = 4
	aliasVersion = 3
	version      = 2 // of other values
	sumSize      = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DamagedError reports a stored value that is not what was written. Its key stays known: a
// claim of it fails with this error and is never accepted as new.
type DamagedError struct {
	Key    string // of the value in the store: its family and the rest in hexadecimal
	Reason string // describes the damage
	Err    error  // the cause, if there is one
}

// Error names the damaged value and the damage.
func (e *DamagedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("stored value %s is damaged: %s: %v", e.Key, e.Reason, e.Err)
	}
	return fmt.Sprintf("stored value %s is damaged: %s", e.Key, e.Reason)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// Damaged returns the error of a damaged value.
func Damaged(key []byte, reason string, err error) *DamagedError {
	return &DamagedError{Key: KeyName(key), Reason: reason, Err: err}
}

// Seal appends the checksum to a value. The value starts with its version.
func Seal(key, b []byte) []byte {
	sum := crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, key)
	return binary.LittleEndian.AppendUint32(b, sum)
}

// Checksum returns the checksum at the end of a value, zero if the value is too short for one.
func Checksum(value []byte) uint32 {
	if len(value) < sumSize {
		return 0
	}
	return binary.LittleEndian.Uint32(value[len(value)-sumSize:])
}

// Verify checks checksum and version of a value, without copying it.
func Verify(key, value []byte) error {
	if len(value) < 1+sumSize {
		return Damaged(key, "too short", nil)
	}
	b := value[:len(value)-sumSize]
	sum := crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, key)
	if sum != Checksum(value) {
		return Damaged(key, "its checksum does not match", nil)
	}
	known := byte(version)
	switch key[0] {
	case FamilyEvent, FamilyOlder:
		known = eventVersion
	case FamilyAlias:
		known = aliasVersion
	}
	if b[0] != known {
		return Damaged(key, fmt.Sprintf("version %d is not known", b[0]), nil)
	}
	return nil
}

// unseal checks checksum and version of a value and returns a codec of the rest.
func unseal(key, value []byte) (c wire.Codec, err error) {
	if err = Verify(key, value); err == nil {
		c = wire.Reader(string(value[1 : len(value)-sumSize]))
	}
	return c, err
}

// ended returns an error unless everything was read.
func ended(c *wire.Codec, key []byte) error {
	if !c.Whole() {
		return Damaged(key, "its content does not decode", nil)
	}
	return nil
}
