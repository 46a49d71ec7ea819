package browser_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const pushBody = `{"ref":"refs/heads/main","repository":{"full_name":"tea/kettle","private":true,"stars":42},
"commits":[{"id":"b7a1c9e","message":"Describe the whistle"}],"pusher":{"name":"Rosa Müller"}}`

// many is how many dead letters one job reopens.
const many = 500

// TestPage drives the page through what an operator does. Its parts share a server.
func TestPage(t *testing.T) {
	b := newBrowser(t)
	s := serve(t)
	for i := range 6 {
		s.deliver(t, fmt.Sprint("push-", i), "push", pushBody+strings.Repeat(" ", i), true, 200)
	}
	s.deliver(t, "push-1", "push", pushBody+" ", true, 200)
	s.deliver(t, "issue-1", "issues", `{"action":"opened","issue":{"number":4711}}`, true, 200)
	s.deliver(t, "forged-1", "push", pushBody, false, 401)
	s.deliver(t, "push-copied", "push", pushBody, true, 200)
	for i := range 3 {
		s.deliver(t, fmt.Sprint("release-", i), "release", fmt.Sprintf(`{"release":{"id":%d}}`, i), true, 200)
	}
	eventually(t, "all have an outcome", func() bool {
		return s.output(t, "events", "list", "--state", "pending,running") == ""
	})
	for _, part := range []struct {
		name string
		run  func(*tab, *server)
	}{
		{"Views", views},
		{"LoginByCodeAndToken", logins},
		{"RowsComeByThemselves", liveRows},
		{"FilterAndSearch", filters},
		{"Event", event},
		{"BodyBesideTimeline", bodyBesideTimeline},
		{"Rows", rowHeights},
		{"Phone", phone},
		{"SendToLocalhost", sendToLocalhost},
		{"Refused", refused},
		{"EditAndSend", editAndSend},
		{"Keyboard", keyboard},
		{"WithoutJavaScript", withoutScripts},
		{"ReadOnly", readOnly},
		{"ReopenOne", reopenOne},
		{"RunAgain", runAgain},
		{"ReopenMany", reopenMany},
		{"ChosenTheme", chosenTheme},
		{"TextsOfOthers", textsOfOthers},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(b.open(t, s), s) })
	}
}

// views looks at every view in both themes and widths.
func views(x *tab, s *server) {
	x.login(s)
	x.visit("/ui/?state=dead")
	dead := eval[string](x, `document.querySelector("a.row").getAttribute("href")`)
	for _, theme := range []string{"light", "dark"} {
		x.theme(theme)
		for _, width := range []int64{1920, 1280, 360} {
			x.size(width, 800)
			for name, path := range map[string]string{
				"deliveries": "/ui/", "refused": "/ui/?show=refused", "search": "/ui/?q=kettle",
				"nothing": "/ui/?q=nothing+has+this", "event": dead, "dead": "/ui/dead",
				"producers": "/ui/producers", "health": "/ui/health", "days": "/ui/health?range=7d",
				"period": "/ui/?until=2001-01-01T00:00Z", "none": "/ui/nowhere",
			} {
				if name == "none" {
					x.expect("404")
				}
				x.visit(path)
				what := fmt.Sprintf("%s-%s-%d", name, theme, width)
				x.audit(what)
				x.picture(what)
			}
		}
	}
}

func logins(x *tab, s *server) {
	x.visit("/ui/")
	x.sees("eyelet open")
	x.audit("login")
	x.picture("login-light-1280")
	x.expect("401")
	x.types("#token", "wrong"+kb.Enter)
	x.sees("That is not the token")
	x.types("#token", s.token(x.T, "operations.token")+kb.Enter)
	x.waits("the deliveries are shown", `!!document.querySelector("#rows")`)
	x.click(`[aria-label="Log out"]`)
	x.sees("eyelet open")
	x.visit("/ui/dead")
	x.sees("eyelet open")

	address := strings.TrimPrefix(s.output(x.T, "open", "--print"), x.base)
	x.visit(address)
	x.waits("the code logs in", `location.pathname === "/ui/" && !!document.querySelector("#rows")`)
	x.visit(address)
	x.sees("This link was used already")
}

