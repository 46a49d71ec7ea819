package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheDefaultProfileCanBePrinted(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, r := range (Coverage{Required: []string{"date"}, Consumed: []string{"x-type"}}).Rules() {
		var sets []string
		for _, set := range r.AnyOf {
			sets = append(sets, strings.Join(set, " + "))
		}
		lines = append(lines, strings.Join(sets, " or ")+" "+string(r.When))
		if r.Why == "" {
			t.Errorf("%v has no reason", r)
		}
	}
	want := []string{
		"@method always", "@target-uri or @authority + @path + @query always", "content-digest with a body",
		"idempotency-key when present", "content-type when present",
		"content-encoding when present", "ce-* when present",
		"date always", "x-type when present",
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Error(d)
	}
}

// An Idempotency-Key is a String, whose canonical form is the only one that is accepted.
func TestAStructuredIdempotencyKeyIsCovered(t *testing.T) {
	t.Parallel()
	components := []string{"@method", "@target-uri", "content-digest", "content-type", "idempotency-key;sf"}
	for value, want := range map[string]Code{
		`"k-17"`: "", `"a\"b\\"`: "", `"k";a=1;b`: "",
		`k-17`: ComponentUnsupported, `1.00`: ComponentUnsupported, `"k"; a=1`: ComponentUnsupported,
		`"k";a=?1`: ComponentUnsupported, `"k", "l"`: ComponentUnsupported, `"k`: ComponentUnsupported,
	} {
		s := newScene(t)
		if s.r.Header.Set("Idempotency-Key", value); want != "" {
			s.r.Header.Set("Idempotency-Key", `"k"`)
		}
		s.resign(t, components...)
		s.r.Header.Set("Idempotency-Key", value) // the signer refuses it too
		id, err := s.verify()
		if want != "" {
			wantCode(t, err, want)
			continue
		}
		if err != nil || !id.Covers("idempotency-key") {
			t.Errorf("%s: %v, covered %v", value, err, id.Covered)
		}
		s.r.Header.Set("Idempotency-Key", `"other"`)
		_, err = s.verify()
		wantCode(t, err, SignatureMismatch)
	}
}

func TestWithoutRulesTheDigestIsStillChecked(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.scheme = withoutProfile(s.scheme)
	s.resign(t, "content-digest")
	s.body = "{}"
	_, err := s.verify()
	wantCode(t, err, DigestMismatch)
	if len(s.scheme.rules) > 0 {
		t.Error("there are rules")
	}
}

// A producer learns of all missing components at once, and of what would do instead.
func TestARefusalNamesAllMissingComponents(t *testing.T) {
	t.Parallel()
	const instead = `instead of "@target-uri" also "@authority" "@path" "@query"`
	for _, tt := range []struct {
		signed []string
		ce     int // fields of a CloudEvent
		want   string
	}{
		{[]string{"@method", "content-digest", "content-type", "idempotency-key"}, 0,
			`insufficient coverage: "@target-uri" (key "k"): ` + instead},
		{[]string{"content-type"}, 0,
			`insufficient coverage: "@method" (key "k"): and "@target-uri" "content-digest" "idempotency-key"; ` +
				instead},
		{[]string{"@method", "@authority", "@path", "content-digest"}, 2,
			`insufficient coverage: "@target-uri" (key "k"): and "idempotency-key" "content-type" "ce-a" "ce-b"; ` +
				instead},
		{allComponents, 1, `insufficient coverage: "ce-a" (key "k")`},
		{allComponents, 5, `insufficient coverage: "ce-a" (key "k"): and "ce-b" "ce-c" "ce-d" "ce-e"`},
	} {
		s := newScene(t)
		for i := range tt.ce {
			s.r.Header.Set("Ce-"+string(rune('a'+i)), "x")
		}
		s.resign(t, tt.signed...)
		if _, err := s.verify(); err == nil || err.Error() != tt.want {
			t.Errorf("%v:\n%v, want\n%s", tt.signed, err, tt.want)
		}
	}
	s := newScene(t) // a stranger chooses how many fields there are
	for i := range 200 {
		s.r.Header.Set(fmt.Sprint("Ce-", i), "x")
	}
	s.resign(t, allComponents...)
	if _, err := s.verify(); err == nil || strings.Count(err.Error(), "ce-") != maxMissing {
		t.Error(err)
	}
}
