// Package board is a list on a terminal in which a person moves, and looks at its rows.
package board

import (
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// Row is a row of the list.
type Row struct {
	Key   string // a row takes the place of the one with its key, if it has one
	Cells []any  // of package table
	Item  any    // what the row is of, for actions
	Bad   bool   // needs a look
	Text  string // in which the filter searches
}

// Shown is what an action shows: a note below the list, or a text in its place.
type Shown struct{ Note, Text string }

// Action is done for the selected row, or for nil.
type Action func(item any) Shown

// Model is the state of the list: a [tea.Model].
type Model struct {
	Title  string // the first line
	About  string // is shown while there are no rows
	Help   string // the last line
	Heads  []string
	Colour bool
	Keys   map[string]Action
	Now    func() time.Time

	width, height int
	rows          []Row
	selected      int // of the rows that match
	filter        string
	typing        bool // the filter
	note          string
	text          []string // of an action, in the place of the list
	top           int      // the first line of text that is shown
}

// Note is a message that shows a line below the list.
type Note string

// maxRows bounds the list; the oldest are dropped.
const maxRows = 1000

// Init implements [tea.Model].
func (m Model) Init() tea.Cmd { return nil }

// Update implements [tea.Model]. Its messages are a [Row], a [Note], a [Shown] and those of a
// terminal.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case Row:
		m = m.add(msg)
	case Note:
		m.note = string(msg)
	case Shown:
		m.note = msg.Note
		if msg.Text != "" {
			m.text, m.top = strings.Split(strings.TrimRight(msg.Text, "\n"), "\n"), 0
		}
	case tea.KeyMsg:
		switch {
		case len(msg.Runes) > 1 && !m.typing: // keys that were read at once
			return m.each(msg)
		case msg.String() == "ctrl+c":
			return m, tea.Quit
		case m.typing:
			return m.typed(msg), nil
		case m.text != nil:
			return m.read(msg.String()), nil
		}
		return m.press(msg.String())
	}
	return m, nil
}

// each does what several keys mean.
func (m Model) each(keys tea.KeyMsg) (tea.Model, tea.Cmd) {
	var all []tea.Cmd
	for _, r := range keys.Runes {
		next, cmd := m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
		m, all = next.(Model), append(all, cmd)
	}
	return m, tea.Sequence(all...)
}

// add adds a row. The selection follows the newest row until it is moved up.
func (m Model) add(row Row) Model {
	if i := slices.IndexFunc(m.rows, func(r Row) bool { return row.Key != "" && r.Key == row.Key }); i >= 0 {
		m.rows = slices.Clone(m.rows)
		m.rows[i] = row
		return m.bounded()
	}
	last := m.selected >= len(m.matching())-1
	m.rows = append(slices.Clip(m.rows), row)
	if dropped := len(m.rows) - maxRows; dropped > 0 {
		m.rows = m.rows[dropped:]
	}
	if last {
		m.selected = len(m.matching()) - 1
	}
	return m.bounded()
}

func (m Model) bounded() Model {
	m.selected = max(0, min(m.selected, len(m.matching())-1))
	return m
}

// matching returns the rows that have the text of the filter.
func (m Model) matching() []Row {
	if m.filter == "" {
		return m.rows
	}
	var all []Row
	for _, row := range m.rows {
		if strings.Contains(strings.ToLower(row.Text), strings.ToLower(m.filter)) {
			all = append(all, row)
		}
	}
	return all
}

// typed changes the filter.
func (m Model) typed(key tea.KeyMsg) Model {
	switch key.Type {
	case tea.KeyEnter:
		m.typing = false
	case tea.KeyEsc:
		m.typing, m.filter = false, ""
	case tea.KeyBackspace:
		runes := []rune(m.filter)
		m.filter = string(runes[:max(0, len(runes)-1)])
	case tea.KeyRunes, tea.KeySpace:
		m.filter += string(key.Runes)
	default:
	}
	return m.bounded()
}

// read moves in a text, or closes it.
func (m Model) read(key string) Model {
	last := max(0, len(m.wrapped())-m.lines())
	switch key {
	case "up", "k":
		m.top--
	case "down", "j":
		m.top++
	case "pgup", "b":
		m.top -= m.lines()
	case "pgdown", " ":
		m.top += m.lines()
	case "home", "g":
		m.top = 0
	case "end", "G":
		m.top = last
	case "esc", "q", "enter", "left":
		m.text, m.note = nil, ""
	}
	m.top = max(0, min(m.top, last))
	return m
}

// press moves in the list, or begins an action.
func (m Model) press(key string) (tea.Model, tea.Cmd) {
	all := m.matching()
	switch key {
	case "up", "k":
		m.selected--
	case "down", "j":
		m.selected++
	case "pgup":
		m.selected -= m.lines()
	case "pgdown":
		m.selected += m.lines()
	case "home", "g":
		m.selected = 0
	case "end", "G":
		m.selected = len(all) - 1
	case "/":
		m.typing = true
	case "esc":
		m.filter = ""
	case "q":
		return m, tea.Quit
	}
	m = m.bounded()
	act := m.Keys[key]
	if act == nil {
		return m, nil
	}
	var item any
	if len(all) > 0 {
		item = all[m.selected].Item
	}
	return m, func() tea.Msg { return act(item) }
}
