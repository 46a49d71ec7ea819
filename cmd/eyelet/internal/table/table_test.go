package table

import (
	"strings"
	"testing"
	"time"
)

// sample has the kinds of cells, on the day after the first row.
func sample() *Table {
	at := func(day, s int) time.Time { return time.Date(2026, 11, day, 8, 0, s, 0, time.Local) }
	t := &Table{Now: at(24, 50), Heads: []string{"ACCEPTED", "EVENT", "TYPE", "STATE", "ATTEMPT", "ID", "LANE", "WHY"}}
	t.Row(at(23, 1), ID("1-lbgnhgnkai0unues"), "push", State("dead (rejected)"), Minor("1"), Minor("guid-1"), "-",
		"rejected: the database is locked and stays so")
	t.Row(at(24, 2), ID("2-x"), "日本語", State("done"), Minor("1"), Minor("guid-2"), "-", "")
	return t
}

func text(t *testing.T, of *Table) string {
	t.Helper()
	var b strings.Builder
	if err := of.Write(&b); err != nil {
		t.Error(err)
	}
	return b.String()
}

// TestAPersonGetsRowsThatFit: short, without columns that say nothing, and with the longest cut.
func TestAPersonGetsRowsThatFit(t *testing.T) {
	t.Parallel()
	list := sample()
	for width, want := range map[int]string{
		120: `
ACCEPTED          EVENT     TYPE    STATE            WHY
2026-11-23 08:00  1-lbgnhg  push    dead (rejected)  rejected: the database is locked and stays so
08:00:02          2-x       日本語  done
`,
		70: `
ACCEPTED          EVENT     TYPE    STATE            WHY
2026-11-23 08:00  1-lbgnhg  push    dead (rejected)  rejected: the da…
08:00:02          2-x       日本語  done
`,
		1: `
ACCEPTED          EVENT     TYPE  STA…  WHY
2026-11-23 08:00  1-lbgnhg  push  dea…  rej…
08:00:02          2-x       日…   done
`,
	} {
		list.Width = width
		list.Cut = false
		if got := "\n" + text(t, list); got != want || list.Cut != strings.Contains(want, "…") {
			t.Errorf("%d columns:%s", width, got)
		}
	}
}

// TestEverythingIsInAWideList, and in what is not a terminal.
func TestEverythingIsInAWideList(t *testing.T) {
	t.Parallel()
	list := sample()
	at := list.rows[0][0].(time.Time).Format(time.RFC3339)
	want := "\n" + at + "  1-lbgnhgnkai0unues  push    dead (rejected)  1        guid-1  -     rejected: the " +
		"database is locked and stays so\n"
	if got := text(t, list); !strings.Contains(got, want) {
		t.Error(got)
	}
	if got := text(t, &Table{Heads: list.Heads}); got != "" {
		t.Errorf("without rows: %q", got)
	}
}

// TestStatesHaveColours, which take no place.
func TestStatesHaveColours(t *testing.T) {
	t.Parallel()
	list := sample()
	list.Width = 70
	plain := text(t, list)
	list.Colour = true
	coloured := text(t, list)
	stripped := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[0m", "").Replace(coloured)
	if stripped != plain || !strings.Contains(coloured, "\x1b[31mdead (rejected)\x1b[0m") {
		t.Errorf("%q", coloured)
	}
}

// TestNamesAreNotCut: the first column says which row it is.
func TestNamesAreNotCut(t *testing.T) {
	t.Parallel()
	list := &Table{Width: 30}
	list.Row("a-name-of-a-handler", "runs since yesterday")
	if got := text(t, list); got != "a-name-of-a-handler  runs sin…\n" {
		t.Errorf("%q", got)
	}
}
