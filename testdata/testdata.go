// Package testdata holds recorded deliveries for the first run, and the keys that signed them.
//
// The keys are public: anyone with this repository can sign with them. A receiver on a network
// must refuse them; [Secrets] and [PublicKeys] list them.
package testdata

import (
	"embed"
	"io/fs"
	"strings"
)

// generate.go makes the recordings with the standard library's crypto alone, as an independent
// check of package verify.
//
//go:generate go run generate.go

//go:embed */*.http keys/* eyelet.yaml
var files embed.FS

// Files returns the recordings (PRODUCER/*.http), the keys (keys/*) and the configuration that
// receives them (eyelet.yaml).
func Files() fs.FS { return files }

// Deliveries returns the paths of the recordings in the order of their arrival.
func Deliveries() []string {
	var all []string
	for _, producer := range []string{"shop", "github", "stripe", "standard-webhooks"} {
		// Glob sorts, and its only error is a malformed pattern.
		names, _ := fs.Glob(files, producer+"/*.http")
		all = append(all, names...)
	}
	return all
}

// Secrets returns the shared secrets of the recordings.
func Secrets() []string { return contents("keys/*.secret") }

// PublicKeys returns the public keys of the recordings, in PEM.
func PublicKeys() []string { return contents("keys/*.pub.pem") }

func contents(pattern string) []string {
	names, _ := fs.Glob(files, pattern)
	var all []string
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err == nil {
			all = append(all, strings.TrimSpace(string(data)))
		}
	}
	return all
}
