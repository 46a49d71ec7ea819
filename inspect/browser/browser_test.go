// Package browser_test drives a browser against the page of a running eyelet serve. It is a module
// of its own because of its dependencies.
package browser_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "folder for pictures of every view in both themes and widths")

// axeVersion is the pinned version of axe-core, whose rules every view must keep.
const axeVersion = "4.14.1"

// patience bounds one step of a browser.
const patience = 60 * time.Second

// browser is a headless browser.
type browser struct {
	ctx context.Context
	axe string // source of axe-core; "" if it cannot be fetched
}

// newBrowser starts the browser of EYELET_BROWSER, or the installed one.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := os.Getenv("EYELET_BROWSER")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); path == "" && err == nil {
			path = found
		}
	}
	if path == "" {
		missing(t, "no browser: apt-get install chromium, or set EYELET_BROWSER")
	}
	axe, err := fetchAxe(t.TempDir())
	if err != nil {
		missing(t, "no axe-core: "+err.Error())
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
			chromedp.WSURLReadTimeout(patience))...)
	t.Cleanup(end)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("the browser %s does not start: %v", path, err)
	}
	return &browser{ctx: ctx, axe: axe}
}

// missing skips the test, or fails it where everything must run.
func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("EYELET_REQUIRE_BROWSER") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// fetchAxe returns the source of axe-core from the npm registry.
func fetchAxe(dir string) (string, error) {
	npm := exec.Command("npm", "pack", "--silent", "axe-core@"+axeVersion)
	npm.Dir = dir
	var errs bytes.Buffer
	npm.Stderr = &errs
	if err := npm.Run(); err != nil {
		return "", fmt.Errorf("npm pack: %w: %s", err, errs.String())
	}
	f, err := os.Open(filepath.Join(dir, "axe-core-"+axeVersion+".tgz"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if err != nil {
			return "", fmt.Errorf("axe.min.js: %w", err)
		}
		if h.Name == "package/axe.min.js" {
			text, err := io.ReadAll(files)
			return string(text), err
		}
	}
}

// tab is a window with its own cookies. Its test fails if the page does what it must not: writes
// to the console, violates its policy, or asks another host.
type tab struct {
	*testing.T
	browser  *browser
	ctx      context.Context
	base     string
	mu       sync.Mutex
	expected []string // parts of messages that the test provokes
}

func (b *browser) open(t *testing.T, s *server) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	x := &tab{T: t, browser: b, ctx: ctx, base: "http://" + s.address}
	err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *cdpruntime.EventConsoleAPICalled:
			x.complain(fmt.Sprintf("the console has %s %s", ev.Type, ev.Args[0].Value))
		case *cdpruntime.EventExceptionThrown:
			x.complain("a script failed: " + ev.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			x.complain(fmt.Sprintf("the browser reports: %s (%s)", ev.Entry.Text, ev.Entry.URL))
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(ev.Request.URL); err != nil || u.Host != s.address {
				x.complain("a request to " + ev.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(x, network.Enable, network.EnableParams{})
	call(x, log.Enable, cdp.Empty{})
	x.size(1280, 800)
	return x
}

// expect allows messages with a text.
func (x *tab) expect(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expected = append(x.expected, text)
}

func (x *tab) complain(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, text := range x.expected {
		if strings.Contains(what, text) {
			return
		}
	}
	x.Error(what)
}

func (x *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		x.Fatalf("%v\n%s", err, x.where())
	}
}

// where describes the page, for failures.
func (x *tab) where() string {
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx,
		chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText.slice(0, 900)`))
	return fmt.Sprintf("the page is %s (%v)", text, err)
}

// eval returns the value of an expression.
func eval[T any](x *tab, expression string, options ...chromedp.EvaluateOption) T {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		x.Fatalf("%v\n%s", err, x.where())
	}
	return v
}

// call sends a command of the protocol.
func call[P, R any](x *tab, command cdp.Command[P, R], params P) {
	x.Helper()
	if _, err := chromedp.Call(x.ctx, command, params); err != nil {
		x.Fatal(err)
	}
}

func (x *tab) size(width, height int64) {
	x.Helper()
	x.run(chromedp.EmulateViewport(width, height))
}

// theme sets what the system prefers.
func (x *tab) theme(name string) {
	x.Helper()
	call(x, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// visit loads a path of the server.
func (x *tab) visit(path string) {
	x.Helper()
	x.run(chromedp.Navigate(x.base+path), chromedp.WaitReady(chromedp.CSS("main")))
}

// login loads the page with a login code.
func (x *tab) login(s *server) {
	x.Helper()
	address := s.output(x.T, "open", "--print")
	x.visit(strings.TrimPrefix(address, x.base))
	x.waits("the deliveries are shown", `!!document.querySelector("#rows")`)
}

// click clicks an element and waits for what follows by itself.
func (x *tab) click(selector string) {
	x.Helper()
	x.run(chromedp.Click(chromedp.CSS(selector)))
}

// types types into a field.
func (x *tab) types(selector, keys string) {
	x.Helper()
	x.run(chromedp.SendKeys(chromedp.CSS(selector), keys))
}

// waits waits until an expression is true. An exception counts as not yet: the page may be loading.
func (x *tab) waits(what, expression string) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	for {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && holds {
			return
		}
		select {
		case <-ctx.Done():
			x.Fatalf("not within %s: %s (%v)\n%s", patience, what, err, x.where())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// sees waits for a text on the page.
func (x *tab) sees(text string) {
	x.Helper()
	x.waits("the page has "+text, fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// text returns the text of the page.
func (x *tab) text() string {
	x.Helper()
	return eval[string](x, `document.body.innerText`)
}

// audit requires that nothing is wider than the window and that no rule of axe-core is violated.
func (x *tab) audit(what string) {
	x.Helper()
	wide := eval[string](x, `(() => {
		const width = document.documentElement.clientWidth;
		if (document.documentElement.scrollWidth <= width) return '';
		return [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > width + 1)
			.map((e) => e.tagName + '.' + e.className).slice(0, 5).join(' ') || 'it scrolls';
	})()`)
	if wide != "" {
		x.Errorf("%s is wider than its window: %s", what, wide)
	}
	run := `axe.run(document, {runOnly: [
		'wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice',
	]}).then((r) => r.violations.map((v) => v.id + ': ' +
		v.nodes.map((n) => n.target.join(' ') + ' ' + n.failureSummary).slice(0, 3).join('; ')))`
	eval[chromedp.Void](x, x.browser.axe)
	violations := eval[[]string](x, run, chromedp.EvalAwaitPromise)
	for _, v := range violations {
		x.Errorf("%s violates %s", what, v)
	}
}

// picture writes a screenshot, if they are asked for.
func (x *tab) picture(name string) {
	x.Helper()
	if *screenshots == "" {
		return
	}
	png, err := chromedp.Run(x.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		x.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644); err != nil {
		x.Fatal(err)
	}
}
