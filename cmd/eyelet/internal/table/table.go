// Package table lays out the lists of the commands.
package table

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"
)

// Table is a list. With a Width it is for a person: times are local, ids short, columns that say
// nothing are left out, and the longest texts are cut until a row fits, but not the first column.
type Table struct {
	Above  string   // is written first
	Heads  []string // none without names of columns
	Width  int      // of the terminal; 0 writes all values as they are
	Colour bool     // of states
	Now    time.Time
	Cut    bool // Write cut a text

	rows [][]any
}

// Cells are texts, numbers, a time.Time, or of one of these kinds.
type (
	// ID is named by its beginning too.
	ID string
	// State has the colour of its first word.
	State string
	// Minor is left out in a column of nothing else.
	Minor string
)

// shortID is the length of an id that a person reads. Its number is in it, which no other id has.
const shortID = 8

// smallest is the width to which columns are cut.
const smallest = 4

// gap is between columns.
const gap = "  "

// Row adds a row. It may have fewer cells than others.
func (t *Table) Row(cells ...any) { t.rows = append(t.rows, cells) }

// Write writes the rows below their heads, or nothing if there are none.
func (t *Table) Write(w io.Writer) error {
	if len(t.rows) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString(t.Above)
	rows := t.kept()
	widths := t.widths(rows)
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			text := t.text(cell)
			if t.Width > 0 {
				t.Cut = t.Cut || Width(text) > widths[i]
				text = Fit(text, widths[i])
			}
			line.WriteString(t.painted(cell, text))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-Width(text)) + gap)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// kept returns the head and the rows, without columns that say nothing.
func (t *Table) kept() [][]any {
	said := map[int]bool{}
	for _, row := range t.rows {
		for i, cell := range row {
			said[i] = said[i] || t.Width == 0 || says(cell)
		}
	}
	rows := t.rows
	if len(t.Heads) > 0 {
		head := make([]any, len(t.Heads))
		for i, name := range t.Heads {
			head[i] = name
		}
		rows = append([][]any{head}, rows...)
	}
	kept := make([][]any, len(rows))
	for i, row := range rows {
		for j, cell := range row {
			if said[j] {
				kept[i] = append(kept[i], cell)
			}
		}
	}
	return kept
}

func says(cell any) bool {
	_, minor := cell.(Minor)
	return !minor && cell != "" && cell != "-" && cell != ID("-")
}

// widths returns those of the columns. The last cell of a shorter row widens none.
func (t *Table) widths(rows [][]any) []int {
	var widths []int
	var texts []bool // columns that may be cut
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, texts = append(widths, 0), append(texts, false)
			}
			if i < len(row)-1 || len(row) == len(rows[0]) {
				widths[i] = max(widths[i], Width(t.text(cell)))
			}
		}
	}
	for _, row := range rows[min(1, len(t.Heads)):] {
		for i, cell := range row {
			switch cell.(type) {
			case string, State, Minor:
				texts[i] = true
			}
		}
	}
	for t.Width > 0 && total(widths) > t.Width {
		widest := -1
		for i, n := range widths {
			if i > 0 && texts[i] && n > smallest && (widest < 0 || n >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

func total(widths []int) int {
	n := len(gap) * (len(widths) - 1)
	for _, w := range widths {
		n += w
	}
	return n
}

// text returns a cell as it is, or for a person.
func (t *Table) text(cell any) string {
	switch v := cell.(type) {
	case time.Time:
		return t.Time(v)
	case ID:
		if t.Width > 0 {
			return string(v[:min(len(v), shortID)])
		}
	}
	return fmt.Sprint(cell)
}

// Time returns a time as in cells: local for a person, with its date if that is not today.
func (t *Table) Time(at time.Time) string {
	if t.Width == 0 {
		return at.Format(time.RFC3339)
	}
	at = at.Local()
	if at.Format(time.DateOnly) == t.Now.Local().Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format("2006-01-02 15:04")
}

// colours are the SGR codes of states.
var colours = map[string]string{
	"done": "32", "on": "32", "runs": "32", "dead": "31",
	"pending": "33", "running": "33", "again": "33", "off": "33", "paused": "33",
}

// painted returns the text of a cell in its colour.
func (t *Table) painted(cell any, text string) string {
	state, ok := cell.(State)
	word, _, _ := strings.Cut(string(state), " ")
	if code := colours[word]; ok && t.Colour && code != "" {
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	return text
}

// Width returns how many columns of a terminal a text takes.
func Width(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch kind := width.LookupRune(r).Kind(); {
	case unicode.Is(unicode.Mn, r):
		return 0
	case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Fit returns a text, or its beginning and an ellipsis where it is wider than n columns.
func Fit(text string, n int) string {
	if Width(text) <= n {
		return text
	}
	used := 1 // the ellipsis
	for i, r := range text {
		if used += runeWidth(r); used > n {
			return text[:i] + "…"
		}
	}
	return text
}
