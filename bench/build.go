package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// module is the path of this project.
const module = "github.com/eyelet-dev/eyelet"

// profileSource adds the pages of net/http/pprof to the binary, at the address in profileVariable.
//
//go:embed profile.go.txt
var profileSource []byte

const profileVariable = "BENCH_PPROF"

// repository returns the folder of the repository. Eyelet is built there, with its own go.mod.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find the source of Eyelet (in a folder of its repository): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// buildEyelet builds the binary of the repository.
func buildEyelet(ctx context.Context, dir string, profiled bool) (string, error) {
	root, err := repository(ctx)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "eyelet")
	cmd := exec.CommandContext(ctx, "go", "build", "-C", root, "-o", binary)
	if profiled {
		overlay, err := addProfile(root, dir)
		if err != nil {
			return "", err
		}
		cmd.Args = append(cmd.Args, "-overlay", overlay)
	}
	cmd.Args = append(cmd.Args, "./cmd/eyelet")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build Eyelet: %w: %s", err, out)
	}
	return binary, nil
}

// addProfile returns an overlay file for go build that adds profileSource to the binary.
func addProfile(root, dir string) (string, error) {
	source, overlay := filepath.Join(dir, "profile.go"), filepath.Join(dir, "overlay.json")
	added := filepath.Join(root, "cmd", "eyelet", "bench_profile.go")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{added: source}})
	return overlay, errors.Join(err, os.WriteFile(source, profileSource, 0o600), os.WriteFile(overlay, text, 0o600))
}

// saveProfile writes a CPU profile of so many seconds to a file, and then an allocation profile
// to another one, whose name ends in ".allocs".
func saveProfile(ctx context.Context, address, file string, length time.Duration) error {
	seconds := max(1, int(length.Seconds()))
	pages := "http://" + address + "/debug/pprof/"
	return errors.Join(
		download(ctx, fmt.Sprintf("%sprofile?seconds=%d", pages, seconds), file),
		download(ctx, pages+"allocs", file+".allocs"))
}

func download(ctx context.Context, url, file string) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
