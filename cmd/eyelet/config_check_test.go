package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigCheckLoadsTheCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "e.yaml")
	text := "producers:\n  shop:\n    scheme: rfc9421\n    keys: [{id: k, alg: hmac-sha256, secret: " +
		"0123456789abcdefghij}]\nurl: http://x\n" + "tls: {cert_file: none.pem, key_file: none.pem}\nlog: {format: x}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: &out, Err: &errs}
	code := p.Run(t.Context(), "config", "check", "--config", file)
	if code != exitUsage || !strings.Contains(errs.String(), "tls: ") ||
		!strings.Contains(errs.String(), "log.format") {
		t.Errorf("exit %d, standard output %q, standard error\n%s", code, out.String(), errs.String())
	}
}
