package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/freeport"
)

// TestTheReadmeRunsAsWritten runs the commands of README that make up its sessions, and compares
// what they print. The service is started with its configuration.
func TestTheReadmeRunsAsWritten(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	check(t, err)
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	at, err := url.Parse(app.URL)
	check(t, err)
	home, seen := t.TempDir(), 0
	var listening *running
	var waitFor func(string) string
	var prints string
	console := regexp.MustCompile("(?ms)^```console\n(.*?)^```")
	for _, block := range console.FindAllStringSubmatch(string(text), -1) {
		for _, part := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, _ := strings.Cut(part, "\n")
			command, _, _ = strings.Cut(command, " #")
			seen++
			switch args := strings.Fields(command); {
			case command == "go run ./cmd/eyelet dev --once":
				code, out, _ := run(t, "dev", "--once")
				shown := strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, "(?s:.*)")
				if code != exitOK || !regexp.MustCompile("^"+shown+"$").MatchString(out) {
					t.Errorf("%s: exit %d:\n%s", command, code, out)
				}
			case strings.HasPrefix(command, "eyelet listen 3000 "):
				args[2] = at.Port()
				listening, waitFor = startListen(t, home, append(args[2:], "--listen", "127.0.0.1:0")...)
				prints = want
			default:
				var out bytes.Buffer
				p := &program{In: strings.NewReader(""), Out: &out, Err: &out,
					Environ: []string{"XDG_CONFIG_HOME=" + home}}
				if code := p.Run(t.Context(), args[1:]...); code != exitOK || ofAnyRun(out.String()) != ofAnyRun(want) {
					t.Errorf("%s: exit %d: %s", command, code, out.String())
				}
			}
		}
	}
	if seen != 3 || listening == nil {
		t.Fatalf("%d commands were run", seen)
	}
	printed := waitFor("forwarded")
	if printed = listening.errs.String() + printed; ofAnyRun(printed) != ofAnyRun(prints) {
		t.Errorf("listen prints:\n%s\nREADME says:\n%s", printed, prints)
	}
}

// ofAnyRun returns output without what differs between two runs, and between a test and a program.
func ofAnyRun(out string) string {
	out = strings.ReplaceAll(out, "go run ./cmd/eyelet", "eyelet")
	differs := regexp.MustCompile(`\d\d:\d\d:\d\d|(?:localhost|127\.0\.0\.1):\d+|\d[\d.]* [mµ]?s\b`)
	out = differs.ReplaceAllString(out, "#")
	out = regexp.MustCompile(`(whsec|evt)_\S+|"event":"\w+"`).ReplaceAllString(out, "$1")
	return strings.TrimSpace(out)
}

// TestTheServiceOfTheReadmeStarts with its configuration, on other ports; its module is named as
// README says.
func TestTheServiceOfTheReadmeStarts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	check(t, err)
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	settings, _, _ := strings.Cut(rest, "```")
	address := freeport.Address()
	tut := &tutorial{t: t, dir: t.TempDir(), environ: append(os.Environ(), "GITHUB_SECRET=a-long-secret",
		"EYELET_LISTEN="+address, "EYELET_OPERATIONS="+freeport.Address(),
		"PATH="+filepath.Dir(realProgram(t))+":"+os.Getenv("PATH"))}
	tut.write("eyelet.yaml", settings)
	tut.write("SECRET", "a-long-secret")
	send := regexp.MustCompile("`(eyelet send github [^`]+)`").FindStringSubmatch(string(text))
	if send == nil {
		t.Fatal("README does not say how to try the program")
	}
	to := strings.NewReplacer("127.0.0.1:8080", address, "/webhooks/github", "/webhooks/gh")
	tut.session("$ eyelet config check\n$ eyelet serve\n$ " + to.Replace(send[1]))
	naming := regexp.MustCompile("`(go mod edit [^`]+)`").FindStringSubmatch(string(text))
	provisional := strings.Contains(string(text), "<!-- shown by ops/publish-path.sh")
	if provisional != (naming != nil) ||
		!strings.Contains(string(text), "`go build -o eyelet ./cmd/eyelet && PATH=$PWD:$PATH`") {
		t.Fatal("README does not say how to name a clone, or to build the program, which realProgram does")
	}
	if !provisional {
		return
	}
	c := exec.Command("sh", "-c", "go mod init example.com/hooks && "+naming[1]+" && grep ../eyelet go.mod")
	c.Dir = tut.dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", naming[1], err, out)
	}
}
