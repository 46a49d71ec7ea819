package eyelet_test

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/eyelet-dev/eyelet"

// imports lists for each package the packages of this repository that its code may import. Test
// files may also import what drives them, but never a package that imports theirs.
var imports = map[string][]string{
	"bench":   {"verify", "internal/freeport", "internal/workdir"},
	"torture": {"dedup", "internal/workdir", "torture/internal/campaign"},
	"torture/internal/campaign": {
		"dedup", "dedup/badgerstore", "dedup/pgstore", "once", "once/oncepgx", "producer", "producer/preset",
		"receiver", "internal/pgserver",
	},
	".": {
		"dedup", "dedup/badgerstore", "producer", "producer/preset", "receiver", "receiver/metrics",
		"internal/httpserver", "internal/duration",
	},
	"cmd/eyelet": {
		"verify", "dedup", "dedup/badgerstore", "dedup/pgstore", "producer", "producer/preset", "receiver", "replay",
		"inspect", "explain", "reconcile", "conform",
		"internal/descriptors", "internal/httpfile", "internal/httpserver", "internal/publicurl",
		"internal/strictjson", "testdata",
		"internal/atomicfile", "cmd/eyelet/internal/config", "cmd/eyelet/internal/forward",
		"cmd/eyelet/internal/opsapi",
		"cmd/eyelet/internal/opsclient", "cmd/eyelet/internal/server", "internal/usage", "internal/conf",
		"internal/duration", "cmd/eyelet/internal/table", "cmd/eyelet/internal/mcp",
		"cmd/eyelet/internal/board", "cmd/eyelet/internal/exchange", "cmd/eyelet/internal/tunnel",
		"cmd/eyelet/internal/load",
	},
	"conform":                      {}, // tests others: it shares no mistake with this module
	"internal/atomicfile":          {},
	"internal/freeport":            {}, // for tests and the benchmark
	"cmd/eyelet/internal/board":    {"cmd/eyelet/internal/table"},
	"cmd/eyelet/internal/exchange": {},
	"cmd/eyelet/internal/tunnel":   {},
	"cmd/eyelet/internal/load":     {"inspect"},
	"cmd/eyelet/internal/config": {
		"verify", "dedup", "dedup/badgerstore", "dedup/memstore", "dedup/pgstore", "producer",
		"producer/preset", "receiver", "testdata",
		"cmd/eyelet/internal/forward", "cmd/eyelet/internal/refused", "cmd/eyelet/internal/sink",
		"cmd/eyelet/internal/tracing", "internal/usage", "internal/conf", "internal/httpserver", "internal/nearest",
		"internal/duration",
	},
	"cmd/eyelet/internal/forward": {
		"verify", "dedup", "internal/publicnet", "internal/atomicfile", "internal/duration",
	},
	"cmd/eyelet/internal/opsapi": {"dedup/badgerstore"},
	"cmd/eyelet/internal/mcp":    {},
	"cmd/eyelet/internal/opsclient": {
		"explain", "inspect", "receiver", "reconcile", "cmd/eyelet/internal/opsapi", "internal/usage",
	},
	"cmd/eyelet/internal/refused": {"verify", "receiver", "inspect", "internal/redact"},
	"cmd/eyelet/internal/server": {
		"dedup", "dedup/badgerstore", "receiver", "receiver/echov4", "receiver/metrics", "inspect", "explain", "verify",
		"producer", "replay", "reconcile", "internal/atomicfile", "cmd/eyelet/internal/forward",
		"cmd/eyelet/internal/opsapi", "cmd/eyelet/internal/refused", "cmd/eyelet/internal/tracing",
		"internal/usage", "internal/httpserver", "internal/redact", "internal/duration",
	},
	"cmd/eyelet/internal/servertest": {}, // for tests
	"cmd/eyelet/internal/sink":       {"receiver", "cmd/eyelet/internal/forward", "internal/strictjson"},
	"cmd/eyelet/internal/table":      {},
	"cmd/eyelet/internal/tracing":    {"verify", "internal/httpserver"},
	"internal/usage":                 {"internal/nearest"},
	"internal/conf":                  {"internal/usage", "internal/duration"},
	"dedup":                          {"dedup/internal/taskqueue"},
	"dedup/memstore":                 {"dedup", "dedup/internal/taskqueue"},
	"dedup/badgerstore": {
		"dedup", "dedup/badgerstore/internal/badgerfile", "dedup/badgerstore/internal/kv",
		"dedup/badgerstore/internal/record", "dedup/badgerstore/internal/redolog",
		"dedup/badgerstore/internal/storedir", "dedup/internal/taskqueue", "internal/duration",
	},
	"dedup/badgerstore/faultdisk":           {"internal/faultdisk"}, // a module of its own, for tests
	"dedup/badgerstore/internal/badgerfile": {},
	"dedup/badgerstore/internal/kv": {
		"dedup", "dedup/badgerstore/internal/badgerfile", "dedup/badgerstore/internal/redolog",
		"dedup/badgerstore/internal/storedir", "dedup/badgerstore/internal/valuefile", "internal/atomicfile",
	},
	"dedup/badgerstore/internal/record":    {"dedup", "dedup/internal/wire"},
	"dedup/badgerstore/internal/redolog":   {"dedup/badgerstore/internal/storedir", "internal/atomicfile"},
	"dedup/badgerstore/internal/storedir":  {"internal/atomicfile"},
	"dedup/badgerstore/internal/valuefile": {"dedup/badgerstore/internal/storedir"},
	"dedup/deduptest":                      {"dedup"},
	"dedup/pgstore":                        {"dedup", "dedup/internal/wire"},
	"dedup/internal/taskqueue":             {},
	"dedup/internal/wire":                  {"dedup"},
	"explain": {
		"verify", "producer", "producer/preset", "internal/nearest", "internal/strictjson", "internal/duration",
	},
	"inspect": {
		"dedup", "replay", "producer", "receiver", "verify", "internal/duration", "internal/redact",
		"inspect/internal/series",
	},
	"inspect/internal/series": {"internal/atomicfile"},
	"internal/descriptors":    {},
	"internal/duration":       {},
	"internal/words":          {},
	"internal/faultdisk":      {},        // for tests
	"internal/history":        {"dedup"}, // for tests
	"internal/httpfile":       {},
	"internal/nearest":        {},
	"internal/httpserver":     {},
	"internal/pgserver":       {},
	"internal/pgtest":         {"internal/pgserver"}, // for tests
	"internal/publicnet":      {},
	"internal/publicurl":      {},
	"internal/redact":         {"internal/strictjson"},
	"internal/sender":         {},
	"internal/strictjson":     {},
	"internal/workdir":        {}, // for modules of their own
	"once":                    {"receiver"},
	"once/oncepgx":            {"once"},
	"producer":                {"verify", "dedup", "internal/strictjson", "internal/duration", "internal/words"},
	"producer/preset": {
		"producer", "verify", "dedup", "internal/conf", "internal/publicnet", "internal/sender", "internal/strictjson",
		"internal/usage",
	},
	"receiver": {
		"verify", "dedup", "producer", "internal/descriptors", "internal/nearest", "internal/sender",
		"internal/strictjson", "receiver/internal/admission", "receiver/internal/capture", "receiver/internal/deadline",
		"receiver/internal/executor", "receiver/internal/tenants", "internal/duration",
	},
	"receiver/echov4":             {"receiver", "receiver/internal/echocore"},
	"receiver/echov5":             {"receiver", "receiver/internal/echocore"},
	"receiver/internal/admission": {"internal/sender", "internal/atomicfile"},
	"receiver/internal/capture":   {},
	"receiver/internal/echocore":  {"receiver", "receiver/internal/capture"},
	"receiver/internal/deadline":  {},
	"receiver/internal/executor":  {},
	"receiver/internal/tenants":   {"dedup", "verify", "receiver/internal/admission"},
	"receiver/metrics":            {"dedup", "producer", "receiver"},
	"receiver/receivertest": {
		"dedup", "dedup/deduptest", "dedup/memstore", "producer", "producer/preset", "receiver", "verify",
	},
	"reconcile": {"dedup", "producer", "receiver", "internal/duration", "verify"},
	"replay":    {"dedup", "internal/httpfile", "internal/publicurl"},
	"testdata":  {},
	"verify":    {"internal/publicnet", "internal/strictjson", "internal/duration", "internal/words"},
}

