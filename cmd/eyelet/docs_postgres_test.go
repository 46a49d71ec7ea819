package main

import (
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/internal/freeport"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// TestThePostgresTutorialRunsAsWritten runs the first section of docs/postgres.md with a server of
// the tests.
func TestThePostgresTutorialRunsAsWritten(t *testing.T) {
	t.Parallel()
	long(t)
	pgtest.Programs(t)
	admin := serverURL(t, "postgres", "")
	if _, err := exec.LookPath("psql"); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "\n## Two receivers and an exact counter\n")
	section, _, _ = strings.Cut(section, "\n## ")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	one, two := freeport.Address(), freeport.Address()
	section = strings.NewReplacer("127.0.0.1:8091", one, "127.0.0.1:8092", two,
		"sudo -u postgres psql", "psql '"+admin+"'", "examples/postgres/run.sh", root+"/examples/postgres/run.sh",
		"postgres://payments:choose-one@127.0.0.1/payments", serverURL(t, "payments", "payments"),
	).Replace(section)
	bin := t.TempDir()
	buildAsWritten(t, section, root, bin)
	t.Cleanup(func() { dropPayments(t, admin) })
	portOne := strconv.Itoa(freeport.Port())
	portTwo := strconv.Itoa(freeport.Port())
	tut := &tutorial{t: t, dir: t.TempDir(), environ: append(os.Environ(), "PORT_ONE="+portOne, "PORT_TWO="+portTwo,
		"PATH="+bin+":"+os.Getenv("PATH"))}
	runPostgresSection(t, tut, section)
	if tut.commands != 12 {
		t.Errorf("%d commands were run, want 12", tut.commands)
	}
}

// buildAsWritten runs the first block of a section in the repository. Its programs are in a folder.
func buildAsWritten(t *testing.T, section, root, bin string) {
	t.Helper()
	_, block, _ := strings.Cut(section, "\n```sh\n")
	block, _, _ = strings.Cut(block, "\n```")
	outputs := regexp.MustCompile(` -o (\S+)`)
	for _, m := range outputs.FindAllStringSubmatch(block, -1) {
		if info, err := os.Stat(filepath.Join(root, m[1])); err == nil && info.IsDir() {
			t.Fatalf("%s is a folder: go build writes into it", m[1])
		}
	}
	c := exec.CommandContext(t.Context(), "sh", "-ec", outputs.ReplaceAllString(block, " -o "+bin+"/$1"))
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", block, err, out)
	}
}

func runPostgresSection(t *testing.T, tut *tutorial, section string) {
	t.Helper()
	program, err := os.ReadFile("../../examples/postgres/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(section, "\n```")[1:] {
		language, content, _ := strings.Cut(block, "\n")
		switch language {
		case "yaml":
			tut.write("eyelet.yaml", content)
		case "go":
			if !strings.Contains(string(program), content) {
				t.Errorf("the example does not contain %s", content)
			}
		case "console":
			tut.session(content)
		}
	}
}

// startReceiver starts the example until the end of the test, and waits until it listens.
func (tut *tutorial) startReceiver(address string) {
	tut.t.Helper()
	const untilTheEnd = "payments $0 & cat >/dev/null; kill $!; wait" // also of a test that is killed
	c := exec.CommandContext(tut.t.Context(), "sh", "-c", untilTheEnd, address)
	c.Dir, c.Env = tut.dir, tut.environ
	lifeline, err := c.StdinPipe()
	if err != nil {
		tut.t.Fatal(err)
	}
	c.Cancel = lifeline.Close
	c.WaitDelay = 30 * time.Second
	if err := c.Start(); err != nil {
		tut.t.Fatal(err)
	}
	tut.t.Cleanup(func() { _ = c.Wait() })
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		time.Sleep(20 * time.Millisecond) // until it listens
	}
}

// serverURL returns the address of a database of the server of the tests, for a user of it.
func serverURL(t *testing.T, database, user string) string {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	if u.Path = "/" + database; user != "" {
		u.User = url.UserPassword(user, "choose-one")
	}
	return u.String()
}

// dropPayments removes what the page creates.
func dropPayments(t *testing.T, admin string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, admin)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS payments WITH (FORCE)", "DROP ROLE IF EXISTS payments",
	} {
		if _, err := c.Exec(ctx, statement); err != nil {
			t.Error(err)
		}
	}
}
