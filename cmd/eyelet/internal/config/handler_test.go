package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestExecSettingsNeedExec(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ handler, want string }{
		"env of stdout":  {"stdout: true, env: [HOME]", "e.yaml:7: env is a setting of exec"},
		"env of forward": {"forward: \"http://x\", env: [HOME]", "e.yaml:7: env is a setting of exec"},
		"a value in env": {"exec: [cat], env: [\"A=b\"]", "e.yaml:7: env names variables, and \"A\" has a value"},
		"a NUL": {
			`exec: [cat, "a\0b"]`,
			"e.yaml:7: a word of exec holds a NUL, which no program can be given",
		},
		"good": {"exec: [cat], env: [A]", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			yaml := validShop + "handlers:\n  - {producer: shop, type: a, " + tt.handler + "}\n"
			if got := firstError(buildText(t, t.TempDir(), yaml)); got != tt.want {
				t.Errorf("error is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestForwardErrorsNameTheirLine(t *testing.T) {
	t.Parallel()
	head := "url: http://x\nproducers:\n  gh: {preset: github, secrets: [octo-secret]}\nhandlers:\n"
	for name, tt := range map[string]struct{ yaml, want string }{
		"setting of another sink": {
			"  - {producer: gh, type: a, stdout: true, deny_private: true, bearer: x}\n",
			"e.yaml:5: bearer is a setting of forward\ne.yaml:5: deny_private is a setting of forward",
		},
		"inside": {
			"  - {producer: gh, type: a, forward: \"http://10.0.0.1/\", deny_private: true}\n",
			"e.yaml:5: forward: the target is a private address, which deny_private refuses",
		},
		"no key": {
			"  - {producer: gh, type: a, forward: \"http://h/\", sign: {id: k}}\n",
			"e.yaml:5: sign needs one of private_key_file and secret",
		},
		"no id": {
			"  - {producer: gh, type: a, forward: \"http://h/\", sign: {secret: 0123456789abcdefghij}}\n",
			"e.yaml:5: sign: the key needs an id, which signatures name in their parameter keyid",
		},
		"short": {
			"  - {producer: gh, type: a, forward: \"http://h/\", sign: {id: k, secret: short}}\n",
			"e.yaml:5: sign: key \"k\": the secret has 5 bytes and needs at least 16",
		},
		"no file": {
			"  - {producer: gh, type: a, forward: \"http://h/\", sign: {id: k, private_key_file: none.pem}}\n",
			"e.yaml:5: sign: key file none.pem: no such file or directory",
		},
		"another algorithm": {
			"  - {producer: gh, type: a, forward: \"http://h/\", sign: {id: k, alg: ed25519, secret: " +
				"0123456789abcdefghij}}\n",
			"e.yaml:5: sign: algorithm \"ed25519\" does not use a secret",
		},
		"authorities": {
			"  - {producer: gh, type: a, forward: \"https://h/\", ca_file: none.pem}\n",
			"e.yaml:5: ca_file none.pem: no such file or directory",
		},
		"misspelt": {
			"  - {producer: gh, type: a, forward: \"https://h/\", deny_privat: true}\n",
			`e.yaml:5: unknown setting "deny_privat" in handlers[0]`,
		},
		"good": {
			"  - {producer: gh, type: a, forward: \"https://h/\", deny_private: true, allow_hosts: [i], " +
				"total_retry_time: 2d, terminal_limit: 3, max_connections: 4, bearer: t, sign: {id: k, secret: " +
				"0123456789abcdefghij, label: l, tag: t, components: [\"@method\", \"@target-uri\"]}}\n",
			"<nil>",
		},
		"no date": {"", "e.yaml:3: retire is \"soon\", want a date"},
		"order":   {"", "e.yaml:3: producer \"gh\": the endpoint is deprecated after it is retired"},
	} {
		text := head + tt.yaml
		switch name {
		case "no date":
			text = strings.Replace(head, "]}", "], retire: soon}", 1)
		case "order":
			text = strings.Replace(head, "]}", "], retire: 2037-01-01, deprecated: 2037-01-02}", 1)
		}
		dir := t.TempDir()
		got := "<nil>"
		if err := buildText(t, dir, strings.TrimSuffix(text, "handlers:\n")); err != nil {
			got = strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
		}
		if got != tt.want {
			t.Errorf("%s: %s\nwant %s", name, got, tt.want)
		}
	}
}

// A line of stdout costs less than a timer, and targets of forward have their own.
func TestOnlyExecNeedsATimer(t *testing.T) {
	t.Parallel()
	b := &handlerBuilder{Settings: &Settings{}}
	for name, h := range map[string]*Handler{
		"stdout": {Stdout: true}, "exec": {Exec: []string{"cat"}, Timeout: time.Second},
		"forward": {Forward: "http://h/"},
	} {
		ctx, cancel := b.limit(h)(t.Context())
		defer cancel()
		if _, limited := ctx.Deadline(); limited != (name == "exec") {
			t.Errorf("%s: limited is %t", name, limited)
		}
	}
}
