package pgstore

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/dedup"
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

// packer writes values that are not columns: numbers, and strings after their lengths.
type packer []byte

func (p *packer) num(n uint64) { *p = binary.AppendUvarint(*p, n) }

func (p *packer) str(s string) {
	p.num(uint64(len(s)))
	*p = append(*p, s...)
}

func (p *packer) strs(list ...string) {
	p.num(uint64(len(list)))
	for _, s := range list {
		p.str(s)
	}
}

func (p *packer) time(t time.Time) {
	if t.IsZero() {
		p.num(0)
		return
	}
	p.num(uint64(t.UnixMicro()))
}

func (p *packer) keys(keys []dedup.Key) {
	p.num(uint64(len(keys)))
	for _, k := range keys {
		p.str(k.Principal)
		p.str(k.Endpoint)
		p.str(k.Space)
		p.str(k.ID)
	}
}

func (p *packer) header(h http.Header) {
	p.num(uint64(len(h)))
	for _, name := range slices.Sorted(maps.Keys(h)) { // equal headers have equal bytes
		p.str(name)
		p.strs(h[name]...)
	}
}

// unpacker reads what a packer wrote. After an error it returns zero values.
type unpacker struct {
	b   []byte
	bad bool
}

var errDamaged = errors.New("a row of the store cannot be read")

func (u *unpacker) err() error {
	if u.bad || len(u.b) > 0 {
		return errDamaged
	}
	return nil
}

func (u *unpacker) num() uint64 {
	n, size := binary.Uvarint(u.b)
	if size <= 0 {
		u.bad, u.b = true, nil
		return 0
	}
	u.b = u.b[size:]
	return n
}

// count reads the number of values that follow, each of which has at least one byte.
func (u *unpacker) count() int {
	n := u.num()
	if n > uint64(len(u.b)) {
		u.bad, u.b = true, nil
		return 0
	}
	return int(n)
}

func (u *unpacker) str() string {
	n := u.count()
	s := string(u.b[:n])
	u.b = u.b[n:]
	return s
}

func (u *unpacker) strs() []string {
	n := u.count()
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = u.str()
	}
	return list
}

func (u *unpacker) time() time.Time {
	if n := u.num(); n != 0 {
		return time.UnixMicro(int64(n)).UTC()
	}
	return time.Time{}
}

func (u *unpacker) keys() []dedup.Key {
	n := u.count()
	if n == 0 {
		return nil
	}
	keys := make([]dedup.Key, n)
	for i := range keys {
		keys[i] = dedup.Key{Principal: u.str(), Endpoint: u.str(), Space: u.str(), ID: u.str()}
	}
	return keys
}

func (u *unpacker) header() http.Header {
	n := u.count()
	if n == 0 {
		return nil
	}
	h := make(http.Header, n)
	for range n {
		name := u.str()
		h[name] = u.strs()
	}
	return h
}

// packAbout returns the parts of key and payload that no column has.
func packAbout(r *dedup.Record) []byte {
	p := make(packer, 0, 256)
	for _, s := range [...]string{
		r.Key.Principal, r.Key.Endpoint, r.Key.Space, r.Payload.KeyField, r.Payload.Method, r.Payload.Target,
	} {
		p.str(s)
	}
	p.header(r.Payload.Header)
	p.num(uint64(len(r.Payload.Attributes)))
	for name, value := range r.Payload.Attributes {
		p.str(name)
		p.str(value)
	}
	return p
}

func unpackAbout(b []byte, r *dedup.Record) error {
	u := unpacker{b: b}
	for _, s := range [...]*string{
		&r.Key.Principal, &r.Key.Endpoint, &r.Key.Space, &r.Payload.KeyField, &r.Payload.Method, &r.Payload.Target,
	} {
		*s = u.str()
	}
	r.Payload.Header = u.header()
	if n := u.count(); n > 0 {
		r.Payload.Attributes = make(map[string]string, n)
		for range n {
			name := u.str()
			r.Payload.Attributes[name] = u.str()
		}
	}
	return u.err()
}

// packExtra returns what few records have, nil without any of it.
func packExtra(r *dedup.Record) []byte {
	if len(r.Aliases) == 0 && r.Original == "" && r.Note == "" &&
		r.QuarantineCount == 0 && r.Occurrences == 0 {
		return nil
	}
	var p packer
	p.keys(r.Aliases)
	p.str(r.Original)
	p.str(r.Note)
	p.num(uint64(r.QuarantineCount))
	p.num(uint64(r.Occurrences))
	return p
}

func unpackExtra(b []byte, r *dedup.Record) error {
	if b == nil {
		return nil
	}
	u := unpacker{b: b}
	r.Aliases, r.Original, r.Note = u.keys(), u.str(), u.str()
	r.QuarantineCount, r.Occurrences = int(u.num()), int(u.num())
	return u.err()
}

func packResponse(a dedup.Response) []byte {
	if a.Status == 0 {
		return nil
	}
	var p packer
	p.num(uint64(a.Status))
	p.header(a.Header)
	p.str(string(a.Body))
	return p
}

func unpackResponse(b []byte) (a dedup.Response, err error) {
	if b == nil {
		return a, nil
	}
	u := unpacker{b: b}
	a.Status, a.Header = int(u.num()), u.header()
	if body := u.str(); body != "" {
		a.Body = []byte(body)
	}
	return a, u.err()
}

func packHistory(all []dedup.Attempt) []byte {
	if len(all) == 0 {
		return nil
	}
	var p packer
	p.num(uint64(len(all)))
	for _, a := range all {
		p.num(uint64(a.Number))
		p.num(uint64(a.State))
		p.time(a.Started)
		p.time(a.Ended)
		p.str(a.Reason)
		p.str(a.Err)
		p.time(a.Reopened)
		p.str(a.Reply)
	}
	return p
}

func unpackHistory(b []byte) ([]dedup.Attempt, error) {
	if b == nil {
		return nil, nil
	}
	u := unpacker{b: b}
	all := make([]dedup.Attempt, u.count())
	for i := range all {
		all[i] = dedup.Attempt{
			Number: int(u.num()), State: dedup.State(u.num()),
			Started: u.time(), Ended: u.time(), Reason: u.str(), Err: u.str(),
			Reopened: u.time(), Reply: u.str(),
		}
	}
	return all, u.err()
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
