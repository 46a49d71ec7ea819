package conf

import (
	"maps"
	"reflect"
	"strings"
)

// Row describes one or more settings.
type Row struct {
	Names             []string // "tls.cert_file" is a member of the setting tls
	Default, Sentence string   // the default in words, and what the settings do
}

// Describe reads descriptions of settings. In brackets is the name of a section, which is a struct.
// Each line below has the names of settings, the default, and a sentence, with bars between them.
func Describe(text string) map[string][]Row {
	sections, section := map[string][]Row{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
		} else if names, rest, ok := strings.Cut(line, " | "); ok {
			fallback, sentence, _ := strings.Cut(rest, "| ")
			row := Row{strings.Split(names, ", "), strings.TrimSpace(fallback), sentence}
			sections[section] = append(sections[section], row)
		}
	}
	return sections
}

// describe adds the descriptions of a struct to the schemas of its settings.
func (s *Schema) describe(settings Object, t reflect.Type) {
	for i := range t.NumField() {
		if t.Field(i).Anonymous {
			s.describe(settings, t.Field(i).Type)
		}
	}
	section := t.Name()
	if t.PkgPath() != s.Home {
		section = t.String() // such as preset.Settings
	}
	for _, row := range s.Rows[section] {
		for _, name := range row.Names {
			outer, inner, isMember := strings.Cut(name, ".")
			if isMember {
				describe(Members(settings[outer]), inner, row.Sentence)
			} else {
				describe(settings, name, row.Sentence)
			}
		}
	}
}

// describe adds a description to a setting and to its variants with a file.
func describe(settings Object, name, sentence string) {
	for _, suffix := range []string{"", "_file"} {
		form, ok := settings[name+suffix].(Object)
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

// Members returns the members of a setting, which may also be a single value.
func Members(form any) Object {
	Mapping, _ := form.(Object)
	if found, ok := Mapping["properties"].(Object); ok {
		return found
	}
	forms, _ := Mapping["anyOf"].([]any)
	for _, one := range forms {
		if found := Members(one); found != nil {
			return found
		}
	}
	return nil
}
