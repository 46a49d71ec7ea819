package board

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

var update = flag.Bool("update", false, "write the golden files")

// model returns a list with rows, of a terminal with so many columns and 12 lines.
func model(columns, rows int) Model {
	at := time.Date(2026, 11, 30, 8, 0, 0, 0, time.Local)
	m := Model{
		Title: "listen → http://localhost:3000", About: "forwarding to http://localhost:3000\nsecret: tea",
		Help:  "q end",
		Heads: []string{"TIME", "TYPE", "OUTCOME"}, Now: func() time.Time { return at },
		Keys: map[string]Action{"d": func(item any) Shown {
			if item == nil {
				return Shown{Note: "nothing"}
			}
			return Shown{Text: fmt.Sprintf("details of %v\n", item) + strings.Repeat("a long line that wraps ", 6) +
				strings.Repeat("\nline", 20)}
		}},
	}
	m = with(m, tea.WindowSizeMsg{Width: columns, Height: 12})
	for i := range rows {
		name := fmt.Sprintf("row-%d", i)
		m = with(m, Row{Item: i, Bad: i%3 == 0, Text: name, Cells: []any{at, name, "forwarded: " +
			strings.Repeat("tea ", 3*i)}})
	}
	return m
}

// with returns the model after messages, and after what their commands send.
func with(m Model, all ...tea.Msg) Model {
	for _, msg := range all {
		next, cmd := m.Update(msg)
		m = next.(Model)
		if cmd != nil {
			if shown, ok := cmd().(Shown); ok {
				m = with(m, shown)
			}
		}
	}
	return m
}

// pressed returns the model after keys: the names of special ones, or characters.
func pressed(m Model, keys ...string) Model {
	special := map[string]tea.KeyType{"up": tea.KeyUp, "down": tea.KeyDown, "enter": tea.KeyEnter, "esc": tea.KeyEsc,
		"home": tea.KeyHome, "end": tea.KeyEnd, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "back": tea.KeyBackspace}
	for _, key := range keys {
		msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(key)}
		if kind, ok := special[key]; ok {
			msg = tea.KeyMsg{Type: kind}
		}
		m = with(m, msg)
	}
	return m
}

// TestViewsAreAsInTheirFiles at two widths.
func TestViewsAreAsInTheirFiles(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{80, 120} {
		for name, m := range map[string]Model{
			"empty": model(columns, 0), "list": model(columns, 20),
			"moved":   pressed(model(columns, 20), "home", "down"),
			"filter":  pressed(model(columns, 20), "/", "row-1", "8"),
			"details": pressed(model(columns, 3), "d"), "scrolled": pressed(model(columns, 3), "d", "end", "up"),
		} {
			file := fmt.Sprintf("testdata/%s-%d.txt", name, columns)
			view := m.View() + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(view), 0o600); err != nil {
					t.Error(err)
				}
			}
			if want, err := os.ReadFile(file); err != nil || view != string(want) {
				t.Errorf("%s, %v:\n%s", file, err, view)
			}
		}
	}
}

// TestTheSelectionFollowsNewRows until it is moved, and stays in the list.
func TestTheSelectionFollowsNewRows(t *testing.T) {
	t.Parallel()
	m := model(80, 3)
	for _, step := range []struct {
		key  string
		want int
	}{
		{"up", 1}, {"up", 0}, {"up", 0}, {"end", 2}, {"down", 2}, {"pgup", 0}, {"pgdown", 2}, {"home", 0}, {"jj", 2},
		{"k", 1},
	} {
		if m = pressed(m, step.key); m.selected != step.want {
			t.Errorf("after %s row %d is selected, want %d", step.key, m.selected, step.want)
		}
	}
	if m = with(m, Row{Item: 3}); m.selected != 1 {
		t.Errorf("a new row selects %d", m.selected)
	}
	if m = with(pressed(m, "G"), Row{Item: 4}); m.selected != 4 {
		t.Errorf("the newest row is not selected: %d", m.selected)
	}
	for i := range maxRows {
		m = with(m, Row{Item: i})
	}
	if len(m.rows) != maxRows || m.selected != maxRows-1 {
		t.Errorf("%d rows, %d selected", len(m.rows), m.selected)
	}
}

// TestARowWithAKeyTakesThePlaceOfTheEarlier one.
func TestARowWithAKeyTakesThePlaceOfTheEarlier(t *testing.T) {
	t.Parallel()
	m := with(model(80, 0), Row{Key: "a", Item: 1}, Row{Item: 2}, Row{Item: 3}, Row{Key: "a", Item: 4})
	if len(m.rows) != 3 || m.rows[0].Item != 4 {
		t.Errorf("%+v", m.rows)
	}
}

// TestKeysAreLettersOfAFilter while it is typed, and actions else.
func TestKeysAreLettersOfAFilter(t *testing.T) {
	t.Parallel()
	m := pressed(model(80, 20), "/", "d", "q", "back", "back", "ROW-1", "enter")
	if m.filter != "ROW-1" || m.typing || len(m.matching()) != 11 || m.text != nil {
		t.Errorf("filter %q, %d rows", m.filter, len(m.matching()))
	}
	if m = pressed(m, "home", "d"); m.text == nil || m.text[0] != "details of 1" {
		t.Errorf("%q", m.text)
	}
	if m = pressed(m, "q", "esc"); m.text != nil || m.filter != "" {
		t.Errorf("%q, filter %q", m.text, m.filter)
	}
	if m = pressed(model(80, 0), "d"); m.note != "nothing" {
		t.Errorf("without a row: %q", m.note)
	}
	if _, cmd := m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("q")}); cmd == nil || cmd() != tea.Quit() {
		t.Error("q does not end")
	}
	if _, cmd := pressed(m, "/").Update(tea.KeyMsg{Type: tea.KeyCtrlC}); cmd == nil || cmd() != tea.Quit() {
		t.Error("an interrupt does not end")
	}
}

// TestColoursAreOfTheSelectedRowAndOfBadOnes only.
func TestColoursAreOfTheSelectedRowAndOfBadOnes(t *testing.T) {
	t.Parallel()
	m := model(80, 5)
	m.Colour = true
	view := m.View()
	if strings.Count(view, "\x1b[31m") != 2 || strings.Count(view, "\x1b[7m") != 1 {
		t.Errorf("%q", view)
	}
}
