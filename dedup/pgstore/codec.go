package pgstore

import (
	"encoding/base32"
	"encoding/base64"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

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

// moment returns nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// The parts of a record that PostgreSQL has in another form are read and written as these types.
type (
	escapedText  string        // as text has it
	optionalText string        // the same; NULL is the empty string
	instant      time.Time     // NULL is the zero time
	microseconds time.Duration // their number
)

func (t *escapedText) ScanText(v pgtype.Text) error {
	*t = escapedText(untext(v.String))
	return nil
}

func (t *escapedText) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: text(string(*t)), Valid: true}, nil
}

func (t *optionalText) ScanText(v pgtype.Text) error { return (*escapedText)(t).ScanText(v) }

func (t *optionalText) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: text(string(*t)), Valid: *t != ""}, nil
}

func (t *instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	*t = instant(v.Time.UTC())
	return nil
}

func (t *instant) TimestamptzValue() (pgtype.Timestamptz, error) {
	at := time.Time(*t)
	return pgtype.Timestamptz{Time: at, Valid: !at.IsZero()}, nil
}

func (d *microseconds) ScanInt64(v pgtype.Int8) error {
	*d = microseconds(v.Int64) * microseconds(time.Microsecond)
	return nil
}

func (d *microseconds) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: time.Duration(*d).Microseconds(), Valid: true}, nil
}

// micros cuts a duration to what the database keeps, but not to zero.
func micros(d time.Duration) time.Duration {
	if d > 0 && d < time.Microsecond {
		return time.Microsecond
	}
	return d.Truncate(time.Microsecond)
}

var errDamaged = errors.New("a row of the store cannot be read")

// pack encodes a value, nil if it is not there.
func pack[T any](is bool, v *T, code func(*wire.Codec, *T)) []byte {
	if !is {
		return nil
	}
	c := wire.Codec{B: make([]byte, 0, 64)}
	code(&c, v)
	return c.B
}

// unpack decodes what pack encoded.
func unpack[T any](b []byte, v *T, code func(*wire.Codec, *T)) error {
	if b == nil {
		return nil
	}
	c := wire.Reader(string(b))
	if code(&c, v); !c.Whole() {
		return errDamaged
	}
	return nil
}

// codeAbout is the parts of key and payload that no column has.
func codeAbout(c *wire.Codec, r *dedup.Record) {
	c.Refers = true
	for _, s := range [...]*string{
		&r.Key.Principal, &r.Key.Endpoint, &r.Key.Space, &r.Payload.KeyField, &r.Payload.Method, &r.Payload.Target,
	} {
		c.Text(s)
	}
	c.Header(&r.Payload.Header, false)
	c.Attributes(&r.Payload.Attributes)
}

func packAbout(r *dedup.Record) []byte { return pack(true, r, codeAbout) }

// codeExtra is what few records have.
func codeExtra(c *wire.Codec, r *dedup.Record) {
	c.Keys(&r.Aliases)
	c.Text(&r.Original)
	c.Text(&r.Note)
	wire.Uint(c, &r.QuarantineCount)
	wire.Uint(c, &r.Occurrences)
}

func packExtra(r *dedup.Record) []byte {
	some := len(r.Aliases) > 0 || r.Original != "" || r.Note != "" || r.QuarantineCount != 0 || r.Occurrences != 0
	return pack(some, r, codeExtra)
}

func codeResponse(c *wire.Codec, r *dedup.Response) { c.Response(r) }

func packResponse(r *dedup.Response) []byte { return pack(r.Status != 0, r, codeResponse) }

// unpackRecord decodes what a record has beside its columns.
func unpackRecord(about, extra, response []byte, r *dedup.Record) error {
	return errors.Join(unpack(about, r, codeAbout), unpack(extra, r, codeExtra),
		unpack(response, &r.Response, codeResponse))
}

func codeKey(c *wire.Codec, k *dedup.Key) { c.Key(k) }

func packKey(k dedup.Key) []byte { return pack(true, &k, codeKey) }

func codeHistory(c *wire.Codec, all *[]dedup.Attempt) { c.History(all, dedup.Attempt{}) }

func packHistory(all []dedup.Attempt) []byte { return pack(len(all) > 0, &all, codeHistory) }

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
