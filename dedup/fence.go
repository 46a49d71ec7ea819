package dedup

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Fence is how far a lane was handled: the version of the newest event of the lane whose task is
// done. An older event of the lane is stale: its task is done without having run. A lane has a
// fence once a task with a version was done.
type Fence struct {
	Principal, Endpoint, Handler, Lane string

	Version string // of the newest event that was handled
	Event   string // which one
	Moved   time.Time
}

const (
	// FenceFor is how long a fence is kept after it was last moved. Then any event of its lane
	// runs.
	FenceFor = 90 * 24 * time.Hour
	// FenceMax is how many fences a store keeps. Beyond it those that moved first are forgotten.
	FenceMax = 1_000_000
	// MaxVersion is the length of the longest version, in bytes.
	MaxVersion = 128
)

// ReasonStale is the reason of a task that is done although its handler did not run, because a
// newer event of its lane had been handled, or that ran while a newer one was handled.
const ReasonStale = "stale"

const (
	errStaleBefore = "not run: a newer event of the lane was handled before"
	errStaleAfter  = "a newer event of the lane was handled while this one ran"
)

// Stale returns the result of a task that does not run because it is [Record.Stale].
func Stale() Result { return Result{Kind: ResultDone, Reason: ReasonStale, Err: errStaleBefore} }

// Stale reports whether the task is done and was stale.
func (t *Task) Stale() bool { return t.State == Done && t.Reason == ReasonStale }

// FenceOf returns the key of the note that holds the fence of task i, and false if it has none: it
// has no lane or no version.
func (r *Record) FenceOf(i int) (Key, bool) {
	t := &r.Tasks[i]
	if t.Version == "" || t.Lane == "" {
		return Key{}, false
	}
	kind, _ := parseVersion(t.Version)
	return Key{
		Principal: r.Key.Principal, Endpoint: r.Payload.Endpoint, Space: SpaceFence,
		ID: fmt.Sprintf("%d:%s%s;%c", len(t.Handler), t.Handler, strings.TrimPrefix(t.Lane, LaneYields), kind),
	}, true
}

// FenceIn returns the fence that a note holds, and false if it holds none.
func FenceIn(n Note) (Fence, bool) {
	version, event, ok := strings.Cut(n.Text, "\n")
	size, rest, _ := strings.Cut(n.Key.ID, ":")
	handler, err := strconv.Atoi(size)
	end := strings.LastIndexByte(rest, ';')
	if n.Key.Space != SpaceFence || !ok || err != nil || handler < 0 || end < handler {
		return Fence{}, false
	}
	return Fence{
		Principal: n.Key.Principal, Endpoint: n.Key.Endpoint, Handler: rest[:handler], Lane: rest[handler:end],
		Version: version, Event: event, Moved: n.At,
	}, true
}

// Stale reports whether task i is older than its fence, which is in a note of its store.
func (r *Record) Stale(i int, fence Note) bool {
	f, ok := FenceIn(fence)
	return ok && !r.Tasks[i].Unfenced && CompareVersions(r.Tasks[i].Version, f.Version) < 0
}

// fenced returns the result of a task whose handler succeeded. It moves the fence of the task
// unless the task is stale by now.
func (r *Record) fenced(notes Notes, i int, res Result) (Result, error) {
	key, ok := r.FenceOf(i)
	if !ok || r.Tasks[i].Unfenced {
		return res, nil
	}
	note, err := notes.Note(key)
	if err != nil {
		return res, err
	}
	switch before, moved := FenceIn(note); {
	case r.Stale(i, note):
		if res.Reason != ReasonStale {
			res.Reason, res.Err = ReasonStale, errStaleAfter
		}
	case res.Reason == ReasonStale: // its fence was removed
		res = Result{Kind: ResultRelease}
	case res.Unfenced:
	case !moved || CompareVersions(before.Version, r.Tasks[i].Version) < 0:
		err = notes.SetNote(key, r.Tasks[i].Version+"\n"+r.Event)
	}
	return res, err
}

// The kinds of versions. Those of different kinds are not compared: each kind of a lane has a fence
// of its own.
const (
	versionNumber = 'n'
	versionTime   = 't'
	versionText   = 's'
)

var (
	decimal = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?$`)
	// unixTime is seconds since 1970 with ten digits, which the numbers of 2001 to 2286 have, or as
	// many milliseconds or microseconds.
	unixTime = regexp.MustCompile(`^([1-9][0-9]{9})(?:\.([0-9]{1,9})|([0-9]{3}|[0-9]{6}))?$`)
)

// CompareVersions compares two versions of one kind: times (RFC 3339, or seconds, milliseconds or
// microseconds since 1970, of 10, 13 or 16 digits), decimal numbers, and other texts byte by byte.
// It returns 0 for versions of different kinds.
func CompareVersions(a, b string) int {
	kind, x := parseVersion(a)
	other, y := parseVersion(b)
	switch {
	case kind != other:
		return 0
	case kind == versionText:
		return strings.Compare(a, b)
	}
	return x.Cmp(y)
}

// VersionTime returns the time that a version is, and false for another version.
func VersionTime(version string) (time.Time, bool) {
	kind, n := parseVersion(version)
	if kind != versionTime {
		return time.Time{}, false
	}
	ns := new(big.Int).Quo(n.Num(), n.Denom())
	if !ns.IsInt64() {
		return time.Unix(1<<62, 0), true // later than any clock
	}
	return time.Unix(0, ns.Int64()).UTC(), true
}

// parseVersion returns the kind of a version with its number: of a time the nanoseconds since 1970.
func parseVersion(version string) (kind byte, n *big.Rat) {
	if m := unixTime.FindStringSubmatch(version); m != nil {
		fraction := (m[2] + m[3] + "000000000")[:9]
		n, _ = new(big.Rat).SetString(m[1] + fraction)
		return versionTime, n
	}
	if at, err := time.Parse(time.RFC3339Nano, version); err == nil {
		seconds := new(big.Int).Mul(big.NewInt(at.Unix()), big.NewInt(int64(time.Second)))
		return versionTime, new(big.Rat).SetInt(seconds.Add(seconds, big.NewInt(int64(at.Nanosecond()))))
	}
	if len(version) <= MaxVersion && decimal.MatchString(version) {
		n, _ = new(big.Rat).SetString(version)
		return versionNumber, n
	}
	return versionText, nil
}
