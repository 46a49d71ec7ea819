package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// violation returns where a value violates a schema, "" if it does not. It knows the keywords that
// [Schema] uses, and fails the test with others.
func violation(t *testing.T, root, form map[string]any, v any, path string) string {
	t.Helper()
	check := func(form any, v any, path string) string { return violation(t, root, form.(map[string]any), v, path) }
	for _, key := range slices.Sorted(maps.Keys(form)) {
		bad := ""
		switch arg := form[key]; key {
		case "$schema", "title", "description", "$defs", "then", "else":
		case "$ref":
			name := strings.TrimPrefix(arg.(string), "#/$defs/")
			bad = check(root["$defs"].(map[string]any)[name], v, path)
		case "type":
			if list, ok := arg.([]any); ok && !slices.Contains(list, any(kindOf(v))) || !ok && arg != kindOf(v) {
				bad = fmt.Sprintf("%s is %s, want %v", path, kindOf(v), arg)
			}
		case "const":
			if v != arg {
				bad = fmt.Sprintf("%s is %v, want %v", path, v, arg)
			}
		case "enum":
			if !slices.Contains(arg.([]any), v) {
				bad = fmt.Sprintf("%s is %v, which is not in the list", path, v)
			}
		case "pattern":
			if s, ok := v.(string); ok && !regexp.MustCompile(arg.(string)).MatchString(s) {
				bad = fmt.Sprintf("%s is %q, want %s", path, s, arg)
			}
		case "required":
			members, ok := v.(map[string]any)
			for _, name := range arg.([]any) {
				if _, has := members[name.(string)]; ok && !has {
					bad = fmt.Sprintf("%s lacks %s", path, name)
				}
			}
		case "properties", "additionalProperties":
			bad = membersViolation(form, v, path, key, check)
		case "items":
			list, _ := v.([]any)
			for i, item := range list {
				bad += check(arg, item, fmt.Sprintf("%s[%d]", path, i))
			}
		case "allOf":
			for _, one := range arg.([]any) {
				bad += check(one, v, path)
			}
		case "anyOf":
			all := ""
			for _, one := range arg.([]any) {
				why := check(one, v, path)
				if all += why + " "; why == "" {
					all = ""
					break
				}
			}
			bad = all
		case "if":
			next := form["then"]
			if check(arg, v, path) != "" {
				next = form["else"]
			}
			if next != nil {
				bad = check(next, v, path)
			}
		default:
			t.Fatalf("the schema uses %s, which this test does not know", key)
		}
		if bad != "" {
			return bad
		}
	}
	return ""
}

func membersViolation(
	form map[string]any, v any, path, key string, check func(form, v any, path string) string,
) string {
	members, _ := v.(map[string]any)
	known, _ := form["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		inner, has := known[name]
		switch rest := form["additionalProperties"]; {
		case has && key == "properties":
			if bad := check(inner, members[name], path+"."+name); bad != "" {
				return bad
			}
		case has || key == "properties":
		case rest == false:
			return path + " has the unknown member " + name
		default:
			if bad := check(rest, members[name], path+"."+name); bad != "" {
				return bad
			}
		}
	}
	return ""
}

// kindOf is the JSON type of a value.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// parsed returns YAML as JSON has it.
func parsed(text string) (v any, ok bool) {
	var doc any
	if yaml.Unmarshal([]byte(text), &doc) != nil {
		return nil, false
	}
	data, err := json.Marshal(doc)
	return v, err == nil && json.Unmarshal(data, &v) == nil
}

func schemaAsJSON(t *testing.T) (root map[string]any) {
	t.Helper()
	data, err := json.Marshal(Schema())
	check(t, err)
	check(t, json.Unmarshal(data, &root))
	return root
}

// TestTheSchemaAcceptsEveryExample takes the examples of the documentation and the configurations
// of the tests and examples.
func TestTheSchemaAcceptsEveryExample(t *testing.T) {
	t.Parallel()
	root := schemaAsJSON(t)
	settings := settingsOf(reflect.TypeFor[Settings]())
	texts := map[string]string{}
	const up = "../../../../"
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		files, _ := filepath.Glob(up + pattern)
		for _, file := range files {
			page, err := os.ReadFile(file)
			check(t, err)
			for i, block := range strings.Split(string(page), "```yaml\n")[1:] {
				text, _, _ := strings.Cut(block, "```")
				texts[fmt.Sprintf("%s, example %d", file, i+1)] = text
			}
		}
	}
	for _, pattern := range []string{
		"examples/*/eyelet.yaml", "testdata/*.yaml", "testdata/presets/*.yaml", "ops/kustomize/eyelet.yaml",
		"cmd/eyelet/testdata/planted/*.yaml", "bench/*.yaml",
	} {
		files, _ := filepath.Glob(up + pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			check(t, err)
			texts[file] = string(text)
		}
	}
	seen := 0
	for name, text := range texts {
		v, ok := parsed(text)
		members, isMapping := v.(map[string]any)
		if !ok || !isMapping {
			continue
		}
		ours := true
		for member := range members {
			_, known := settings[member]
			ours = ours && (known || strings.HasSuffix(member, "_file"))
		}
		if !ours {
			t.Logf("%s is not a configuration", name)
			continue
		}
		seen++
		if bad := violation(t, root, root, v, "eyelet.yaml"); bad != "" {
			t.Errorf("%s: %s", name, bad)
		}
	}
	if seen < 15 {
		t.Errorf("only %d examples were found", seen)
	}
}

func TestTheSchemaRefusesMistakes(t *testing.T) {
	t.Parallel()
	root := schemaAsJSON(t)
	for text, want := range map[string]string{
		"listn: :8080":                              "unknown member listn",
		"limits: {max_body: lots}":                  "max_body",
		"limits: {workers: many}":                   "workers",
		"limits: {drain: 5 minutes}":                "drain",
		"http2: maybe":                              "http2",
		"producers: [a]":                            "producers",
		"producers: {gh: {scheme: hmax}}":           "scheme",
		"producers: {gh: {secret: x}}":              "lacks scheme",
		"producers: {gh: {scheme: jwt, secret: x}}": "unknown member secret",
		"handlers: {producer: gh}":                  "handlers",
		"handlers: [{producer: gh, typ: x}]":        "unknown member typ",
		"tls: {cert_file: [a]}":                     "cert_file",
		"producers: {a: {scheme: all, schemes: [{scheme: hmac, pin: 1}]}}": "unknown member pin",
	} {
		v, ok := parsed(text)
		if !ok {
			t.Fatalf("%s is not YAML", text)
		}
		if bad := violation(t, root, root, v, "eyelet.yaml"); !strings.Contains(bad, want) {
			t.Errorf("%s: %q, want %q", text, bad, want)
		}
	}
	for _, text := range []string{
		"listen: ${LISTEN}\nlimits: {workers: \"${N}\", drain: \"${D}\", max_body: 65536}", "refused: off",
		"producers: {gh: {preset: github, secret_file: [a, b]}, s: {scheme: hmac, secret_file: a, rate: 5/s}}",
		"producers:\nhandlers:\n",
	} {
		v, _ := parsed(text)
		if bad := violation(t, root, root, v, "eyelet.yaml"); bad != "" {
			t.Errorf("%s: %s", text, bad)
		}
	}
}
