package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWhatNeedsARestartIsNamed changes each setting that a reload refuses, and others.
func TestWhatNeedsARestartIsNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	const producers = "producers:\n  gh: {preset: github, secret: [octo-secret]}\n"
	page, err := os.ReadFile("../../../../docs/reload.md")
	check(t, err)
	documented := strings.Join(regexp.MustCompile(`(?m)\|[^|]*$`).FindAllString(string(page), -1), "\n")
	used := loadText(t, file, producers)
	if found := CheckReload(loadText(t, file, producers), used); len(found) != 0 {
		t.Errorf("nothing changed: %v", found.Err())
	}
	for name, text := range map[string]string{
		"listen": "listen: 127.0.0.1:1", "operations": "operations: 127.0.0.1:1", "store": "store: badger:./other",
		"schema": "schema: other", "state": "state: other", "insecure_http": "insecure_http: true",
		"proxy_protocol": "proxy_protocol: true", "http2": "http2: true", "acme": "acme: {hosts: [hooks.example]}",
		"tls":            "tls: {cert_file: c, key_file: k}",
		"operations_tls": "operations_tls: {cert_file: c, key_file: k}", "refused": "refused: {mode: off}",
		"tracing": "tracing: {url: \"https://collector.example\"}", "log.format": "log: {format: json}",
		"limits.head": "limits: {head: 9KiB}", "limits.header_timeout": "limits: {header_timeout: 9s}",
		"limits.idle_timeout": "limits: {idle_timeout: 9s}", "limits.backlog_bytes": "limits: {backlog_bytes: 9MiB}",
		"limits.backlog_events": "limits: {backlog_events: 9}", "limits.min_free": "limits: {min_free: 9MiB}",
		"limits.remember_signatures": "limits: {remember_signatures: {for: 9d}}",
	} {
		found := CheckReload(loadText(t, file, producers+text+"\n"), used)
		if len(found) != 1 || found[0].What != name+" cannot change while the server runs" || found[0].At.Line != 3 {
			t.Errorf("%s: %v", text, found)
		}
		if !strings.Contains(documented, "`"+strings.TrimPrefix(name, "limits.")+"`") {
			t.Errorf("docs/reload.md does not say that %s needs a restart", name)
		}
	}
	for _, text := range []string{
		"url: https://hooks.example", "hosts: [hooks.example]", "via: other", "trusted_proxies: [10.0.0.0/8]",
		"log: {level: debug}", "explain: log", "inspector: read", "reload: watch",
		"limits: {workers: 9, max_body: 9KiB}", "redact: [\"json:a.b\"]",
		"handlers: [{producer: gh, type: push, stdout: true}]",
	} {
		if found := CheckReload(loadText(t, file, producers+text+"\n"), used); len(found) != 0 {
			t.Errorf("%s needs no restart: %v", text, found.Err())
		}
	}
}
