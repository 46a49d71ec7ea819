package conf

import "reflect"

// Object is a JSON object of a schema.
type Object = map[string]any

// Schema collects the definitions of a JSON Schema (draft 2020-12) that several settings share.
type Schema struct {
	Defs Object
	Rows map[string][]Row // of the structs, those of other packages than Home with the package
	Home string           // the path of a package
	// Forms are the schemas of types that decode themselves.
	Forms map[reflect.Type]func() Object
}

// NewSchema returns a schema with the definitions of single values.
func NewSchema(rows map[string][]Row, home string) *Schema {
	return &Schema{Defs: scalars(), Rows: rows, Home: home}
}

// fromVariable is a value that an environment variable has. Any single value may be one.
var fromVariable = Object{"type": "string", "pattern": `\$\{[A-Za-z_][A-Za-z0-9_]*\}`}

// OrVariable is a single value of a type and a form.
func OrVariable(form Object) Object { return Object{"anyOf": []any{form, fromVariable}} }

// scalars are the forms of single values that many settings have.
func scalars() Object {
	return Object{
		"number":   OrVariable(Object{"type": "integer"}),
		"duration": OrVariable(Object{"type": "string", "pattern": `^([0-9]+d|([0-9.]+(ns|us|µs|ms|s|m|h))+|0)$`}),
		"size":     OrVariable(Object{"type": []any{"integer", "string"}, "pattern": `^[0-9]+ *([KMG]iB|kB|MB|GB)?$`}),
		"truth":    OrVariable(Object{"type": "boolean"}),
		"text":     Object{"type": []any{"string", "number", "boolean"}}, // YAML reads 8080 as a number
	}
}

// Ref refers to a definition.
func Ref(name string) Object { return Object{"$ref": "#/$defs/" + name} }

// Of returns the schema of a type, as [Decoder.Decode] reads it.
func (s *Schema) Of(t reflect.Type) Object {
	switch t {
	case durationType:
		return Ref("duration")
	case prefixType, timeType:
		return Ref("text")
	}
	if form := s.Forms[t]; form != nil {
		return form()
	}
	if words := wordsOf(t); len(words) > 0 {
		return oneOf(words)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.Of(t.Elem())
	case reflect.Map:
		return Object{"type": "object", "additionalProperties": s.Of(t.Elem())}
	case reflect.Struct:
		if _, short, ok := shortOf(reflect.New(t).Elem()); ok { // off is false in YAML
			return Object{"anyOf": []any{s.Structs(t), s.Of(short.Type()), Object{"type": "boolean"}}}
		}
		return s.Structs(t)
	case reflect.Slice:
		return s.list(t.Elem())
	case reflect.Bool:
		return Ref("truth")
	case reflect.Int:
		return Ref("number")
	case reflect.Int64:
		return Ref("size")
	}
	return Ref("text")
}

// oneOf is the schema of a word.
func oneOf(words []string) Object {
	all := []any{}
	for _, word := range words {
		if all = append(all, word); word == "off" {
			all = append(all, false) // as older YAML reads it
		}
	}
	return OrVariable(Object{"enum": all})
}

// list is the schema of a list of elements: a mapping by their names if they have some. A single
// text may be written without a list.
func (s *Schema) list(elem reflect.Type) Object {
	if _, ok := reflect.New(elem).Interface().(named); ok {
		return Object{"type": []any{"object", "null"}, "additionalProperties": s.Of(elem)}
	}
	list := Object{"type": []any{"array", "null"}, "items": s.Of(elem)}
	if isText(elem) {
		return Object{"anyOf": []any{Ref("text"), list}}
	}
	return list
}

// Structs is the schema of a mapping with the settings of structs.
func (s *Schema) Structs(types ...reflect.Type) Object {
	settings := Object{}
	for _, t := range types {
		for name, f := range fieldsOf(reflect.New(t).Elem()) {
			if settings[name] = s.Of(f.value.Type()); f.words() != nil {
				settings[name] = oneOf(f.words())
			}
			if f.inFile() && f.value.Kind() != reflect.Map {
				settings[name+"_file"] = Object{"anyOf": []any{Ref("text"), s.list(reflect.TypeFor[string]())}}
			}
		}
	}
	for _, t := range types {
		s.describe(settings, t)
	}
	return Object{"type": []any{"object", "null"}, "additionalProperties": false, "properties": settings}
}
