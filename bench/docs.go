package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed performance.md.tmpl
var pageSource string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"join": strings.Join, "table": markdown,
}).Parse(pageSource))

// writeDocs writes the results as performance.md, performance.svg and performance.json.
func writeDocs(dir string, r *results) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	md, err := r.page()
	if err != nil {
		return err
	}
	write := func(ending string, content []byte) error {
		return os.WriteFile(filepath.Join(dir, "performance."+ending), content, 0o644)
	}
	return errors.Join(write("json", append(text, '\n')), write("md", md), write("svg", r.plot()))
}

// page returns the results as Markdown.
func (r *results) page() ([]byte, error) {
	var b bytes.Buffer
	err := page.Execute(&b, r)
	return append(bytes.TrimSpace(b.Bytes()), '\n'), err
}

// Receivers returns a table of what each receiver does.
func (r *results) Receivers() [][]string {
	rows := [][]string{{"receiver", "what it is"}}
	for _, d := range descriptions {
		for _, m := range r.Workloads {
			if len(m.Rounds) > 0 && m.Rounds[0][d.name] != (figures{}) {
				rows = append(rows, []string{"`" + d.name + "`", d.what})
				break
			}
		}
	}
	return rows
}

// Medians returns the medians of all workloads as one table, without the time of Redis, the
// allocations and the time of the drain.
func (r *results) Medians() [][]string {
	var rows [][]string
	for _, m := range r.Workloads {
		if len(m.Rounds) == 0 {
			continue
		}
		for i, row := range m.Table() {
			title := m.Title
			switch {
			case i == 0 && len(rows) > 0:
				continue
			case i == 0:
				title = "workload"
			case i > 1:
				title = ""
			}
			rows = append(rows, append([]string{title}, slices.Concat(row[:5], row[7:8])...))
		}
	}
	return rows
}

// Goals returns the goals without the stretch goals.
func (r *results) Goals() [][]string {
	rows := r.GoalRows()
	for i, row := range rows {
		rows[i] = row[:4]
	}
	return rows
}

// markdown writes a table, whose first row holds the titles.
func markdown(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		if row[0] == "" {
			b.WriteString("| ")
		}
		b.WriteString(strings.Join(row, " | ") + "\n")
		if i == 0 {
			b.WriteString("---" + strings.Repeat("|---", len(row)-1) + "\n")
		}
	}
	return b.String()
}