func liveRows(x *tab, s *server) {
	x.login(s)
	x.waits("the list is live", `document.querySelector("#live.on") !== null`)
	s.deliver(x.T, "live-1", "push", `{"live":1}`, true, 200)
	x.waits("the row comes and its state follows",
		`document.querySelector("#rows li").innerText.includes("live-1") &&
			document.querySelector("#rows li em").innerText === "handled"`)
	s.deliver(x.T, "live-1", "push", `{"live":1}`, true, 200)
	x.waits("the duplicate comes", `document.querySelector("#rows li .chip").innerText === "duplicate"`)
	s.deliver(x.T, "forged", "push", `{"live":2}`, false, 401)
	x.waits("the refused delivery comes", `document.querySelector("#rows li .chip").innerText === "refused"`)
	x.audit("live rows")
}

func filters(x *tab, s *server) {
	x.login(s)
	rows := func(what, holds string) {
		x.Helper()
		x.waits(what, `(() => {
			const rows = [...document.querySelectorAll("#rows li")].map((r) => r.innerText);
			return rows.length > 0 && `+holds+`;
		})()`)
	}
	x.click(`.seg a:nth-child(4)`)
	rows("only refused deliveries", `location.search.includes("refused") && rows.every((r) => r.includes("refused"))`)
	x.click(`.seg a:nth-child(3)`)
	rows("only duplicates", `location.search.includes("duplicate") && rows.every((r) => r.includes("duplicate"))`)
	x.click(`.seg a:nth-child(1)`)
	x.types("#q", "4711"+kb.Enter)
	rows("the event with the text in its body", `rows.length === 1 && rows[0].includes("issue-1")`)
	x.sees("Searched")
	x.visit("/ui/?endpoint=stripe")
	x.sees("Nothing here matches")
	x.visit("/ui/?state=dead")
	rows("dead letters", `rows.every((r) => r.includes("dead letter") || r.includes("quarantined"))`)
}

func event(x *tab, s *server) {
	x.login(s)
	x.visit("/ui/?q=issue-1")
	x.click("a.row")
	x.waits("the event is beside the list",
		`document.querySelector("main.open .pane h1").innerText === "issues" && location.pathname.includes("/events/")`)
	for _, text := range []string{
		"Verified and stored", "Answered 200", "Attempts 1 to 3", "dial ledger:5432: connection refused", "Dead letter",
	} {
		x.sees(text)
	}
	for _, form := range []struct{ label, text string }{
		{"v2", `{"action":"opened","issue":{"number":4711}}`}, {"v3", "7b 22 61 63 74 69 6f 6e"},
		{"v4", "X-Github-Delivery"}, {"v1", "number"},
	} {
		x.click("[for=" + form.label + "]")
		x.waits("the body as "+form.label, fmt.Sprintf(`[...document.querySelectorAll(".view")]
			.some((v) => getComputedStyle(v).display !== "none" && v.innerText.includes(%q))`, form.text))
	}
	x.audit("event")
	x.run(chromedp.NavigateBack())
	x.waits("back to the list", `!location.pathname.includes("/events/") && !document.querySelector("main.open")`)
}

// shows requires that the whole width of an element, and at least 200 of its pixels in height, are
// in the window.
func (x *tab) shows(selector string) {
	x.Helper()
	if !eval[bool](x, fmt.Sprintf(`(() => {
		const r = document.querySelector(%q).getBoundingClientRect();
		return r.left >= 0 && r.right <= innerWidth && r.top >= 0 && r.top <= innerHeight - Math.min(r.height, 200);
	})()`, selector)) {
		x.Errorf("%s is not in the window", selector)
	}
}

func bodyBesideTimeline(x *tab, s *server) {
	x.login(s)
	for _, query := range []string{"?q=issue-1", "?show=refused"} {
		for _, width := range []int64{1280, 1920} {
			x.size(width, 800)
			x.visit("/ui/" + query)
			x.click("a.row")
			x.sees("Body, ")
			x.shows(".view.w1")
			if eval[bool](x, `document.querySelector(".set").getBoundingClientRect().left <
				document.querySelector(".sides section").getBoundingClientRect().right`) {
				x.Errorf("%s at %d: the body is not beside what happened", query, width)
			}
		}
	}
}

