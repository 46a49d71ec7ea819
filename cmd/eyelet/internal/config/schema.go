package config

import (
	_ "embed" // settings.txt
	"maps"
	"reflect"
	"slices"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

//go:embed settings.txt
var settingsText string

type object = conf.Object

// Schema returns the JSON Schema (draft 2020-12) of eyelet.yaml, for editors. It knows the names of
// settings and the forms of their values, and less than `config check`: which settings go together
// is not in it.
func Schema() map[string]any {
	s := conf.NewSchema(conf.Describe(settingsText), reflect.TypeFor[Settings]().PkgPath())
	s.Defs["rate"] = conf.OrVariable(object{
		"type": []any{"integer", "string"}, "pattern": `^ *[0-9]+ */ *[smh] *( burst [0-9]+)?$`,
	})
	s.Forms = map[reflect.Type]func() object{
		reflect.TypeFor[producer.Rate](): func() object { return conf.Ref("rate") },
		reflect.TypeFor[rememberSetting](): func() object {
			remember := s.Structs(reflect.TypeFor[rememberSetting]())
			return object{"anyOf": []any{object{"const": "off"}, object{"const": false}, remember}}
		},
		reflect.TypeFor[Producer]():    func() object { return producerSchema(s) },
		reflect.TypeFor[schemeEntry](): func() object { return byScheme(s, "entry", nil) },
	}
	root := s.Of(reflect.TypeFor[Settings]())
	delete(conf.Members(conf.Members(root)["operations_tls"]), "ca_file") // clients have tokens there
	maps.Copy(root, object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "eyelet.yaml", "$defs": s.Defs,
	})
	return root
}

// producerSchema has the settings of a preset, or those of one scheme, and the common ones.
func producerSchema(s *conf.Schema) object {
	common := reflect.TypeFor[commonSettings]()
	form := byScheme(s, "producer", []reflect.Type{reflect.TypeFor[kindSettings](), common})
	var names []any
	for _, vendor := range preset.All() {
		names = append(names, vendor.Name)
	}
	vendor := s.Structs(reflect.TypeFor[preset.Settings](), reflect.TypeFor[kindSettings](), common)
	own := object{"type": "string"} // of the file presets
	vendor["properties"].(object)["preset"] = object{"anyOf": []any{object{"enum": names}, own}}
	delete(vendor["properties"].(object), "name") // the word before the settings
	vendor["required"] = []any{"preset"}
	s.Defs["preset"] = vendor
	form["if"], form["then"] = object{"required": []any{"preset"}}, conf.Ref("preset")
	form["else"] = object{"required": []any{"scheme"}}
	return form
}

// byScheme is the schema of a mapping whose settings depend on its scheme.
func byScheme(s *conf.Schema, kind string, more []reflect.Type) object {
	var forms, names []any
	for _, name := range schemeNames() {
		def := kind + "-" + name
		names = append(names, name)
		forms = append(forms, object{
			"if":   object{"required": []any{"scheme"}, "properties": object{"scheme": object{"const": name}}},
			"then": conf.Ref(def),
		})
		if s.Defs[def] == nil {
			s.Defs[def] = object{} // schemes are within schemes
			of := reflect.TypeOf(newSettings[name]()).Elem()
			s.Defs[def] = s.Structs(append(slices.Clone(more), of, reflect.TypeFor[kindSettings]())...)
		}
	}
	return object{
		"type": "object", "allOf": forms,
		"properties": object{"scheme": object{"enum": names}, "preset": object{"type": "string"}},
	}
}
