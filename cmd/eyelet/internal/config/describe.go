package config

import (
	_ "embed" // settings.txt
	"maps"
	"reflect"
	"strings"
)

//go:embed settings.txt
var settingsText string

// settingRow describes one or more settings.
type settingRow struct {
	names              []string // "tls.cert_file" is a member of the setting tls
	fallback, sentence string   // the default in words, and what the settings do
}

// settingRows returns the descriptions in settings.txt by section.
func settingRows() map[string][]settingRow {
	sections, section := map[string][]settingRow{}, ""
	for line := range strings.Lines(settingsText) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
		} else if names, rest, ok := strings.Cut(line, " | "); ok {
			fallback, sentence, _ := strings.Cut(rest, "| ")
			row := settingRow{strings.Split(names, ", "), strings.TrimSpace(fallback), sentence}
			sections[section] = append(sections[section], row)
		}
	}
	return sections
}

// describe adds the descriptions of a struct to the schemas of its settings.
func (s *schema) describe(settings object, t reflect.Type) {
	for i := range t.NumField() {
		if t.Field(i).Anonymous {
			s.describe(settings, t.Field(i).Type)
		}
	}
	section := t.Name()
	if t.PkgPath() != reflect.TypeFor[Settings]().PkgPath() {
		section = t.String() // such as preset.Settings
	}
	for _, row := range s.rows[section] {
		for _, name := range row.names {
			outer, inner, isMember := strings.Cut(name, ".")
			if isMember {
				describe(members(settings[outer]), inner, row.sentence)
			} else {
				describe(settings, name, row.sentence)
			}
		}
	}
}

// describe adds a description to a setting and to its variants with a file.
func describe(settings object, name, sentence string) {
	for _, suffix := range []string{"", "_file", "_files"} {
		form, ok := settings[name+suffix].(object)
		if !ok {
			continue
		}
		form = maps.Clone(form) // references and definitions are shared
		form["description"] = sentence
		if suffix != "" {
			form["description"] = "In a file: " + sentence
		}
		settings[name+suffix] = form
	}
}

// members returns the members of a setting, which may also be a single value.
func members(form any) object {
	mapping, _ := form.(object)
	if found, ok := mapping["properties"].(object); ok {
		return found
	}
	forms, _ := mapping["anyOf"].([]any)
	for _, one := range forms {
		if found := members(one); found != nil {
			return found
		}
	}
	return nil
}
