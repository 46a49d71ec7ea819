package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/internal/usage"
)

func parse(t *testing.T, yaml string, environ ...string) (*Settings, error) {
	t.Helper()
	return Source{Environ: environ}.Parse("eyelet.yaml", []byte(yaml))
}

func TestLoadExample(t *testing.T) {
	t.Parallel()
	c, err := parse(t, `
listen: 127.0.0.1:8080
operations: 127.0.0.1:8081
url: http://127.0.0.1:8080
store: badger:./data
producers:
  shop:
    scheme: rfc9421
    label: sig1
    tolerance: 2m
    keys:
      - {id: k1, alg: ed25519, public_key_file: shop.pub.pem}
      - {id: k2, alg: hmac-sha256, secret: "${SHOP_SECRET}"}
    window: 7d
  gh: {preset: github, secret: "${GITHUB_SECRET}", max_body: 25MiB, tolerance: {past: 1h, future: 1m}}
handlers:
  - {producer: shop, type: "order.*", stdout: true}
  - {producer: shop, type: quote, exec: [./quote.sh], answer: true}
`, "SHOP_SECRET=first", "SHOP_SECRET=0123456789abcdef", "GITHUB_SECRET=s3cret")
	check(t, err)
	shop, gh := c.Producers[0], c.Producers[1]
	keys, secrets := shop.Keys(), gh.PresetSettings.Secrets
	got := []any{
		c.URL, shop.Name, shop.common.Window, shop.common.Tolerance.Past, len(keys), string(keys[1].Secret), gh.Preset,
		len(secrets), secrets[0], gh.common.MaxBody, gh.common.Tolerance.Past, gh.common.Tolerance.Future,
		c.Handlers[0].Stdout, c.Handlers[1].Exec, c.Handlers[1].Answer, c.Log.Level, c.Limits.Drain,
	}
	want := []any{"http://127.0.0.1:8080", "shop", 7 * 24 * time.Hour, 2 * time.Minute, 2, "0123456789abcdef", "github",
		1, "s3cret", int64(25 << 20), time.Hour, time.Minute, true,
		[]string{"./quote.sh"}, true, "info", 30 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if at := shop.Node.Place("window"); at.String() != "eyelet.yaml:14" {
		t.Errorf("window is at %s", at)
	}
}

func TestEnvironmentAndFlagsOverrideTheFile(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.String("listen", "", "")
	flags.String("log-level", "", "")
	check(t, flags.Parse([]string{"--log-level", "debug"}))
	s := Source{
		Flags:   flags,
		Environ: []string{"EYELET_LISTEN=:1", "EYELET_LOG_LEVEL=warn", "EYELET_LIMITS_WORKERS=3", "EYELET_VECTORS=/x"},
	}
	c, err := s.Parse("f", []byte("listen: a\nurl: b\nlimits: {lease: 1m}\n"))
	check(t, err)
	got := []any{c.Listen, c.URL, c.Log.Level, c.Limits.Workers, c.Limits.Lease}
	if diff := cmp.Diff([]any{":1", "b", "debug", 3, time.Minute}, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestEnvironmentErrorsNameTheVariable(t *testing.T) {
	t.Parallel()
	_, err := parse(t, "url: a\n", "EYELET_LIMITS_WORKERS=x", "EYELET_LISTN=y")
	want := "EYELET_LIMITS_WORKERS: limits.workers is \"x\", want a whole number\n" +
		"environment: unknown variable EYELET_LISTN | did you mean EYELET_LISTEN?"
	if diff := cmp.Diff(want, withHints(err)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestAnOverriddenValueNeedsNoVariables(t *testing.T) {
	t.Parallel()
	const missing = "eyelet.yaml:1: variable PASSWORD is not set | " +
		"set it in the environment of eyelet: export PASSWORD=..."
	for name, tt := range map[string]struct{ yaml, override, want string }{
		"unset":      {"store: postgres://u:${PASSWORD}@h/db\n", "EYELET_STORE=badger:x", ""},
		"empty":      {"store: postgres://u:${EMPTY}@h/db\n", "EYELET_STORE=badger:x", ""},
		"no name":    {"store: postgres://u:${A B}@h/db\n", "EYELET_STORE=badger:x", ""},
		"its file":   {"store_file: ${PASSWORD}\n", "EYELET_STORE=badger:x", ""},
		"in section": {"log: {level: \"${PASSWORD}\"}\n", "EYELET_LOG_LEVEL=warn", ""},
		"another":    {"{store: \"${PASSWORD}\", url: \"${PASSWORD}\"}\n", "EYELET_STORE=badger:x", missing},
		"by nothing": {"store: postgres://u:${PASSWORD}@h/db\n", "EYELET_STORE=", missing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := parse(t, tt.yaml, "EMPTY=", tt.override)
			if got := withHints(err); err != nil && got != tt.want || err == nil && tt.want != "" {
				t.Errorf("errors %s, want %q", got, tt.want)
			}
			if strings.HasSuffix(tt.override, ":x") && c.Store != "badger:x" {
				t.Errorf("store is %s", c.Store)
			}
		})
	}
}

func TestVariablesCannotChangeTheStructure(t *testing.T) {
	t.Parallel()
	c, err := parse(t, "url: ${U}\nlisten: \"$${U}\"\n", "U=a\nlisten: evil # {")
	check(t, err)
	if c.URL != "a\nlisten: evil # {" || c.Listen != "${U}" {
		t.Errorf("url is %q, listen is %q", c.URL, c.Listen)
	}
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	_, err := Source{File: filepath.Join(t.TempDir(), "none.yaml")}.Load()
	ms, ok := usage.Find(err)
	if !ok || len(ms) != 1 || !strings.HasSuffix(ms[0].What, "none.yaml: there is no such file") || ms[0].Hint == "" {
		t.Errorf("error is %v", err)
	}
	dir := t.TempDir()
	if _, err := (Source{File: dir}).Load(); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("error is %v", err)
	}
}

func TestPathsAreRelativeToTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "e.yaml")
	check(t, os.WriteFile(file, []byte("url: x\n"), 0o600))
	c, err := Source{File: file}.Load()
	check(t, err)
	if got := c.Path("./data"); got != filepath.Join(dir, "data") {
		t.Errorf("path is %s", got)
	}
	if got := c.Path("/abs"); got != "/abs" {
		t.Errorf("path is %s", got)
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add("listen: a\nproducers:\n  shop: {scheme: rfc9421, keys: [{id: k}]}\n")
	f.Add("a: &a [*a]\n")
	f.Add("x: &x {y: ${Z}}\nz: *x\n")
	f.Add("? [a]\n: b\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Source{Environ: []string{"Z=1"}}.Parse("f", []byte(text))
		if err == nil {
			if c == nil {
				t.Fatal("neither settings nor an error")
			}
			return
		}
		ms, ok := usage.Find(err)
		if !ok || len(ms) == 0 {
			t.Fatalf("untyped error %v", err)
		}
		for _, m := range ms {
			if strings.Contains(m.Error(), "\n") {
				t.Fatalf("error of several lines: %q", m.Error())
			}
		}
	})
}

// check ends the test when there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
