package main

import (
	"crypto/tls"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
)

// memoryServed writes a configuration whose events only the running server can list.
func memoryServed(t *testing.T, operations string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "eyelet.yaml")
	text := "listen: 127.0.0.1:0\n" + operations +
		"store: \"memory:\"\nlog: {level: error}\nproducers:\n  gh: {preset: github, secret: [octo-secret]}\n"
	check(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// lists runs `eyelet events list` and returns its exit code and output.
func lists(t *testing.T, file string) (code int, said string) {
	t.Helper()
	var out, errs strings.Builder
	p := &program{In: strings.NewReader(""), Out: &out, Err: &errs}
	code = p.Run(t.Context(), "events", "list", "--config", file)
	return code, out.String() + errs.String()
}

func TestOperationsOverTLS(t *testing.T) {
	t.Parallel()
	file := memoryServed(t, "operations: 127.0.0.1:0\noperations_tls: {cert_file: cert.pem, key_file: key.pem}\n")
	client := trusting(servertest.Issue(t, filepath.Dir(file), 1))
	defer client.CloseIdleConnections()
	r := launch(t, "serve", "--config", file)
	address := strings.TrimPrefix(r.operations, "http://")
	res, err := client.Get(address + "/readyz")
	check(t, err)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
	if res, err := http.Get(strings.Replace(address, "https:", "http:", 1) + "/healthz"); err == nil {
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			t.Error("operations are served without TLS")
		}
	}
	if status, _ := push(t, http.DefaultClient, r.deliveries, "g-1", "{}"); status != 200 {
		t.Fatal(status)
	}
	if code, said := lists(t, file); code != exitOK || !strings.Contains(said, "g-1") {
		t.Errorf("exit %d: %s", code, said)
	}
}

// TestOurCommandsGiveTheTokenToOurCertificateOnly: another server at the address gets no request.
func TestOurCommandsGiveTheTokenToOurCertificateOnly(t *testing.T) {
	t.Parallel()
	theirs, ours := t.TempDir(), t.TempDir()
	servertest.Issue(t, theirs, 1)
	servertest.Issue(t, ours, 2)
	pair, err := tls.LoadX509KeyPair(filepath.Join(theirs, "cert.pem"), filepath.Join(theirs, "key.pem"))
	check(t, err)
	asked := make(chan string, 8)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked <- r.Header.Get("Authorization")
		}),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.ServeTLS(ln, "", "") }()
	defer func() { _ = srv.Close(); <-done }()
	for dir, want := range map[string]int{theirs: 1, ours: 0} {
		for name, text := range map[string]string{opsapi.AddressFile: "https://" + ln.Addr().String(),
			opsapi.TokenFile: "t"} {
			check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		r := opsclient.Running{StateDir: dir, CertFile: filepath.Join(dir, "cert.pem"),
			KeyFile: filepath.Join(dir, "key.pem")}
		client, err := r.Connect(t.Context())
		if err != nil || (client != nil) != (want > 0) {
			t.Errorf("client %v, %v", client, err)
		}
		if len(asked) != want {
			t.Errorf("%d requests arrived, want %d", len(asked), want)
		}
		for len(asked) > 0 {
			<-asked
		}
	}
}

// TestASocketHasAnAbsoluteAddress: commands find it from any folder, also if --config was
// relative.
func TestASocketHasAnAbsoluteAddress(t *testing.T) {
	t.Parallel()
	s := &config.Settings{File: filepath.Join("sub", "eyelet.yaml"), Store: "memory", Operations: "unix:ops.sock"}
	o, err := portOptions(s)
	check(t, err)
	if path := strings.TrimPrefix(o.Operations, opsapi.UnixScheme); !filepath.IsAbs(path) ||
		!strings.HasSuffix(path, "/sub/ops.sock") {
		t.Errorf("the address is %s", o.Operations)
	}
}

func TestOperationsOnASocket(t *testing.T) {
	t.Parallel()
	file := memoryServed(t, "operations: unix:ops.sock\n")
	socket := filepath.Join(filepath.Dir(file), "ops.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"}) // of a process that was killed
	check(t, err)
	left.SetUnlinkOnClose(false)
	_ = left.Close()
	r := launch(t, "serve", "--config", file)
	info, err := os.Stat(socket)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if status, _ := push(t, http.DefaultClient, r.deliveries, "g-1", "{}"); status != 200 {
		t.Fatal(status)
	}
	if code, said := lists(t, file); code != exitOK || !strings.Contains(said, "g-1") {
		t.Errorf("exit %d: %s", code, said)
	}
	second := &program{In: strings.NewReader(""), Out: io.Discard, Err: &servertest.Buffer{}}
	if code := second.Run(t.Context(), "serve", "--config", file); code != exitUsage ||
		!strings.Contains(second.Err.(*servertest.Buffer).String(), "in use") {
		t.Errorf("a second server: exit %d: %s", code, second.Err)
	}
	r.stop()
	if code := <-r.ended; code != exitOK {
		t.Errorf("exit %d", code)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is still there")
	}
	if entries, _ := filepath.Glob(socket + "*"); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestASocketDoesNotReplaceAFile(t *testing.T) {
	t.Parallel()
	file := memoryServed(t, "operations: unix:eyelet.yaml\n")
	errs := &servertest.Buffer{}
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: errs}
	if code := p.Run(t.Context(), "serve", "--config", file); code != exitUsage ||
		!strings.Contains(errs.String(), "eyelet.yaml is there, and is not a socket") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

func TestMetricsCountConnections(t *testing.T) {
	t.Parallel()
	file := memoryServed(t, "operations: 127.0.0.1:0\nlimits: {connections: 1, connections_per_address: 2}\n")
	r := launch(t, "serve", "--config", file)
	first, second := r.dial(t), r.dial(t)
	defer second.Close()
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Fatal("the first connection got a response")
	}
	res, err := http.Get(r.operations + "/metrics")
	check(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	check(t, err)
	for _, line := range []string{
		`eyelet_connections{port="deliveries"} 1`,
		`eyelet_connections_closed_total{limit="connections",port="deliveries"} 1`,
		`eyelet_connections{port="operations"} `,
		`eyelet_connections_closed_total{limit="descriptors",port="operations"} 0`,
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("no %s in:\n%s", line, text)
		}
	}
}
