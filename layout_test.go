package eyelet_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/eyelet-dev/eyelet"

// rooms is the house: for each room the rooms of this module that its code may import. Test files may also
// import what they need to be driven by: a room's own neighbours above it are never among them.
var rooms = map[string][]string{
	"verify":                               {},
	"dedup":                                {"dedup/internal/agenda"},
	"dedup/internal/agenda":                {},
	"dedup/deduptest":                      {"dedup"},
	"dedup/badgerstore":                    {"dedup", "dedup/internal/agenda"},
	"dedup/badgerstore/internal/faultdisk": {}, // for tests
	"producer":                             {"verify", "dedup"},
	"receiver":                             {"verify", "dedup", "producer", "internal/descriptors"},
	"receiver/echov4":                      {"receiver"},
	"cmd/eyelet/internal/forward":          {"verify"},
	"replay":                               {"verify", "dedup", "producer", "internal/httpfile"},
	"inspect":                              {"dedup", "replay"},
	"internal/descriptors":                 {},
	"internal/httpfile":                    {},
	"testdata":                             {},
	"cmd/loadbench":                        {"dedup/badgerstore", "producer", "receiver", "receiver/echov4"},
	"cmd/eyelet": {
		"verify", "dedup", "dedup/badgerstore", "producer", "receiver", "receiver/echov4", "cmd/eyelet/internal/forward", "replay", "inspect",
		"internal/descriptors", "internal/httpfile", "testdata",
	},
}

// confined names third-party modules that stay behind one door, and the files that may import them.
var confined = map[string][]string{
	"github.com/labstack/echo/v4":           {"receiver/echov4/", "cmd/"},
	"github.com/dgraph-io/badger/v4":        {"dedup/badgerstore/"},
	"github.com/KimMachineGun/automemlimit": {"dedup/badgerstore/"},
	"github.com/yaronf/httpsign":            {"verify/"},
	"github.com/lestrrat-go/jwx/v3":         {"verify/"},
	"github.com/hanwen/go-fuse/v2":          {"dedup/badgerstore/internal/faultdisk/"},
	"github.com/cloudevents/sdk-go/v2":      {}, // an oracle for tests only
}

func TestRoomsImportOnlyWhatTheHouseAllows(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		checkFile(t, filepath.ToSlash(path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("no Go files were looked at")
	}
}

func checkFile(t *testing.T, path string) {
	t.Helper()
	room := filepath.ToSlash(filepath.Dir(path))
	allowed, ok := rooms[room]
	if !ok && !strings.HasPrefix(room, "examples/") {
		t.Errorf("%s: room %q is not in the house: add it to the table with what it may import", path, room)
		return
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	for _, imp := range f.Imports {
		name, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if inner, own := strings.CutPrefix(name, module+"/"); own && ok && !contains(allowed, inner) {
			t.Errorf("%s: room %q must not import %q", path, room, inner)
		}
		checkConfined(t, path, name)
	}
}

func checkConfined(t *testing.T, path, name string) {
	t.Helper()
	if strings.HasPrefix(path, "examples/") {
		return
	}
	for mod, doors := range confined {
		if name != mod && !strings.HasPrefix(name, mod+"/") {
			continue
		}
		inside := false
		for _, door := range doors {
			inside = inside || strings.HasPrefix(path, door)
		}
		if !inside {
			t.Errorf("%s: %s is confined to %v", path, mod, doors)
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
