package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

func TestYAMLErrorsDoNotQuoteSecrets(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"abc${s3cret",
		"abc${s3cret-more}",
		"*s3cret",
		"&s3cret",
		"!s3cret",
		"'s3cret",
		"\"s3cret",
		"@s3cret",
		"%s3cret",
		"`s3cret",
		"{s3cret",
		"[s3cret",
		"|s3cret",
		"!s3cret!x",
		"\"\\s3cret\"",
		"a: s3cret",
	} {
		err := buildText(t, t.TempDir(), "url: http://x\nproducers:\n  gh:\n    preset: github\n"+
			"    secret: "+value+"\n")
		if err == nil {
			continue // a valid secret
		}
		if strings.Contains(withHints(err), "s3cret") {
			t.Errorf("secret: %s is quoted in\n%s", value, withHints(err))
		}
	}
}

func TestErrorsDoNotQuoteSecrets(t *testing.T) {
	t.Parallel()
	const value = "s3cret-Zz%~\\x07 not=any:form"
	secrets := secretNames()
	for _, vendor := range preset.All() {
		for _, name := range vendor.Uses {
			form := "\"" + value + "\""
			switch {
			case name == "keys":
				form = "{id: \"" + value + "\"}"
			case name == "subscriptions":
				form = "[{topic: \"http://x/\", mode: x, secret: \"" + value + "\", token: \"" + value + "\"}]"
			case !slices.Contains(secrets, name):
				continue
			}
			err := buildText(t, t.TempDir(), "url: http://x\nproducers:\n  p:\n"+
				"    preset: "+vendor.Name+"\n    "+name+": "+form+"\n")
			if text := withHints(err); strings.Contains(text, "s3cret") || strings.Contains(text, "Zz%") {
				t.Errorf("preset %s, %s: %s", vendor.Name, name, text)
			}
		}
	}
	for _, encoding := range []string{"raw", "hex", "base64", "whsec"} {
		for _, setting := range []string{
			"secret: \"" + value + "\"",
			"secret: [\"" + value + "\"]",
			"keys: {k: \"" + value + "\"}",
		} {
			err := buildText(t, t.TempDir(), "producers:\n  p: {scheme: hmac, header: [X], pattern: "+
				"[\"{kid}={sig}\"], secret_encoding: "+encoding+", "+setting+"}\n")
			text := withHints(err)
			if strings.Contains(text, "s3cret") || strings.Contains(text, "Zz%") ||
				strings.Contains(text, "invalid byte") {
				t.Errorf("%s %s: %s", encoding, setting, text)
			}
		}
	}
	for _, handler := range []string{
		"forward: \"http://u:s3cret@x y/\"",
		"forward: \"http://u:s3cret@/\"",
		"forward: \"ftp://u:s3cret@h/?k=s3cret\"",
		"forward: \"http://h/%zz?k=s3cret\"",
		"forward: \"http://u:s3cret@127.0.0.1/?k=s3cret\", deny_private: true",
		"forward: \"http://x\", bearer: \"s3cret\\n\\x01\"",
		"forward: \"http://x\", sign: {id: k, secret: s3cret}",
		"forward: \"http://x\", sign: {id: k, alg: ed25519, secret: s3cret-0123456789abcdef}",
	} {
		err := buildText(t, t.TempDir(), validShop+"handlers:\n  - {producer: shop, type: a, "+handler+"}\n")
		if text := withHints(err); err == nil || strings.Contains(text, "s3cret") {
			t.Errorf("%s: %s", handler, text)
		}
	}
	for _, key := range []string{
		"jwks_url: \"http://elsewhere.example/?k=s3cret\"",
		"jwks_url: \"https://u:s3cret@elsewhere.example/\"",
		"jwks_url: \"http://%zz?k=s3cret\"",
		"url: \"ftp://u:s3cret@x/\"",
		"url: \"http://u:s3cret@x y/\"",
	} {
		err := buildText(t, t.TempDir(), strings.Replace(validShop, "scheme: rfc9421", "scheme: rfc9421\n    "+key, 1))
		if text := withHints(err); err == nil || strings.Contains(text, "s3cret") {
			t.Errorf("%s: %s", key, text)
		}
	}
}

