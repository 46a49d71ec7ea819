package board

import (
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
)

// lines returns how many lines there are between the title and the two lines at the end.
func (m Model) lines() int { return max(1, m.height-3) }

// View implements [tea.Model].
func (m Model) View() string {
	if m.width == 0 {
		return "" // the size of the terminal is not known yet
	}
	var shown []string
	help := m.Help
	switch {
	case m.text != nil:
		all := m.wrapped()
		shown = all[m.top:min(len(all), m.top+m.lines())]
		help = "↑↓ move  q back"
	case len(m.rows) == 0:
		shown = m.wrap(strings.Split(m.About, "\n"))
		shown = shown[:min(len(shown), m.lines())]
	default:
		shown = m.list()
	}
	for len(shown) < m.lines() {
		shown = append(shown, "")
	}
	note := m.note
	if m.typing {
		note = "filter: " + m.filter + "▏"
	} else if note == "" && m.filter != "" {
		note = "only rows with " + m.filter + "; / changes it, esc shows all"
	}
	return table.Fit(m.Title, m.width) + "\n" + strings.Join(shown, "\n") + "\n" + table.Fit(note, m.width) + "\n" +
		m.paint("2", table.Fit(help, m.width))
}

// list returns the head and the rows around the selected one.
func (m Model) list() []string {
	all := m.matching()
	n := max(1, m.lines()-1)
	first := max(0, min(m.selected-n/2, len(all)-n))
	list := table.Table{Heads: append([]string{" "}, m.Heads...), Width: m.width, Now: m.Now()}
	for i := first; i < min(len(all), first+n); i++ {
		mark := " "
		if i == m.selected {
			mark = "›"
		}
		list.Row(append([]any{mark}, all[i].Cells...)...)
	}
	var b strings.Builder
	_ = list.Write(&b) // a Builder never fails
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := range lines[1:] {
		row := all[first+i]
		switch {
		case first+i == m.selected:
			lines[i+1] = m.paint("7", lines[i+1])
		case row.Bad:
			lines[i+1] = m.paint("31", lines[i+1])
		}
	}
	return lines
}

// paint returns a text in a colour, an SGR code.
func (m Model) paint(code, text string) string {
	if !m.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// wrapped returns the text of an action in lines that fit.
func (m Model) wrapped() []string { return m.wrap(m.text) }

func (m Model) wrap(lines []string) (all []string) {
	for _, line := range lines {
		line = strings.ReplaceAll(line, "\t", "    ")
		for m.width > 1 && table.Width(line) > m.width {
			part := strings.TrimSuffix(table.Fit(line, m.width+1), "…")
			all, line = append(all, part), line[len(part):]
		}
		all = append(all, line)
	}
	return all
}
