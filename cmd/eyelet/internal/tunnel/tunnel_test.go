//go:build unix

package tunnel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramsPrintTheirURL: the first that is installed is started, or the named one.
func TestProgramsPrintTheirURL(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	_, err := Start(t.Context(), "", "127.0.0.1", "8080")
	if err == nil || !strings.Contains(err.Error(), "is installed") {
		t.Error(err)
	}
	for _, tt := range []struct{ name, prints, want, args string }{
		{"tailscale", "Available on the internet:\n\nhttps://pot.tail-1.ts.net/\n|-- proxy http://127.0.0.1:8080",
			"https://pot.tail-1.ts.net", "funnel 8080"},
		{"ngrok", `lvl=info msg="started tunnel" addr=http://127.0.0.1:8080 url=https://1-2.ngrok-free.app`,
			"https://1-2.ngrok-free.app", "http 127.0.0.1:8080 --log stdout --log-format logfmt"},
		{"cloudflared", "INF Requesting a tunnel from https://api.trycloudflare.com ...\n" +
			"INF |  https://hot-tea.trycloudflare.com  |", "https://hot-tea.trycloudflare.com",
			"tunnel --url http://127.0.0.1:8080"},
	} {
		script := "#!/bin/sh\necho \"$*\" > " + dir + "/args\ntrap 'exit 0' INT\ncat >&2 <<'END'\n" + tt.prints +
			"\nEND\nwhile :; do /bin/sleep 0.01; done\n"
		script = strings.Replace(script, "cat", "/bin/cat", 1)
		if err := os.WriteFile(filepath.Join(dir, tt.name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"", tt.name} {
			tunnel, err := Start(t.Context(), name, "127.0.0.1", "8080")
			if err != nil {
				t.Fatal(tt.name, err)
			}
			tunnel.Stop()
			args, _ := os.ReadFile(filepath.Join(dir, "args"))
			if tunnel.URL != tt.want || tunnel.Name != tt.name || strings.TrimSpace(string(args)) != tt.args {
				t.Errorf("%s at %s, started with %s", tunnel.Name, tunnel.URL, args)
			}
		}
	}
}

// TestAProgramThatEndsIsAnError with what it said last.
func TestAProgramThatEndsIsAnError(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	script := "#!/bin/sh\necho one\necho no account\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "ngrok"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	const want = "ngrok ended without a URL: no account"
	if _, err := Start(t.Context(), "ngrok", "127.0.0.1", "8080"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err := Start(t.Context(), "cloudflared", "127.0.0.1", "1")
	if err == nil || err.Error() != "cloudflared is not installed" {
		t.Error(err)
	}
}
