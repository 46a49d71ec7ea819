package config

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/producer/preset"
)

// settingTypes are the structs whose fields may be secret.
func settingTypes() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[Settings](), reflect.TypeFor[TLS](), reflect.TypeFor[rfc9421Settings](), reflect.TypeFor[Key](),
		reflect.TypeFor[hmacSettings](), reflect.TypeFor[Handler](), reflect.TypeFor[forwardSettings](), reflect.TypeFor[signSettings](),
		reflect.TypeFor[preset.Settings](), reflect.TypeFor[preset.Subscription](),
	}
}

// secretNames returns the names of settings that may be in a file of their own.
func secretNames() (names []string) {
	for _, typ := range settingTypes() {
		for name, f := range fieldsOf(reflect.New(typ).Elem()) {
			if f.inFile() && f.value.Kind() != reflect.Map {
				names = append(names, name)
			}
		}
	}
	return names
}

func TestEverySecretSettingIsHiddenWhateverItsForm(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, typ := range settingTypes() {
		for name, f := range fieldsOf(reflect.New(typ).Elem()) {
			if !f.inFile() {
				continue
			}
			for _, form := range []string{"s3cret", "[s3cret]", "[[s3cret]]", "{k: s3cret}"} {
				seen++
				n, err := parseTree("x", []byte("{"+name+": "+form+"}"), nil)
				if err != nil {
					t.Fatal(err)
				}
				(&decoder{}).object(n, reflect.New(typ).Elem(), "")
				text, err := yaml.Marshal(redact(n, nil).yaml())
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(text), "s3cret") || !strings.Contains(string(text), Hidden) {
					t.Errorf("%s.%s: %s is shown as\n%s", typ.Name(), name, form, text)
				}
			}
		}
	}
	if seen < 4*12 {
		t.Fatalf("only %d forms of secrets were looked at", seen)
	}
}

// TestEverySettingOfTypeSecretIsKnownAsOne holds the tags that config show goes by to the settings.
func TestEverySettingOfTypeSecretIsKnownAsOne(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, typ := range settingTypes() {
		for i := range typ.NumField() {
			f := typ.Field(i)
			inner := f.Type
			for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
				inner = inner.Elem()
			}
			name, option, _ := strings.Cut(f.Tag.Get("conf"), ",")
			if inner != reflect.TypeFor[secret]() && !strings.Contains(strings.ToLower(f.Name), "secret") && !strings.Contains(strings.ToLower(f.Name), "password") &&
				f.Name != "Token" {
				continue
			}
			seen++
			if name != "secret_encoding" && option != "secret" {
				t.Errorf("%s.%s (%q) would be shown", typ.Name(), f.Name, name)
			}
		}
	}
	if seen < 5 {
		t.Fatalf("only %d secrets were found", seen)
	}
}

func TestAddressesAreShownWithoutWhatMayBeACredential(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:9000/deploy":          "http://127.0.0.1:9000/deploy",
		"https://token@h.example/x":             "https://<secret>@h.example/x",
		"https://u:p@h.example/x?a=1&b&c=2=3#f": "https://<secret>@h.example/x#f?a=<secret>&b=<secret>&c=<secret>",
		"order.*":                               "order.*",
		"a?b=c":                                 "a?b=c",
		"badger:./data":                         "badger:./data",
		"json:type":                             "json:type",
	} {
		if got := redactAddress(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestSpansAreShort(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0s", "500ms", "30s", "1m", "1m30s", "10m", "1h", "1h5m", "24h", "1h0m5s"} {
		d, err := ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseDuration(FormatDuration(d))
		if err != nil || back != d || len(FormatDuration(d)) > len(text) {
			t.Errorf("%s is shown as %q", text, FormatDuration(d))
		}
	}
}

// TestWhatIsShownIsAConfiguration shows a configuration without secrets, reads it, and shows it again.
func TestWhatIsShownIsAConfiguration(t *testing.T) {
	t.Parallel()
	c := parsed(t, filepath.Join(t.TempDir(), "eyelet.yaml"), "limits: {max_body: 2MiB}\nproducers:\n"+
		"  gh: {preset: github, secrets: [octo-secret]}\nhandlers:\n  - {producer: gh, type: \"*\", stdout: true}\n")
	plan, err := c.Build(t.Context(), BuildOptions{Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close() //nolint:errcheck // it holds no key set that fetches
	shown, err := c.Effective(plan)
	if err != nil {
		t.Fatal(err)
	}
	first, err := yaml.Marshal(shown.YAML())
	if err != nil {
		t.Fatal(err)
	}
	again := strings.ReplaceAll(string(first), Hidden, "octo-secret")
	s, err := Source{}.Parse("shown", []byte(again))
	if err != nil {
		t.Fatalf("it is no configuration: %v\n%s", err, again)
	}
	if s.Limits.MaxBody != 2<<20 || s.Limits.Attempts != 16 || len(s.Producers) != 1 || s.Producers[0].common.MaxBody == 0 {
		t.Errorf("it says %+v", s)
	}
}

func TestEveryLimitWithADefaultIsShown(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, limits, _ := strings.Cut(string(doc), "## Limits")
	limits, _, _ = strings.Cut(limits, "###")
	shown := map[string]bool{}
	for _, row := range defaultRows(&Settings{}) {
		shown[row[0]] = true
		if last := strings.LastIndex(row[0], "."); last >= 0 {
			shown[row[0][:last]] = true // a setting with members of its own
		}
	}
	rows := regexp.MustCompile("(?m)^\\| (`[^|]*) \\| ([^|]*) \\|").FindAllStringSubmatch(limits, -1)
	for _, row := range rows {
		if strings.HasPrefix(row[2], "none") || strings.HasPrefix(row[2], "the larger") {
			continue // the store's to know
		}
		for name := range strings.SplitSeq(row[1], ", ") {
			if name = "limits." + strings.Trim(name, "`"); !shown[name] {
				t.Errorf("%s has a default, and config show does not show it", name)
			}
		}
	}
	if len(rows) < 15 {
		t.Errorf("only %d limits were found", len(rows))
	}
}
