package eyelet_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// dist is a folder with a release, which ops/release.sh made.
func dist(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("EYELET_DIST")
	if dir == "" {
		t.Skip("skipped: EYELET_DIST names no release; ops/check.sh makes one")
	}
	return dir
}

// provenance is what a statement says of a release.
type provenance struct {
	Type, PredicateType string
	Subject             []struct {
		Name   string
		Digest map[string]string
	}
	Predicate struct {
		BuildDefinition struct {
			ExternalParameters, InternalParameters map[string]string
			ResolvedDependencies                   []struct{ Digest map[string]string }
		}
	}
}

func readJSON(t *testing.T, v any, path ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err = errors.Join(err, json.Unmarshal(text, v)); err != nil {
		t.Fatalf("%s: %v", filepath.Join(path...), err)
	}
}

func digestOf(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// TestReleaseProvenanceNamesEveryFile by its digest, and the image.
func TestReleaseProvenanceNamesEveryFile(t *testing.T) {
	dir := dist(t)
	var p provenance
	readJSON(t, &p, dir, "provenance.json")
	var index struct{ Manifests []struct{ Digest string } }
	readJSON(t, &index, dir, "image", "index.json")
	named := map[string]string{}
	for _, s := range p.Subject {
		named[s.Name] = s.Digest["sha256"]
	}
	image := "ghcr.io/" + strings.TrimPrefix(module, "github.com/")
	want := map[string]string{image: strings.TrimPrefix(index.Manifests[0].Digest, "sha256:")}
	for _, ending := range []string{"tar.gz", "zip", "deb", "rpm", "sbom.json"} {
		files, err := filepath.Glob(filepath.Join(dir, "*."+ending))
		if err != nil || len(files) == 0 {
			t.Errorf("no *.%s: %v", ending, err)
		}
		for _, file := range files {
			want[filepath.Base(file)] = digestOf(t, file)
		}
	}
	if !maps.Equal(named, want) {
		t.Errorf("the provenance names\n%v\nwant\n%v", named, want)
	}
	build := p.Predicate.BuildDefinition
	if p.PredicateType != "https://slsa.dev/provenance/v1" || build.InternalParameters["go"] != runtime.Version() ||
		!regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(build.ResolvedDependencies[0].Digest["gitCommit"]) {
		t.Errorf("the provenance is %+v", p)
	}
}

// TestReleaseArchivesNameVersionAndCommit runs the program of this system's archive.
func TestReleaseArchivesNameVersionAndCommit(t *testing.T) {
	dir, to := dist(t), t.TempDir()
	var p provenance
	readJSON(t, &p, dir, "provenance.json")
	archive := filepath.Join(dir, "eyelet_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	if out, err := exec.Command("tar", "-xzf", archive, "-C", to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(filepath.Join(to, "eyelet"), "version", "-o", "json").Output()
	var got struct{ Version, Commit string }
	build := p.Predicate.BuildDefinition
	if err = errors.Join(err, json.Unmarshal(out, &got)); err != nil ||
		got.Version != "v"+build.ExternalParameters["version"] ||
		strings.TrimSuffix(got.Commit, "+changed") != build.ResolvedDependencies[0].Digest["gitCommit"] {
		t.Errorf("the program is of %+v, and the provenance says %+v (%v)", got, build, err)
	}
	boms, err := filepath.Glob(filepath.Join(dir, "*.sbom.json"))
	if err != nil || len(boms) < 6 {
		t.Errorf("%d SBOMs: %v", len(boms), err)
	}
	for _, file := range boms {
		var bom struct{ Packages []struct{ Name string } }
		readJSON(t, &bom, file)
		if !slices.ContainsFunc(bom.Packages, func(p struct{ Name string }) bool {
			return p.Name == "github.com/dgraph-io/badger/v4"
		}) {
			t.Errorf("%s names no badger in %d packages", file, len(bom.Packages))
		}
	}
}

// manifest is that of an image for one platform, or the index of several.
type manifest struct {
	Manifests []struct {
		Digest   string
		Platform struct{ OS, Architecture string }
	}
	Config struct{ Digest string }
	Layers []struct{ Digest string }
}

// TestReleaseImageHasTheProgram for two platforms, and runs it as a user without rights.
func TestReleaseImageHasTheProgram(t *testing.T) {
	dir := filepath.Join(dist(t), "image")
	blob := func(digest string) string {
		name := strings.TrimPrefix(digest, "sha256:")
		file := filepath.Join(dir, "blobs", "sha256", name)
		if got := digestOf(t, file); got != name {
			t.Errorf("%s has the digest %s", file, got)
		}
		return file
	}
	var top, index manifest
	readJSON(t, &top, dir, "index.json")
	readJSON(t, &index, blob(top.Manifests[0].Digest))
	var platforms []string
	for _, one := range index.Manifests {
		platforms = append(platforms, one.Platform.OS+"/"+one.Platform.Architecture)
		var m manifest
		readJSON(t, &m, blob(one.Digest))
		var image struct {
			OS, Architecture string
			Config           struct {
				User            string
				Entrypoint, Cmd []string
			}
		}
		readJSON(t, &image, blob(m.Config.Digest))
		c := image.Config
		if image.OS+"/"+image.Architecture != platforms[len(platforms)-1] || c.User != "65532:65532" ||
			!slices.Equal(append(c.Entrypoint, c.Cmd...), []string{"/usr/bin/eyelet", "serve"}) {
			t.Errorf("the image is %+v", image)
		}
		files := map[string]*tar.Header{}
		for _, layer := range m.Layers {
			addFiles(t, files, blob(layer.Digest))
		}
		for name, owner := range map[string]int{"usr/bin/eyelet": 0, "var/lib/eyelet": 65532,
			"etc/ssl/certs/ca-certificates.crt": 0, "etc/passwd": 0} {
			if h := files[name]; h == nil || h.Uid != owner || h.Mode&0o022 != 0 {
				t.Errorf("%s is %+v", name, h)
			}
		}
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("the platforms are %v", platforms)
	}
}

// addFiles adds the members of a layer by their names.
func addFiles(t *testing.T, files map[string]*tar.Header, layer string) {
	t.Helper()
	f, err := os.Open(layer)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(unzipped)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		files[strings.Trim(h.Name, "./")] = h
	}
}
