package dedup

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestVersionsOfOneKindAreOrdered(t *testing.T) {
	t.Parallel()
	for _, ascending := range [][]string{
		{"-2", "-1.5", "-0.5", "0", "0.5", "1", "2", "9", "10", "1e2", "100.01", "123456789012345678901234567890"},
		{"2001-09-09T03:46:40+02:00", "1000000001", "1000000001.5", "1000000002000", "2024-05-01T10:00:00Z",
			"2024-05-01T12:00:00.001+02:00", "1714557600002000", "9999-12-31T23:59:59Z"},
		{"", "1.2.10", "1.2.9", "Z", "a", "a ", "ab", "v10", "v9", "é"},
	} {
		for i, a := range ascending {
			for j, b := range ascending {
				want := map[bool]int{i < j: -1, i > j: 1}[true]
				if got := CompareVersions(a, b); got != want {
					t.Errorf("%q with %q: %d, want %d", a, b, got, want)
				}
			}
		}
	}
	for _, equal := range [][2]string{
		{"1", "1.0"}, {"100", "1e2"}, {"1700000000", "2023-11-14T22:13:20Z"}, {"1700000000000", "1700000000.0"},
		{"1", "1700000000"}, {"1", "v1"}, {"2024-05-01T10:00:00Z", "v1"}, // of different kinds
	} {
		if got := CompareVersions(equal[0], equal[1]); got != 0 {
			t.Errorf("%q with %q: %d", equal[0], equal[1], got)
		}
	}
}

func TestOnlyTimesAreTimes(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]time.Time{
		"1700000000": time.Unix(1700000000, 0), "1700000000123": time.UnixMilli(1700000000123),
		"1700000000123456": time.UnixMicro(1700000000123456), "1700000000.25": time.Unix(1700000000, 25e7),
		"2024-05-01T12:00:00+02:00": time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC),
		"170000000":                 {}, "17000000000": {}, "1700000000123456789": {}, "01700000000": {},
		"2024-05-01": {}, "-1700000000": {}, "v1": {}, "": {},
	} {
		got, ok := VersionTime(version)
		if ok == want.IsZero() || ok && !got.Equal(want) {
			t.Errorf("%q: %v %t", version, got, ok)
		}
	}
	if at, ok := VersionTime("9999-12-31T23:59:59Z"); !ok || !at.After(time.Now()) {
		t.Errorf("the last year is %v %t", at, ok)
	}
}

func TestComparingVersionsIsAnOrderAndCostsLittle(t *testing.T) {
	t.Parallel()
	version := rapid.OneOf(rapid.StringMatching(`-?[0-9]{1,20}(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,4})?`),
		rapid.StringMatching(`1[0-9]{9}([0-9]{3}([0-9]{3})?)?`), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := version.Draw(t, "a"), version.Draw(t, "b"), version.Draw(t, "c")
		if CompareVersions(a, b) != -CompareVersions(b, a) || CompareVersions(a, a) != 0 {
			t.Errorf("%q with %q is not that the other way round", a, b)
		}
		if CompareVersions(a, b) > 0 && CompareVersions(b, c) > 0 && CompareVersions(a, c) <= 0 {
			t.Errorf("%q, %q and %q are not ordered", a, b, c)
		}
	})
	long := strings.Repeat("9", 1<<20)
	if kind, _ := parseVersion(long); kind != versionText {
		t.Error("a number of a million digits is parsed")
	}
}
