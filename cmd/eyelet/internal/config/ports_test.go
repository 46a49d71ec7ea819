package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestViaNameIsStableAndUnique(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	file := filepath.Join(t.TempDir(), "e.yaml")
	for _, text := range []string{
		"listen: 127.0.0.1:8080\n",
		"listen: 127.0.0.1:8082\n",
		"url: https://a.example\n",
		"store: \"badger:./other\"\n",
	} {
		var last string
		for range 2 {
			s := loadText(t, file, text+"producers:\n  gh: {preset: github, secrets: [octo-secret]}\n")
			if last != "" && s.viaName() != last {
				t.Errorf("was %s, now %s", last, s.viaName())
			}
			last = s.viaName()
		}
		if !regexp.MustCompile(`^eyelet-[0-9a-f]{8}$`).MatchString(last) || names[last] {
			t.Errorf("%s is not a new name", last)
		}
		names[last] = true
	}
	if got := loadText(t, file, "via: edge-1\nproducers:\n"+
		"  gh: {preset: github, secrets: [octo-secret]}\n").viaName(); got != "edge-1" {
		t.Errorf("%s", got)
	}
}

// loadText writes a configuration to the file and loads it.
func loadText(t *testing.T, file, text string) *Settings {
	t.Helper()
	check(t, os.WriteFile(file, []byte(text), 0o600))
	s, err := Source{File: file}.Load()
	check(t, err)
	return s
}

func TestInvalidAddressesAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ yaml, want string }{
		"a port too high": {"listen: 127.0.0.1:99999\n", "e.yaml:6: listen is not an address: 127.0.0.1:99999"},
		"of operations": {
			"operations: 127.0.0.1:65536\n",
			"e.yaml:6: operations is not an address: 127.0.0.1:65536",
		},
		"of no socket": {"operations: \"unix:\"\n", "e.yaml:6: operations is not an address: unix:"},
		"of a socket":  {"operations: unix:eyelet.sock\n", ""},
		"one for both": {
			"listen: 127.0.0.1:9\noperations: 127.0.0.1:9\n",
			"e.yaml:7: listen and operations are the same address",
		},
		"a certificate from two sources": {
			"tls: {cert_file: c.pem, key_file: k.pem}\nacme: {hosts: [a.example]}\n",
			"e.yaml:7: tls and acme both have the certificate of listen",
		},
		"acme without a name": {"acme: {email: a@b.example}\n", "e.yaml:6: acme has no hosts"},
		"acme for an address": {
			"acme: {hosts: [192.0.2.1]}\n",
			`e.yaml:6: acme.hosts: "192.0.2.1" is no name of a certificate`,
		},
		"acme for all names": {
			"acme: {hosts: ['*.a.example']}\n",
			`e.yaml:6: acme.hosts: "*.a.example" is no name of a certificate`,
		},
		"acme for a short name": {
			"acme: {hosts: [localhost]}\n",
			`e.yaml:6: acme.hosts: "localhost" is no name of a certificate`,
		},
		"acme beyond loopback": {"listen: :443\nacme: {hosts: [a.example]}\n", ""},
		"acme with HTTP/2":     {"http2: true\nacme: {hosts: [a.example]}\n", ""},
		"acme for several receivers": {
			"store: postgres://db/x\nstate: s\nacme: {hosts: [a.example]}\n", "e.yaml:8: acme with a store in " +
				"PostgreSQL: each of several receivers would order, and the authority reaches one",
		},
		"an authority without TLS": {
			"acme: {hosts: [a.example], directory_url: 'http://ca.example'}\n",
			"e.yaml:6: acme.directory_url is no https URL: http://ca.example",
		},
		"any port for both": {"listen: 127.0.0.1:0\noperations: 127.0.0.1:0\n", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := firstError(buildText(t, t.TempDir(), validShop+tt.yaml)); got != tt.want {
				t.Errorf("error is %q, want %q", got, tt.want)
			}
		})
	}
}