func rowHeights(x *tab, s *server) {
	x.login(s)
	for _, path := range []string{"/ui/", eval[string](x, `document.querySelector("a.row").getAttribute("href")`)} {
		x.visit(path)
		if heights := eval[[]float64](x, `[...new Set([...document.querySelectorAll(".row")]
			.map((r) => Math.max(r.getBoundingClientRect().height, r.scrollHeight)))]`); len(heights) != 1 || heights[0] != 36 {
			x.Errorf("the rows of %s are %v high", path, heights)
		}
		x.sees("refs/heads/main by Rosa Müller")
	}
}

// phone looks for what one comes for: the last error, and the last refusal.
func phone(x *tab, s *server) {
	x.login(s)
	x.size(390, 844)
	for _, view := range []struct{ path, columns, text string }{
		{"/ui/dead", "td.err", "dial ledger:5432: connection refused"},
		{"/ui/producers", ".pairup dd", "Signature mismatch (401)"},
	} {
		x.visit(view.path)
		x.sees(view.text)
		x.audit(view.path)
		if wide := eval[string](x, fmt.Sprintf(`[...document.querySelectorAll(%q + ", .scroll")].filter((e) => {
			const r = e.getBoundingClientRect();
			return r.left < 0 || r.right > innerWidth || e.scrollWidth > e.clientWidth + 1 && e.matches(".scroll");
		}).map((e) => e.className + e.innerText).join(" | ")`, view.columns)); wide != "" {
			x.Errorf("not in the window of %s: %s", view.path, wide)
		}
	}
}

// sendToLocalhost runs the command of the page with another port.
func sendToLocalhost(x *tab, s *server) {
	bodies := make(chan string, 1)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		bodies <- fmt.Sprint(r.URL.Path, " ", r.Header.Get("X-Github-Delivery"), " ", string(body), err)
	}))
	x.Cleanup(app.Close)
	x.login(s)
	x.visit("/ui/?q=issue-1")
	x.click("a.row")
	x.click("#pane .ask:has(#local) summary")
	x.sees("eyelet events show --raw")
	x.audit("a command for localhost")
	text := eval[string](x, `document.querySelector("#local").innerText`)
	sh := exec.Command("sh", "-c", strings.Replace(text, "http://localhost:3000", app.URL, 1))
	sh.Dir, sh.Env = s.dir, append(os.Environ(), "PATH="+s.dir+":"+os.Getenv("PATH"))
	if out, err := sh.CombinedOutput(); err != nil {
		x.Fatalf("%s: %v: %s", text, err, out)
	}
	if got, want := <-bodies, `/webhooks/gh issue-1 {"action":"opened","issue":{"number":4711}}<nil>`; got != want {
		x.Errorf("the application got %s, want %s", got, want)
	}
}

func refused(x *tab, s *server) {
	x.login(s)
	x.visit("/ui/?show=refused")
	x.click("a.row")
	x.waits("the refused delivery is beside the list",
		`document.querySelector("main.open .pane h1").innerText === "Signature mismatch"`)
	x.sees("from 127.0.0.1")
	x.sees("/webhooks/gh")
	x.audit("a refused delivery")

	s.deliverSigned(x.T, "newline-1", "push", pushBody+"\n", secret, pushBody, 401)
	x.visit("/ui/?show=refused")
	x.click("a.row")
	x.sees("White space at an end of the body")
	x.sees("proved")
	x.audit("a refused delivery with its cause")
	x.size(1280, 640)
	x.picture("inspector-refused") // of README
	x.theme("dark")
	x.picture("inspector-refused-dark")

	const theirs = "a secret that the sender changed"
	s.deliverSigned(x.T, "rotated-1", "push", pushBody, theirs, pushBody, 401)
	x.visit("/ui/?show=refused")
	x.click("a.row")
	x.waits("the newest is open", `document.querySelector("main.open .try summary") !== null`)
	x.click(".try summary")
	x.types("#secret", theirs+kb.Enter)
	x.sees("the secret that you tried")
	x.audit("a tried secret")
}

