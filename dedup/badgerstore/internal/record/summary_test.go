package record

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eyelet-dev/eyelet/dedup"
)

func TestASummaryComesBackWhole(t *testing.T) {
	t.Parallel()
	h := func(b byte) Hash { return Hash{b, 19: b} }
	for _, want := range []Summary{
		{Older: map[Place]int{}},
		{
			Open:   []Hash{h(1), h(2)},
			Older:  map[Place]int{{Hash: h(3), Older: 300}: 2, {Hash: h(3), Older: 1 << 40}: 0},
			Recent: []Recent{{7, h(4)}, {1 << 40, h(5)}}, Truncated: true,
		},
	} {
		content := want.Encode()
		got, err := DecodeSummary(content)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%v, %s", err, diff)
		}
		if _, err := DecodeSummary(append(content, 1)); err == nil {
			t.Error("a longer one is decoded")
		}
	}
	for n := range 30 {
		content := (&Summary{Open: []Hash{h(1), h(2)}}).Encode()
		if _, err := DecodeSummary(content[:n]); err == nil {
			t.Errorf("%d bytes are decoded", n)
		}
	}
}

func TestCountsComeBackWhole(t *testing.T) {
	t.Parallel()
	group := func(n string) dedup.QuarantineGroup { return dedup.QuarantineGroup{Endpoint: "e" + n, Reason: "r" + n} }
	groups := map[dedup.QuarantineGroup]int64{group("1"): 8, group(""): 9}
	m := Meta{Commit: 9, Counts: Counts{1, 2, 3, 4, 5, 6, 7, groups}}
	got, err := DecodeMeta(m.Encode())
	if diff := cmp.Diff(m, got); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	before := m.Counts
	m.Counts.Add(&before, -1)
	if diff := cmp.Diff(Counts{Quarantined: map[dedup.QuarantineGroup]int64{}}, m.Counts); diff != "" {
		t.Error(diff)
	}
	if len(before.Quarantined) != 2 {
		t.Error("Add has changed the map that others have")
	}
}