// notReleased are packages that start, pause and kill servers, or are for tests.
var notReleased = []string{
	"internal/faultdisk", "dedup/deduptest", "internal/freeport", "internal/history", "internal/pgserver",
	"internal/pgtest", "internal/workdir", "receiver/receivertest",
}

// confined lists for each third-party module the folders whose code may import it.
var confined = map[string][]string{
	"github.com/labstack/echo/v4":           {"receiver/echov4/", "cmd/", "bench/"},
	"github.com/labstack/echo/v5":           {"receiver/echov5/"},
	"github.com/pires/go-proxyproto":        {"cmd/eyelet/internal/server/"},
	"github.com/coreos/go-systemd/v22":      {"cmd/eyelet/internal/server/"},
	"github.com/dgraph-io/badger/v4":        {"dedup/badgerstore/"},
	"github.com/KimMachineGun/automemlimit": {"dedup/badgerstore/", "cmd/eyelet/internal/server/"},
	"github.com/jackc/pgx/v5": {
		"dedup/pgstore/", "internal/pgserver/", "internal/pgtest/", "once/oncepgx/", "torture/",
	},
	"go.opentelemetry.io/otel/sdk":        {"cmd/eyelet/internal/tracing/"},
	"go.opentelemetry.io/otel/exporters":  {"cmd/eyelet/internal/tracing/"},
	"go.opentelemetry.io/otel":            {"receiver/", "cmd/eyelet/internal/"},
	"github.com/yaronf/httpsign":          {"verify/rfc9421_engine.go"},
	"github.com/lestrrat-go/jwx/v3":       {"verify/"},
	"github.com/prometheus/client_golang": {"eyelet.go", "receiver/metrics/", "cmd/", "bench/"},
	"github.com/redis/go-redis/v9":        {"bench/"},
	"github.com/charmbracelet/bubbletea":  {"cmd/eyelet/"},
	"golang.org/x/crypto/acme":            {"cmd/eyelet/internal/server/"},
	"golang.org/x/text":                   {"explain/", "cmd/eyelet/internal/table/"},
	"github.com/hanwen/go-fuse/v2":        {"dedup/badgerstore/faultdisk/"},
}