func editAndSend(x *tab, s *server) {
	s.deliver(x.T, "edit-1", "push", `{"before":1}`, true, 200)
	x.login(s)
	x.visit("/ui/?q=edit-1")
	x.click("a.row")
	x.sees("What happened")
	x.click(".ask:has(#edited) summary")
	x.audit("a body that is edited")
	x.types("#edited", kb.End+" ")
	x.click(".ask:has(#edited) button")
	x.sees("Sent, and answered 200.")
	x.visit("/ui/?show=accepted")
	x.click("a.row")
	x.sees("Edited and sent from the inspector")
}

func keyboard(x *tab, s *server) {
	x.login(s)
	press := func(key string) { x.Helper(); x.run(chromedp.KeyEvent(key)) }
	press("/")
	x.waits("the search has the focus", `document.activeElement.id === "q"`)
	press(kb.Escape)
	x.waits("it has lost it", `document.activeElement.id !== "q"`)
	press("j")
	press("j")
	press("k")
	x.waits("the first row is marked", `document.querySelector("a.row").getAttribute("aria-current") === "true"`)
	press(kb.Enter)
	x.waits("the event is open", `document.querySelector("main.open .pane h1") !== null`)
	x.visit("/ui/?q=issue-1")
	x.click("a.row")
	x.sees("Attempts 1 to 3")
	eval[chromedp.Void](x, `document.querySelector(".line summary").focus()`)
	press(kb.Enter)
	x.waits("the attempts are shown", `document.querySelector(".line details").open`)
	x.sees("Attempt 2: failed")
	x.audit("folded attempts")
	press(kb.Escape)
	x.waits("it is closed", `document.readyState === "complete" && !document.querySelector("main.open")`)
	press("?")
	x.waits("the keys are shown", `document.querySelector("#help").open`)
	x.audit("keys")
	press(kb.Escape)
	x.waits("they are gone", `!document.querySelector("#help").open`)
	for key, title := range map[string]string{
		"1": "Deliveries", "2": "Refused deliveries", "3": "Dead letters", "4": "Producers", "5": "Health",
	} {
		press(key)
		x.waits("the view "+title,
			fmt.Sprintf(`document.readyState === "complete" && document.title.startsWith(%q)`, title))
	}
}

