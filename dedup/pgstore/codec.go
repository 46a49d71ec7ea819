package pgstore

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/internal/wire"
)

// escaped begins the texts that a column of type text cannot hold as they are.
const escaped = "\x01"

// text returns a string as PostgreSQL takes it: as it is, or in base64 if it is not UTF-8 or has
// a NUL.
func text(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && !strings.HasPrefix(s, escaped) {
		return s
	}
	return escaped + base64.StdEncoding.EncodeToString([]byte(s))
}

// untext is the reverse of text.
func untext(s string) string {
	if code, ok := strings.CutPrefix(s, escaped); ok {
		b, _ := base64.StdEncoding.DecodeString(code) // text wrote it
		return string(b)
	}
	return s
}

// optional returns nil for the empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	t := text(s)
	return &t
}

func unoptional(s *string) string {
	if s == nil {
		return ""
	}
	return untext(*s)
}

// moment returns nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func unmoment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// micros cuts a duration to what the database keeps, but not to zero.
func micros(d time.Duration) time.Duration {
	if d > 0 && d < time.Microsecond {
		return time.Microsecond
	}
	return d.Truncate(time.Microsecond)
}

var errDamaged = errors.New("a row of the store cannot be read")

// ended returns an error unless everything was read.
func ended(d *wire.Decoder) error {
	if !d.Whole() {
		return errDamaged
	}
	return nil
}

// packAbout returns the parts of key and payload that no column has.
func packAbout(r *dedup.Record) []byte {
	var w wire.Words
	b := make([]byte, 0, 256)
	for _, s := range [...]string{
		r.Key.Principal, r.Key.Endpoint, r.Key.Space, r.Payload.KeyField, r.Payload.Method, r.Payload.Target,
	} {
		b = w.Append(b, s)
	}
	b = wire.AppendHeader(b, r.Payload.Header, w.Append)
	return wire.AppendAttributes(b, r.Payload.Attributes, w.Append)
}

func unpackAbout(b []byte, r *dedup.Record) error {
	d := wire.Decoder{S: string(b), Words: &wire.Words{}}
	for _, s := range [...]*string{
		&r.Key.Principal, &r.Key.Endpoint, &r.Key.Space, &r.Payload.KeyField, &r.Payload.Method, &r.Payload.Target,
	} {
		*s = d.Text()
	}
	r.Payload.Header, r.Payload.Attributes = d.Header(), d.Attributes()
	return ended(&d)
}

// packExtra returns what few records have, nil without any of it.
func packExtra(r *dedup.Record) []byte {
	if len(r.Aliases) == 0 && r.Original == "" && r.Note == "" &&
		r.QuarantineCount == 0 && r.Occurrences == 0 {
		return nil
	}
	b := binary.AppendUvarint(nil, uint64(len(r.Aliases)))
	for _, k := range r.Aliases {
		b = wire.AppendKey(b, k, wire.AppendString)
	}
	b = wire.AppendString(b, r.Original)
	b = wire.AppendString(b, r.Note)
	b = binary.AppendUvarint(b, uint64(r.QuarantineCount))
	return binary.AppendUvarint(b, uint64(r.Occurrences))
}

func unpackExtra(b []byte, r *dedup.Record) error {
	if b == nil {
		return nil
	}
	d := wire.Decoder{S: string(b)}
	if n := d.Count(); n > 0 {
		r.Aliases = make([]dedup.Key, 0, min(n, 64))
		for range n {
			r.Aliases = append(r.Aliases, d.Key())
		}
	}
	r.Original, r.Note = d.Text(), d.Text()
	r.QuarantineCount, r.Occurrences = int(d.Uvarint()), int(d.Uvarint())
	return ended(&d)
}

func packResponse(a dedup.Response) []byte {
	if a.Status == 0 {
		return nil
	}
	return wire.AppendResponse(nil, &a)
}

func unpackResponse(b []byte) (a dedup.Response, err error) {
	if b == nil {
		return a, nil
	}
	d := wire.Decoder{S: string(b)}
	a = d.Response()
	return a, ended(&d)
}

func packHistory(all []dedup.Attempt) []byte {
	if len(all) == 0 {
		return nil
	}
	return wire.AppendHistory(nil, all, dedup.Attempt{})
}

func unpackHistory(b []byte) ([]dedup.Attempt, error) {
	if b == nil {
		return nil, nil
	}
	d := wire.Decoder{S: string(b)}
	all := d.History(dedup.Attempt{})
	return all, ended(&d)
}

var tagCoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// The tag in the id of an event is the beginning of the hash of its key, as in badgerstore, so that
// ids stay when a store is copied. finishSQL contains tagBytes too.
const (
	tagBytes = 20
	tagSize  = 32
)

// eventID returns the id of an event: its sequence number, which is never used twice, and a part of
// the hash of its key, which a client that does not know the key cannot guess.
func eventID(seq int64, hash []byte) string {
	return strconv.FormatInt(seq, 36) + "-" + tagCoding.EncodeToString(hash[:tagBytes])
}

// seqOf returns the sequence number in the id of an event, 0 if it is not one.
func seqOf(event string) int64 {
	number, tag, ok := strings.Cut(event, "-")
	seq, err := strconv.ParseInt(number, 36, 64)
	if !ok || err != nil || len(tag) != tagSize || seq <= 0 {
		return 0
	}
	return seq
}

// numbersFrom returns the ranges of the sequence numbers in the ids that begin in a way.
func numbersFrom(start string) (low, high []int64) {
	digits, _, whole := strings.Cut(start, "-")
	n, err := strconv.ParseInt(digits, 36, 64)
	if err != nil || n <= 0 {
		return nil, nil
	}
	low, high = []int64{n}, []int64{n}
	for first, last := n, n; !whole && last <= (math.MaxInt64-35)/36; {
		first, last = first*36, last*36+35
		low, high = append(low, first), append(high, last)
	}
	return low, high
}

// tagOf returns the part of the hash in the id of an event.
func tagOf(event string) []byte {
	_, tag, _ := strings.Cut(event, "-")
	b, _ := tagCoding.DecodeString(tag) // after an error it is too short
	return b
}

// laneOf returns the lane of a task as the tables have it, nil outside of lanes: whether it yields,
// and a hash.
func laneOf(r *dedup.Record, i int) []byte {
	if r.Hold || r.Tasks[i].Lane == "" {
		return nil
	}
	h := dedup.Key{Principal: r.Payload.Endpoint, Endpoint: r.Tasks[i].Handler, ID: r.Tasks[i].Lane}.Hash()
	if h[0] = 0; r.Yields(i) {
		h[0] = 1
	}
	return h[:17]
}