// TestASecretAtAWrongPlaceIsNotQuoted puts the variable of a secret in place of each value of the
// examples of the documentation.
func TestASecretAtAWrongPlaceIsNotQuoted(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../../../docs/config.md")
	check(t, err)
	named := 0
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(docs, -1)
	for _, value := range []string{
		"s3cret-Zz%~\x07 not=any:  form/\"x\"", "https://s3cret.example/a?b", "s3cret0123456789abcdef", "        ",
	} {
		for _, block := range blocks {
			for i := 0; ; i++ {
				text, replaced := withVariable(t, block[1], i)
				if !replaced {
					break
				}
				err := buildText(t, t.TempDir(), text, "GITHUB_SECRET="+value)
				if err == nil {
					continue
				}
				if got := withHints(err); strings.Contains(got, "s3cret") || strings.Count(got, "${G") > 9 {
					t.Errorf("%s\n%s", text, got)
				} else if strings.Contains(got, "${GITHUB_SECRET}") {
					named++
				}
			}
		}
	}
	if named < 40 {
		t.Errorf("%d errors name the variable", named)
	}
}

// withVariable returns YAML with a variable in place of its value i.
func withVariable(t *testing.T, text []byte, i int) (replaced string, ok bool) {
	t.Helper()
	var doc yaml.Node
	check(t, yaml.Unmarshal(text, &doc))
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		for k, inner := range n.Content {
			if n.Kind != yaml.MappingNode || k%2 == 1 {
				visit(inner)
			}
		}
		if n.Kind == yaml.ScalarNode {
			if i--; i == -1 {
				*n = yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: "${GITHUB_SECRET}"}
				ok = true
			}
		}
	}
	visit(&doc)
	out, err := yaml.Marshal(&doc)
	check(t, err)
	return string(out), ok
}

// settingTypes are the structs whose fields may be secret.
func settingTypes() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[Settings](), reflect.TypeFor[TLS](), reflect.TypeFor[rfc9421Settings](), reflect.TypeFor[Key](),
		reflect.TypeFor[hmacSettings](), reflect.TypeFor[Handler](), reflect.TypeFor[forwardSettings](),
		reflect.TypeFor[signSettings](), reflect.TypeFor[preset.Settings](), reflect.TypeFor[preset.Subscription](),
	}
}

// settingsOf returns the fields of a struct by the names of their settings.
func settingsOf(typ reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(f.Tag.Get("conf"), ","); name != "" {
			fields[name] = f
		}
	}
	return fields
}

// hides reports whether a field has one of the options, or the type of a secret.
func hides(f reflect.StructField, options ...string) bool {
	of := f.Type
	if of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of == secretType {
		return true
	}
	return slices.ContainsFunc(strings.Split(f.Tag.Get("conf"), ",")[1:], func(option string) bool {
		return slices.Contains(options, option)
	})
}

var secretType = reflect.TypeFor[verify.Secret]()

// secretNames returns the names of settings with a NAME_file variant.
func secretNames() (names []string) {
	for _, typ := range settingTypes() {
		for name, f := range settingsOf(typ) {
			if hides(f, "secret", "file", "dsn") && f.Type.Kind() != reflect.Map {
				names = append(names, name)
			}
		}
	}
	return names
}

func TestSecretsAreHiddenInEveryForm(t *testing.T) {
	t.Parallel()
	type untagged struct { // the type of a secret is enough
		One  verify.Secret            `conf:"one"`
		List []verify.Secret          `conf:"list"`
		Map  map[string]verify.Secret `conf:"map"`
	}
	seen := 0
	for _, typ := range append(settingTypes(), reflect.TypeFor[untagged]()) {
		for name, f := range settingsOf(typ) {
			if !hides(f, "secret", "file", "dsn") {
				continue
			}
			for _, form := range []string{"s3cret", "[s3cret]", "[[s3cret]]", "{k: s3cret}"} {
				seen++
				n, err := conf.ParseTree("x", []byte("{"+name+": "+form+"}"), nil)
				check(t, err)
				(&conf.Decoder{}).Objects(n, "", reflect.New(typ).Interface())
				text, err := yaml.Marshal(shown.Redact(n, nil).YAML())
				check(t, err)
				if strings.Contains(string(text), "s3cret") || !strings.Contains(string(text), conf.Hidden) {
					t.Errorf("%s.%s: %s is shown as\n%s", typ.Name(), name, form, text)
				}
			}
		}
	}
	if seen < 4*12 {
		t.Fatalf("only %d forms of secrets found", seen)
	}
}

// TestSecretTextsAreTagged: a secret in a field of another type would be shown by config show.
func TestSecretTextsAreTagged(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, typ := range settingTypes() {
		for name, f := range settingsOf(typ) {
			if !strings.Contains(name, "secret") && !strings.Contains(name, "password") && name != "token" {
				continue
			}
			seen++
			if name != "secret_encoding" && !hides(f, "secret") {
				t.Errorf("%s of %s would be shown", name, typ)
			}
		}
	}
	if seen < 5 {
		t.Fatalf("only %d secrets found", seen)
	}
}
