package config

import (
	"maps"
	"reflect"
	"slices"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// Schema returns the JSON Schema (draft 2020-12) of eyelet.yaml, for editors. It knows the names of
// settings and the forms of their values, and less than `config check`: which settings go together
// is not in it.
func Schema() map[string]any {
	s := &schema{defs: scalars(), rows: settingRows()}
	root := s.of(reflect.TypeFor[Settings]())
	delete(members(members(root)["operations_tls"]), "client_ca_file") // clients have tokens there
	maps.Copy(root, object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "eyelet.yaml", "$defs": s.defs,
	})
	return root
}

type object = map[string]any

// schema collects definitions that several settings share.
type schema struct {
	defs object
	rows map[string][]settingRow
}

// fromVariable is a value that an environment variable has. Any single value may be one.
var fromVariable = object{"type": "string", "pattern": `\$\{[A-Za-z_][A-Za-z0-9_]*\}`}

// orVariable is a single value of a type and a form.
func orVariable(form object) object { return object{"anyOf": []any{form, fromVariable}} }

// scalars are the forms of single values that many settings have.
func scalars() object {
	return object{
		"number":   orVariable(object{"type": "integer"}),
		"duration": orVariable(object{"type": "string", "pattern": `^([0-9]+d|([0-9.]+(ns|us|µs|ms|s|m|h))+|0)$`}),
		"size":     orVariable(object{"type": []any{"integer", "string"}, "pattern": `^[0-9]+ *([KMG]iB|kB|MB|GB)?$`}),
		"rate":     orVariable(object{"type": []any{"integer", "string"}, "pattern": `^ *[0-9]+ *(/ *[smh] *)?$`}),
		"truth":    orVariable(object{"type": "boolean"}),
		"text":     object{"type": []any{"string", "number", "boolean"}}, // YAML reads 8080 as a number
	}
}

// ref refers to a definition.
func ref(name string) object { return object{"$ref": "#/$defs/" + name} }

// of returns the schema of a type, as [decoder.decode] reads it.
func (s *schema) of(t reflect.Type) object {
	switch t {
	case durationType:
		return ref("duration")
	case prefixType:
		return ref("text")
	case reflect.TypeFor[producer.Rate]():
		return ref("rate")
	case timeType:
		return ref("text")
	case reflect.TypeFor[rememberSetting]():
		return object{"anyOf": []any{object{"const": "off"}, object{"const": false}, s.structs(t)}}
	case reflect.TypeFor[Producer]():
		return s.producer()
	case reflect.TypeFor[schemeEntry]():
		return s.byScheme("entry", nil)
	}
	if words := wordsOf(t); len(words) > 0 {
		all := []any{}
		for _, word := range words {
			if all = append(all, word); word == "off" {
				all = append(all, false) // as older YAML reads it
			}
		}
		return orVariable(object{"enum": all})
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		if _, short, ok := shortOf(reflect.New(t).Elem()); ok { // off is false in YAML
			return object{"anyOf": []any{s.structs(t), s.of(short.Type()), object{"type": "boolean"}}}
		}
		return s.structs(t)
	case reflect.Slice:
		return s.list(t.Elem())
	case reflect.Bool:
		return ref("truth")
	case reflect.Int:
		return ref("number")
	case reflect.Int64:
		return ref("size")
	}
	return ref("text")
}

// list is the schema of a list of elements: a mapping by their names if they have some. A single
// text may be written without a list.
func (s *schema) list(elem reflect.Type) object {
	if _, ok := reflect.New(elem).Interface().(named); ok {
		return object{"type": []any{"object", "null"}, "additionalProperties": s.of(elem)}
	}
	list := object{"type": []any{"array", "null"}, "items": s.of(elem)}
	if isText(elem) {
		return object{"anyOf": []any{ref("text"), list}}
	}
	return list
}

// structs is the schema of a mapping with the settings of structs.
func (s *schema) structs(types ...reflect.Type) object {
	settings := object{}
	for _, t := range types {
		for name, f := range fieldsOf(reflect.New(t).Elem()) {
			settings[name] = s.of(f.value.Type())
			if f.inFile() && f.value.Kind() != reflect.Map {
				settings[name+"_file"] = object{"anyOf": []any{ref("text"), s.list(reflect.TypeFor[string]())}}
				if f.value.Kind() == reflect.Slice {
					settings[name+"_files"] = s.list(reflect.TypeFor[string]())
					settings[trimPlural(name)+"_file"] = settings[name+"_file"]
					settings[trimPlural(name)+"_files"] = settings[name+"_files"]
				}
			}
		}
	}
	for _, t := range types {
		s.describe(settings, t)
	}
	return object{"type": []any{"object", "null"}, "additionalProperties": false, "properties": settings}
}

// trimPlural is for secret_files, which may be written for secrets_files.
func trimPlural(name string) string { return name[:len(name)-1] }

// producer has the settings of a preset, or those of one scheme, and the common ones.
func (s *schema) producer() object {
	common := reflect.TypeFor[commonSettings]()
	form := s.byScheme("producer", []reflect.Type{reflect.TypeFor[kindSettings](), common})
	var names []any
	for _, vendor := range preset.All() {
		names = append(names, vendor.Name)
	}
	first := reflect.TypeFor[struct {
		Secret string `conf:"secret,secret"`
	}]()
	vendor := s.structs(reflect.TypeFor[preset.Settings](), first, reflect.TypeFor[kindSettings](), common)
	vendor["properties"].(object)["preset"] = object{"enum": names}
	delete(vendor["properties"].(object), "name") // the word before the settings
	vendor["required"] = []any{"preset"}
	s.defs["preset"] = vendor
	form["if"], form["then"] = object{"required": []any{"preset"}}, ref("preset")
	form["else"] = object{"required": []any{"scheme"}}
	return form
}

// byScheme is the schema of a mapping whose settings depend on its scheme.
func (s *schema) byScheme(kind string, more []reflect.Type) object {
	var forms, names []any
	for _, name := range schemeNames() {
		def := kind + "-" + name
		names = append(names, name)
		forms = append(forms, object{
			"if":   object{"required": []any{"scheme"}, "properties": object{"scheme": object{"const": name}}},
			"then": ref(def),
		})
		if s.defs[def] == nil {
			s.defs[def] = object{} // schemes are within schemes
			of := reflect.TypeOf(newSettings[name]()).Elem()
			s.defs[def] = s.structs(append(slices.Clone(more), of, reflect.TypeFor[kindSettings]())...)
		}
	}
	return object{
		"type": "object", "allOf": forms,
		"properties": object{"scheme": object{"enum": names}, "preset": object{"type": "string"}},
	}
}
