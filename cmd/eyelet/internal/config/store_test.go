package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestStoreOptions(t *testing.T) {
	t.Parallel()
	set, err := Source{}.Parse("eyelet.yaml", []byte("limits: {backlog_events: 3, backlog_bytes: 2MiB, "+
		"min_free: 1GiB}\n"))
	check(t, err)
	none, err := Source{}.Parse("eyelet.yaml", []byte("limits: {backlog_events: 0}\n"))
	check(t, err)
	if o := none.storeOptions(nil); o.MaxBacklogRecords >= 0 {
		t.Errorf("backlog_events: 0 is %d", o.MaxBacklogRecords)
	}
	if o := set.storeOptions(nil); o.MaxBacklogRecords != 3 || o.MaxBacklogBytes != 2<<20 || o.MinFree != 1<<30 {
		t.Errorf("%+v", o)
	}
}

// TestAStoreInPostgreSQLIsShownWithoutItsPassword writes it in the file, in the environment, and
// in a file of its own.
func TestAStoreInPostgreSQLIsShownWithoutItsPassword(t *testing.T) {
	t.Parallel()
	const planted = "hunter2-planted"
	for where, tt := range map[string]struct {
		text, file string
		environ    []string
		want       string
	}{
		"the file": {text: "store: postgres://u:" + planted + "@db.example/events\n",
			want: "postgres://db.example:5432/events"},
		"a variable": {text: "store: postgres://u:${PASSWORD}@a.example:1,b.example:2/events\n",
			environ: []string{"PASSWORD=" + planted}, want: "postgres://a.example:1,b.example:2/events"},
		"the whole variable": {text: "store: ${STORE}\nschema: hooks\n",
			environ: []string{"STORE=postgresql://u:" + planted + "@[::1]:7/events"},
			want:    "postgres://[::1]:7/events"},
		"a secret file": {text: "store_file: dsn\n", file: "postgres://db.example/events?password=" + planted + "\n",
			want: "postgres://db.example:5432/events"},
		"the environment": {text: "store: badger:./data\n",
			environ: []string{"EYELET_STORE=postgres://u:" + planted + "@/events?host=/run/pg"},
			want:    "postgres://%2Frun%2Fpg:5432/events"},
		"a file of the environment": {text: "store: badger:./data\n", file: "postgres://u:" + planted + "@h/events",
			environ: []string{"EYELET_STORE_FILE=dsn"}, want: "postgres://h:5432/events"},
		"the environment before a file": {text: "store_file: missing\n",
			environ: []string{"EYELET_STORE=postgres://u:" + planted + "@h/events"}, want: "postgres://h:5432/events"},
	} {
		file := filepath.Join(t.TempDir(), "eyelet.yaml")
		text := tt.text + "producers: {gh: {preset: github, secret: [octo-secret]}}\n"
		for name, text := range map[string]string{file: text, filepath.Join(filepath.Dir(file), "dsn"): tt.file} {
			check(t, os.WriteFile(name, []byte(text), 0o600))
		}
		s, err := Source{File: file, Environ: tt.environ}.Load()
		if err != nil {
			t.Errorf("in %s: %v", where, err)
			continue
		}
		plan, err := s.Build(t.Context(), BuildOptions{})
		check(t, err)
		shown, err := s.Effective(plan)
		check(t, err)
		asJSON, err := json.Marshal(shown.Plain())
		check(t, err)
		lines, err := yaml.Marshal(shown.YAML())
		check(t, err)
		if s.StoreName() != tt.want || !strings.Contains(s.Store, planted) {
			t.Errorf("in %s: the store is %s", where, s.StoreName())
		}
		if all := slices.Concat(asJSON, lines); bytes.Contains(all, []byte("planted")) ||
			!bytes.Contains(lines, []byte("\nstore: "+tt.want+"\n")) {
			t.Errorf("in %s: %s", where, all)
		}
		if dir, err := s.StateDir(); err != nil || dir != filepath.Join(filepath.Dir(file), "state") {
			t.Errorf("in %s: the state is in %s, %v", where, dir, err)
		}
	}
}

// TestSocketsBeyondThisMachineAreVerified: ports that listen are refused, see ports_test.go.
func TestSocketsBeyondThisMachineAreVerified(t *testing.T) {
	t.Parallel()
	const forward = `handlers: [{producer: gh, type: "*", bearer: t0ken, forward: "%s"}]` + "\n"
	for text, want := range map[string]string{
		"store: postgres://u@db.example/events\n":                               "db.example",
		"store: postgresql://u@10.0.0.5/events?sslmode=require\n":               "10.0.0.5",
		"store: postgres://u@db.example/events?sslmode=verify-full\n":           "",
		"store: postgres://u@localhost/events\n":                                "",
		fmt.Sprintf(forward, "http://target.example/a"):                         "target.example",
		fmt.Sprintf(forward, "https://target.example/a"):                        "",
		fmt.Sprintf(forward, "http://[::1]:9000/a"):                             "",
		"insecure_http: true\n" + fmt.Sprintf(forward, "http://target.example"): "",
		`handlers: [{producer: gh, forward: "http://u:p@target.example/a"}]`:    "target.example",
		`handlers: [{producer: gh, forward: "http://target.example/a"}]`:        "",
	} {
		file := filepath.Join(t.TempDir(), "eyelet.yaml")
		check(t, os.WriteFile(file, []byte("producers: {gh: {preset: github, secret: [octo-secret]}}\n"+text), 0o600))
		s, err := Source{File: file}.Load()
		check(t, err)
		found := Exposed(s)
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !strings.Contains(found[0], want)) ||
			strings.Contains(fmt.Sprint(found), "u:p") {
			t.Errorf("%s\nthe warnings are %q, want one of %q", text, found, want)
		}
	}
}

func TestAPasswordInTheConfigurationIsNoticed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"store: postgres://u:hunter2@h/db":           true,
		"store: postgres://u@${HOST}/db?password=h2": true,
		"store: postgres://u:${PASSWORD}@h:${PORT}/": false,
		"store: ${STORE}":                            false,
		"store: postgres://u@h/db":                   false,
		"store: badger:./data":                       false,
	} {
		file := filepath.Join(t.TempDir(), "eyelet.yaml")
		check(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
		environ := []string{"PASSWORD=p", "HOST=h", "PORT=1", "STORE=postgres://u:hunter2@h/db"}
		s, err := Source{File: file, Environ: environ}.Load()
		check(t, err)
		if got := containsSecret(s); got != want {
			t.Errorf("%s: a password in the file: %t", text, got)
		}
	}
}

func TestMistakesOfAStoreInPostgreSQLAreReported(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"store: postgres://u:planted@h:port/db":                    "connection string cannot be read",
		"store: postgres://u:pl anted%@h/db":                       "connection string cannot be read",
		"store: postgres:/u:planted@h/db":                          "neither badger:DIR, postgres://..., nor memory",
		"store: postgres://planted@h/d?sslmode=wrong":              "connection string cannot be read",
		"store: postgres://u:planted@h/d?sslrootcert=/no/such.pem": "file /no/such.pem: no such file",
		"store: \"\"":              "store is empty",
		"store: memory\nschema: a": "schema has a meaning",
		"store: postgres://h/db\nlimits: {min_free: 1GiB}":            "min_free",
		"store: postgres://u:planted@h/db\nstore_file: eyelet.sample": "both set",
	} {
		s, err := Source{}.Parse("eyelet.yaml", []byte(text+"\n"))
		if err == nil {
			_, err = s.Build(t.Context(), BuildOptions{})
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "anted") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
