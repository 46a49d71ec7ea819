package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAKeyWithoutItsOtherHalfIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	public := filepath.Join(dir, "shop.pub.pem")
	check(t, os.WriteFile(public, []byte("another"), 0o600))
	var out, errs bytes.Buffer
	p := &program{Out: &out, Err: &errs}
	if code := p.Run(t.Context(), "keygen", "--dir", dir); code != exitUsage {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "shop.pem")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a private key that belongs to nothing is there: %v", err)
	}
	if text, err := os.ReadFile(public); err != nil || string(text) != "another" {
		t.Errorf("the other file is %q, %v", text, err)
	}
}
