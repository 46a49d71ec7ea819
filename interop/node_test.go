package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// signInNode signs deliveries with senders.mjs.
func signInNode(t *testing.T, name string, deliveries []delivery) []message {
	t.Helper()
	out, _ := runNode(t, "senders.mjs", name, deliveries)
	var all []message
	for line := range bytes.Lines(out) {
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("node senders.mjs %s printed %s", name, line)
		}
		all = append(all, m)
	}
	if len(all) != len(deliveries) {
		t.Fatalf("node senders.mjs %s printed %d messages, want %d", name, len(all), len(deliveries))
	}
	return all
}

// runNode runs a script with deliveries as its standard input. Without Node it skips the test, or
// fails it if EYELET_REQUIRE_NODE is set.
func runNode(t *testing.T, script, name string, deliveries any) (out []byte, errs string) {
	t.Helper()
	dir, err := nodeLibraries()
	if err != nil && os.Getenv("EYELET_REQUIRE_NODE") != "" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	input, err := json.Marshal(deliveries)
	if err != nil {
		t.Fatal(err)
	}
	node := exec.Command("node", script, name)
	node.Dir, node.Stdin = dir, bytes.NewReader(input)
	var stderr bytes.Buffer
	node.Stderr = &stderr
	if out, err = node.Output(); err != nil {
		t.Fatalf("node %s %s: %v\n%s", script, name, err, &stderr)
	}
	return out, stderr.String()
}

// nodeLibraries installs the libraries of package.json in the user's cache, outside of the
// repository, and returns the folder. Scripts of packages do not run.
var nodeLibraries = sync.OnceValues(func() (string, error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("%w: install Node and npm to test the libraries for Node", err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "eyelet-interop")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	scripts := []string{"senders.mjs", "receivers.mjs", "agents.mjs", "consumers.mjs", "producers.mjs"}
	for _, name := range append(scripts, "package.json") {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	npm := exec.Command("npm", "install", "--no-package-lock", "--ignore-scripts", "--omit=optional", "--no-audit",
		"--no-fund", "--prefer-offline")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install: %w\n%s", err, out)
	}
	return dir, nil
})