const (
	maxChain       = 8  // packages in a row, each of which imports the next
	maxFiles       = 30 // non-test files in a package
	maxMethodFiles = 5  // files that hold methods of one type
	minLines       = 25 // lines of a file
)

// filesAllowed are packages with a limit of their own.
var filesAllowed = map[string]int{
	"cmd/eyelet":      40, // a file for each command or family of them
	"producer/preset": 56, // one file for each vendor with an algorithm of its own
	"receiver":        35, // the spans of all its steps are in trace.go, and what needs no delivery in fetched.go
	"verify":          36, // the alternatives of each scheme are beside it
}

// tooVague are file names that do not say which concept the file holds.
var tooVague = []string{"common", "helper", "helpers", "misc", "small", "types", "util", "utils"}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		allowed, ok := imports[s.dir]
		example := strings.HasPrefix(s.dir, "examples/")
		if !ok && !example {
			t.Errorf("%s: package %q is not in the table: add it with its imports", s.path, s.dir)
			continue
		}
		for _, name := range importsOf(s) {
			inner, own := strings.CutPrefix(name, module+"/")
			if own && ok && !slices.Contains(allowed, inner) {
				t.Errorf("%s: %q must not import %q", s.path, s.dir, inner)
			}
			if !example {
				checkConfined(t, s.path, name)
			}
		}
	}
}

func importsOf(s source) []string {
	var names []string
	for _, imp := range s.file.Imports {
		if name, err := strconv.Unquote(imp.Path.Value); err == nil {
			names = append(names, name)
		}
	}
	return names
}

func checkConfined(t *testing.T, file, name string) {
	t.Helper()
	for mod, folders := range confined {
		if name != mod && !strings.HasPrefix(name, mod+"/") {
			continue
		}
		if !slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(file, folder) }) {
			t.Errorf("%s: %s is confined to %v", file, mod, folders)
		}
	}
}

func TestTheTableListsOnlyImportsThatExist(t *testing.T) {
	t.Parallel()
	direct := directImports(t)
	for _, dir := range slices.Sorted(maps.Keys(imports)) {
		if direct[dir] == nil {
			t.Errorf("the table lists %q, which has no Go files", dir)
		}
		for _, inner := range imports[dir] {
			if direct[dir] != nil && !direct[dir][inner] {
				t.Errorf("the table lets %q import %q, which it does not", dir, inner)
			}
		}
	}
}