func withoutScripts(x *tab, s *server) {
	call(x, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	x.login(s)
	if text := x.text(); strings.Contains(text, "Copy as curl") || !strings.Contains(text, "Duplicates") {
		x.Errorf("the page without JavaScript is %s", text)
	}
	x.types("#q", "release-0"+kb.Enter)
	x.sees("Searched")
	x.click("a.row")
	x.sees("What happened")
	x.click("[for=v3]")
	x.sees("7b 22 72 65 6c")
	x.click("form[action$='/reopen'] button")
	x.sees("Reopened.")
	x.visit("/ui/dead")
	x.click("button[name=all]")
	x.sees("Done.")
	x.visit("/ui/health")
	x.click("details.note summary")
	x.click("details th a")
	x.sees("Only those from")
	x.visit("/ui/health?range=24h")
	x.click(".plot rect.bad")
	x.waits("the refused deliveries of the bar",
		`location.search.includes("show=refused") && !!document.querySelector(".row .bad")`)
}

func readOnly(x *tab, s *server) {
	x.visit("/ui/")
	x.types("#token", s.token(x.T, "operations.read.token")+kb.Enter)
	x.sees("read-only")
	x.visit("/ui/dead")
	if text := x.text(); strings.Contains(text, "Reopen") || !strings.Contains(text, "gh/issues/exec") {
		x.Errorf("a reader sees %s", text)
	}
	x.visit("/ui/?state=dead")
	x.click("a.row")
	x.sees("What happened")
	if text := x.text(); strings.Contains(text, "Reopen\n") || strings.Contains(text, "Forget") {
		x.Errorf("a reader sees %s", text)
	}
}

func runAgain(x *tab, s *server) {
	s.deliver(x.T, "again-1", "push", `{"again":1}`, true, 200)
	eventually(x.T, "it is handled", func() bool {
		return s.output(x.T, "events", "list", "--id", "again-1", "--state", "done") != ""
	})
	x.login(s)
	x.visit("/ui/?q=again-1")
	x.click("a.row")
	x.sees("Attempt 1: handled")
	x.run(chromedp.KeyEvent("r"))
	x.sees("happens a second time")
	x.click("form[action$='/rerun'] button")
	x.sees("It runs again.")
	eventually(x.T, "it ran again", func() bool {
		return s.output(x.T, "events", "list", "--id", "again-1", "--state", "done") != ""
	})
	x.visit("/ui/?q=again-1")
	x.click("a.row")
	x.sees("An operator runs it again")
	x.sees("Attempt 2: handled")
}

func reopenOne(x *tab, s *server) {
	s.deliver(x.T, "one-1", "release", `{"one":1}`, true, 200)
	eventually(x.T, "it is dead", func() bool {
		return s.output(x.T, "events", "list", "--state=dead", "--id", "one-1") != ""
	})
	x.login(s)
	x.visit("/ui/?q=one-1")
	x.click("a.row")
	x.sees("no such project")
	x.click("form[action$='/reopen'] button")
	x.sees("Reopened.")
	eventually(x.T, "it ran again", func() bool {
		return s.output(x.T, "events", "list", "--state=dead", "--id", "one-1") != ""
	})
	x.visit("/ui/?q=one-1")
	x.click("a.row")
	x.sees("Attempt 2")
}

func reopenMany(x *tab, s *server) {
	for i := range many {
		s.deliver(x.T, fmt.Sprint("many-", i), "release", fmt.Sprintf(`{"many":%d}`, i), true, 200)
	}
	x.login(s)
	eventually(x.T, "all are dead", func() bool {
		dead := s.output(x.T, "events", "list", "--state=dead", "--all", "--handler", "gh/release/exec")
		return strings.Contains(dead, "many-0") && strings.Count(dead, "many-") == many
	})
	if err := os.WriteFile(filepath.Join(s.dir, "fixed"), nil, 0o600); err != nil {
		x.Fatal(err)
	}
	x.visit("/ui/dead?handler=gh/release/exec&reason=rejected")
	x.picture("reopen-light-1280")
	x.click("button[name=all]")
	x.waits("there is progress", `document.querySelector("progress") !== null`)
	x.audit("job")
	x.sees("Done.")
	x.picture("job-light-1280")
	found := regexp.MustCompile(`(\d+) of (\d+) reopened`).FindStringSubmatch(x.text())
	if len(found) != 3 || found[1] != found[2] || len(found[1]) < 3 {
		x.Errorf("the job reports %v", found)
	}
	eventually(x.T, "all are handled", func() bool {
		return s.output(x.T, "events", "list", "--state=dead", "--handler", "gh/release/exec") == ""
	})
}

func chosenTheme(x *tab, s *server) {
	x.theme("light")
	x.login(s)
	ink := func() string {
		return eval[string](x, `getComputedStyle(document.documentElement).backgroundColor`)
	}
	light := ink()
	x.click("#theme")
	dark := ink()
	x.visit("/ui/health")
	if light == dark || ink() != dark {
		x.Errorf("light is %s, dark %s, and after loading %s", light, dark, ink())
	}
}

func textsOfOthers(x *tab, s *server) {
	long := strings.Repeat("x", 10_000)
	body := `{"html":"<img src=x onerror=alert(1)><script>alert(2)</script>","bidi":"\u202egnp.exe",` +
		`"ansi":"\u001b[31m","long":"` + long + `"}`
	s.deliver(x.T, "<b>bold</b>", "push", body, true, 200)
	s.deliver(x.T, "deep-1", "push", strings.Repeat("[", 9_000)+strings.Repeat("]", 9_000), true, 200)
	s.deliver(x.T, "unclosed-1", "push", strings.Repeat("[", 500_000), true, 200)
	x.login(s)
	for _, id := range []string{"bold", "deep-1", "unclosed-1"} {
		for _, width := range []int64{1280, 360} {
			x.size(width, 800)
			x.visit("/ui/?q=" + id)
			x.click("a.row")
			x.sees("What happened")
			x.audit(id)
			x.picture(fmt.Sprintf("hostile-%s-%d", id, width))
		}
	}
}
