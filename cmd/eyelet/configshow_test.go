package main

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/producer"
)

func TestEverySecretSettingIsHiddenWhateverItsForm(t *testing.T) {
	t.Parallel()
	for _, name := range append(slices.Clone(inFiles), "keys") {
		for _, form := range []string{"s3cret", "[s3cret]", "[[s3cret]]", "{k: s3cret}"} {
			if name == "keys" && !strings.HasPrefix(form, "{") {
				continue // keys are a mapping, or a list of mappings whose secrets have names of their own
			}
			n, err := parseTree("x", []byte("producers: {p: {"+name+": "+form+"}}"), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := yaml.Marshal(veil(n, nil, "").yaml())
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "s3cret") || !strings.Contains(string(text), hidden) {
				t.Errorf("%s: %s is shown as\n%s", name, form, text)
			}
		}
	}
}

// TestEverySettingOfTypeSecretIsKnownAsOne holds the list of names that config show goes by to the settings.
func TestEverySettingOfTypeSecretIsKnownAsOne(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, v := range []any{settings{}, tlsSettings{}, rfc9421Config{}, keyConfig{}, hmacConfig{}, handlerConfig{}, producer.Settings{}, producer.Subscription{}} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			f := typ.Field(i)
			inner := f.Type
			for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
				inner = inner.Elem()
			}
			name := f.Tag.Get("conf")
			if inner != reflect.TypeFor[secret]() && !strings.Contains(strings.ToLower(f.Name), "secret") && !strings.Contains(strings.ToLower(f.Name), "password") &&
				f.Name != "Token" {
				continue
			}
			seen++
			if name != "keys" && name != "secret_encoding" && !slices.Contains(inFiles, name) {
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
		if got := veilAddress(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestSpansAreShort(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0s", "500ms", "30s", "1m", "1m30s", "10m", "1h", "1h5m", "24h", "1h0m5s"} {
		d, err := parseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseDuration(span(d))
		if err != nil || back != d || len(span(d)) > len(text) {
			t.Errorf("%s is shown as %q", text, span(d))
		}
	}
}

// TestWhatIsShownIsAConfiguration shows a configuration without secrets, reads it, and shows it again.
func TestWhatIsShownIsAConfiguration(t *testing.T) {
	t.Parallel()
	file := configured(t, "handlers:\n  - {producer: gh, type: \"*\", stdout: true}\nlimits: {max_body: 2MiB}\n")
	first, _ := command(t, 0, "", "config", "show", "--config", file)
	n, err := parseTree("shown", []byte(strings.ReplaceAll(first, hidden, "octo-secret")), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, first)
	}
	var again bytes.Buffer
	if err := yaml.NewEncoder(&again).Encode(n.yaml()); err != nil {
		t.Fatal(err)
	}
	s, err := source{}.parse("shown", again.Bytes())
	if err != nil {
		t.Fatalf("it is no configuration: %v\n%s", err, again.String())
	}
	if s.Limits.MaxBody != 2<<20 || s.Limits.Attempts != 16 || len(s.Producers) != 1 || s.Producers[0].common.MaxBody == 0 {
		t.Errorf("it says %+v", s)
	}
}

func TestEveryLimitWithADefaultIsShown(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, limits, _ := strings.Cut(string(doc), "## Limits")
	limits, _, _ = strings.Cut(limits, "###")
	shown := map[string]bool{}
	for _, row := range (&settings{}).defaultRows() {
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

// TestOfATargetOnlySchemeAndHostAreShown: receivers of many services have the secret in the path or the query.
func TestOfATargetOnlySchemeAndHostAreShown(t *testing.T) {
	t.Parallel()
	file := configured(t, "handlers:\n"+
		"  - {producer: gh, type: a, forward: \"https://hooks.example/services/T0/s3cr\"}\n"+
		"  - {producer: gh, type: b, forward: \"https://u:s3cr@hooks.example/?s3cr\"}\n"+
		"  - {producer: gh, type: c, forward: \"http://127.0.0.1:9000/\"}\n"+
		"  - {producer: gh, type: d, forward: \"https://hooks.example/s3cr/${PART}\"}\n"+
		"  - {producer: gh, type: e, forward: \"${WHOLE}\"}\n"+
		"  - {producer: gh, type: f, forward: \"${BASE}/s3cr\"}\n")
	environ := []string{"PART=s3cr", "WHOLE=https://hooks.example/s3cr", "BASE=https://base.example/s3cr"}
	for _, format := range []string{"text", "json"} {
		var out, errs bytes.Buffer
		p := &program{Out: &out, Err: &errs, Environ: environ}
		if code := p.Run(t.Context(), "config", "show", "--config", file, "-o", format); code != exitOK {
			t.Fatal(errs.String())
		}
		got := out.String()
		for _, want := range []string{
			"https://hooks.example/<secret>", "https://<secret>@hooks.example/<secret>", "http://127.0.0.1:9000/", "${WHOLE}", "https://base.example/<secret>",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s is not shown", format, want)
			}
		}
		if n := strings.Count(got, "https://hooks.example/<secret>"); n != 2 || strings.Contains(got, "s3cr") {
			t.Errorf("%s: %s", format, got)
		}
	}
}