// directImports returns for each package the packages of this module that its code imports.
func directImports(t *testing.T) map[string]map[string]bool {
	t.Helper()
	direct := map[string]map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		if direct[s.dir] == nil {
			direct[s.dir] = map[string]bool{}
		}
		for _, name := range importsOf(s) {
			if inner, own := strings.CutPrefix(name, module+"/"); own {
				direct[s.dir][inner] = true
			}
		}
	}
	return direct
}

// TestTheBinaryStopsNoServers follows all imports from the released binary.
func TestTheBinaryStopsNoServers(t *testing.T) {
	t.Parallel()
	direct := directImports(t)
	linked, next := map[string]bool{}, []string{"cmd/eyelet"}
	for len(next) > 0 {
		dir := next[0]
		if next = next[1:]; !linked[dir] {
			linked[dir] = true
			next = slices.AppendSeq(next, maps.Keys(direct[dir]))
		}
	}
	if !linked["receiver"] {
		t.Error("the binary links no receiver: this test follows the wrong imports")
	}
	for dir := range linked {
		if slices.Contains(notReleased, dir) || ownModule(dir) != "" {
			t.Errorf("the binary links %q", dir)
		}
	}
}

func TestImportChainsStayShort(t *testing.T) {
	t.Parallel()
	direct := directImports(t)
	var longest []string
	for dir := range direct {
		if c := chainFrom(dir, direct); len(c) > len(longest) {
			longest = c
		}
	}
	t.Logf("longest chain: %s", strings.Join(longest, " -> "))
	if n := len(longest); n > maxChain {
		t.Errorf("%d packages import each other in a row, want at most %d", n, maxChain)
	}
}

// chainFrom returns the longest chain of imports that begins with a package. Go allows no cycles.
func chainFrom(dir string, direct map[string]map[string]bool) []string {
	var longest []string
	for next := range direct[dir] {
		if c := chainFrom(next, direct); len(c) > len(longest) {
			longest = c
		}
	}
	return append([]string{dir}, longest...)
}

func TestPackagesHaveFewFiles(t *testing.T) {
	t.Parallel()
	atMost := func(dir string) int {
		if limit, ok := filesAllowed[dir]; ok {
			return limit
		}
		return maxFiles
	}
	checkLimit(t, "non-test files", filesByPackage(t), atMost)
}

func filesByPackage(t *testing.T) map[string]int {
	t.Helper()
	files := map[string]int{}
	for _, s := range sources(t) {
		if !s.isTest() {
			files[s.dir]++
		}
	}
	return files
}

func TestTheMethodsOfATypeAreInFewFiles(t *testing.T) {
	t.Parallel()
	files := map[string]map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || s.isTest() {
				continue
			}
			name := s.dir + "." + baseType(f.Recv.List[0].Type).Name
			if files[name] == nil {
				files[name] = map[string]bool{}
			}
			files[name][s.path] = true
		}
	}
	counts := map[string]int{}
	for name, set := range files {
		counts[name] = len(set)
	}
	checkLimit(t, "files with methods", counts, func(string) int { return maxMethodFiles })
}

// baseType returns the name of a type without pointer, package and type parameters.
func baseType(t ast.Expr) *ast.Ident {
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.SelectorExpr:
			t = x.Sel
		case *ast.Ident:
			return x
		default:
			return ast.NewIdent("?")
		}
	}
}

func checkLimit(t *testing.T, what string, counts map[string]int, limit func(name string) int) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if n, most := counts[name], limit(name); n > most {
			t.Errorf("%s has %d %s, want at most %d", name, n, what, most)
		}
	}
}

func TestFileNamesNameAConcept(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		base := strings.TrimSuffix(path.Base(s.path), ".go")
		for part := range strings.SplitSeq(strings.TrimSuffix(base, "_test"), "_") {
			if slices.Contains(tooVague, part) {
				t.Errorf("%s: %q does not say what the file holds", s.path, part)
			}
		}
	}
}

// TestFilesAreNotTiny excepts files with build tags, and a package whose other files all have them.
func TestFilesAreNotTiny(t *testing.T) {
	t.Parallel()
	untagged := map[string]int{}
	for _, s := range sources(t) {
		if !s.isTest() && !s.isTagged() {
			untagged[s.dir]++
		}
	}
	for _, s := range sources(t) {
		if s.isTest() || s.isTagged() || untagged[s.dir] == 1 {
			continue
		}
		if n := s.lines(); n < minLines {
			t.Errorf("%s has %d lines, want at least %d: its subject belongs to a larger one", s.path, n, minLines)
		}
	}
}
