package server

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/refused"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/replay"
	"github.com/eyelet-dev/eyelet/testdata"
)

var demoDir = flag.String("demo", "", "absolute path of the folder for a static copy of the inspector")

// recorded is the time of the first bundled delivery.
var recorded = time.Unix(1782635400, 0).UTC()

// demo is a receiver with its inspector, in a bubble with a clock of its own.
type demo struct {
	*testing.T
	rx     *receiver.Receiver
	page   *inspect.Inspector
	cookie *http.Cookie
}

// TestTheDemoIsAWholeSite makes a static copy of the inspector, of samples and of the bundled
// deliveries at their times. -demo DIR makes it twice, which must be the same, and writes it.
func TestTheDemoIsAWholeSite(t *testing.T) {
	site := demoSite(t)
	if *demoDir != "" && !maps.Equal(site, demoSite(t)) {
		t.Error("two runs make different copies")
	}
	everything := ""
	for _, name := range slices.Sorted(maps.Keys(site)) {
		everything += site[name]
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		for _, link := range reference.FindAllStringSubmatch(site[name], -1) {
			target, _, _ := strings.Cut(html.UnescapeString(link[2]), "#")
			if target != "" && site[target] == "" {
				t.Errorf("%s: %s leads to no file", name, link[0])
			}
		}
	}
	for _, text := range []string{"dead letter", "retrying", "duplicate", "Quarantined", "proved", "Pause",
		"exhausted", "the ledger is being upgraded", "customer.subscription.deleted"} {
		if !strings.Contains(everything, text) {
			t.Errorf("nothing shows %q", text)
		}
	}
	for _, text := range append(testdata.Secrets(), `name="form"`, demoToken, `method="post"`) {
		if strings.Contains(everything, text) {
			t.Errorf("%q is in the copy", text)
		}
	}
	if *demoDir == "" {
		return
	}
	check(t, os.MkdirAll(*demoDir, 0o755))
	for name, text := range site {
		check(t, os.WriteFile(filepath.Join(*demoDir, name), []byte(text), 0o644))
	}
}

// demoSite returns the files of the copy by their names.
func demoSite(t *testing.T) (site map[string]string) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, 1) // the ids of events
	synctest.Test(t, func(t *testing.T) { site = newDemo(t).copy() })
	return site
}

const demoToken = "a token of the demo that no file may have"

func newDemo(t *testing.T) *demo {
	t.Helper()
	d := &demo{T: t}
	s, err := config.Source{File: "../../../../testdata/eyelet.yaml"}.Load()
	check(t, err)
	plan, err := s.Build(t.Context(), config.BuildOptions{Stdout: io.Discard, TestKeys: true})
	check(t, err)
	time.Sleep(time.Until(recorded.Add(-24 * time.Hour)))
	c := plan.Config
	store := memstore.New(memstore.Options{})
	c.Store, c.Logger = store, slog.New(slog.DiscardHandler)
	c.BackoffBase, c.BackoffCap = 1, 1 // handlers say how long
	c.Handlers = demoHandlers()
	g := newGeneration(Options{Receiver: c, Refused: config.RefusedOptions(s)})
	ring, err := refused.New(refused.Options{Rules: g.secretPlaces(), For: 48 * time.Hour})
	check(t, err)
	g.explain, g.times = explain.New(c.Producers), newSignedTimes(store, ring, &c)
	d.page = inspect.Page(inspect.Options{
		Store: store, Token: demoToken, URL: c.URL, Producers: c.Producers, Controls: controlsOf{g},
		Refused: ring, Explain: g.explanation,
		Handlers: func(string) []string { return []string{"audit"} },
		Status:   func(context.Context) inspect.Status { return inspect.Status{Store: "memory"} },
		Send:     func(context.Context, dedup.Record, []byte) (inspect.Sent, error) { return inspect.Sent{}, nil },
	})
	c.Observe, c.Refused = d.page.Observe, ring.Add
	d.rx, err = receiver.Open(c)
	check(t, err)
	g.rx = d.rx
	t.Cleanup(func() {
		d.page.Close()
		check(t, errors.Join(d.rx.Close(), ring.Close(), store.Close(), plan.Close()))
	})
	all := append(d.samples(s), d.recordings()...)
	slices.SortStableFunc(all, func(a, b timed) int { return a.at.Compare(b.at) })
	for _, one := range all {
		time.Sleep(time.Until(one.at))
		one.send()
	}
	synctest.Wait()
	w := d.request(http.MethodPost, "/ui/login", url.Values{"token": {demoToken}})
	d.cookie = w.Result().Cookies()[0]
	for _, r := range ring.Refused() { // lists then have the causes
		d.request(http.MethodGet, fmt.Sprintf("/ui/refused/%d", r.Number), nil)
	}
	return d
}

// demoHandlers take a while each, fail at times, and reject one kind of event.
func demoHandlers() []receiver.Handler {
	work := func(_ context.Context, ev receiver.Event[[]byte]) error {
		time.Sleep(time.Duration(12+(len(ev.Data)*7+ev.Attempt*31+int(ev.Accepted.Unix()))%90) * time.Millisecond)
		return nil
	}
	reject := func(ctx context.Context, ev receiver.Event[[]byte]) error {
		return receiver.Reject(errors.Join(work(ctx, ev), errors.New("no customer has this subscription")))
	}
	flaky := func(ctx context.Context, ev receiver.Event[[]byte]) error {
		if err := work(ctx, ev); ev.Attempt > 1 {
			return err
		}
		return receiver.RetryAfter(30*time.Second, receiver.WithReply(errors.New("POST ledger:8080: status 503"),
			"the ledger is being upgraded"))
	}
	down := func(ctx context.Context, ev receiver.Event[[]byte]) error {
		return receiver.RetryAfter(4*time.Minute, errors.Join(work(ctx, ev), errors.New("dial 10.0.0.7:25: timeout")))
	}
	return []receiver.Handler{
		receiver.On("shop", "order.*", work).Named("ship"), receiver.On("shop", "order.refunded", down).Named("mail"),
		receiver.On("github", "push", work).Named("deploy"), receiver.On("github", "issues", flaky).Named("triage"),
		receiver.On("stripe", "invoice.*", work).Named("ledger"),
		receiver.On("stripe", "customer.subscription.*", reject).Named("plans"),
		receiver.On("standard-webhooks", "*", work).Named("archive"),
	}
}

// timed is a delivery at its time.
type timed struct {
	at   time.Time
	send func()
}

// samples returns events of two vendors of a day and two hours, some sent twice, and some with a
// body that was changed. The last ones come together.
func (d *demo) samples(s *config.Settings) (all []timed) {
	for n := range 80 {
		at := recorded.Add(-22*time.Hour + time.Duration(n*19+n*n%13)*time.Minute)
		if n >= 74 {
			at = recorded.Add(2*time.Hour + time.Duration(n-74)*4*time.Second)
		}
		name := []string{"github", "stripe"}[n%2]
		vendor, _ := preset.Find(name)
		i := slices.IndexFunc(s.Producers, func(p config.Producer) bool { return p.Name == name })
		kind := sampleTypes[name][n/2%len(sampleTypes[name])]
		r, body, err := vendor.Sample(s.Producers[i].PresetSettings, "https://hooks.example/webhooks/"+name, kind,
			fmt.Sprint(10_000_000+n*7919), at)
		check(d.T, err)
		if n%17 == 16 {
			body = append(body, '\n')
		}
		for again := range 1 + n%5/4 {
			all = append(all, timed{at.Add(time.Duration(again) * 7 * time.Second), func() {
				r := r.Clone(d.Context())
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				d.deliver(r)
			}})
		}
	}
	return all
}

// sampleTypes are the event types of the samples.
var sampleTypes = map[string][]string{
	"github": {"push", "issues", "push", "pull_request"},
	"stripe": {"invoice.paid", "customer.subscription.deleted", "invoice.payment_failed"},
}

// recordings returns the bundled deliveries.
func (d *demo) recordings() (all []timed) {
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return d.deliver(r).Result(), nil
	})}
	for _, name := range testdata.Deliveries() {
		rec, err := replay.Read("../../../../testdata/" + name)
		check(d.T, err)
		now, err := strconv.ParseInt(rec.Note("now"), 10, 64)
		check(d.T, err)
		all = append(all, timed{time.Unix(now, 0), func() {
			res, err := replay.Send(d.Context(), rec, replay.Options{URL: "https://hooks.example", Client: client})
			check(d.T, err)
			if want := strings.Fields(rec.Note("expect"))[1]; strconv.Itoa(res.Status) != want {
				d.Errorf("%s: status %d, want %s", rec.Name, res.Status, want)
			}
		}})
	}
	return all
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// deliver has the receiver answer a request, which arrives in pieces.
func (d *demo) deliver(r *http.Request) *httptest.ResponseRecorder {
	r.RemoteAddr, r.RequestURI = "203.0.113.7:40000", r.URL.RequestURI()
	head := http.Header{} // as a server reads it
	for name, values := range r.Header {
		head[http.CanonicalHeaderKey(name)] = values
	}
	r.Header, r.Body = head, slowly{r.Body}
	w := httptest.NewRecorder()
	Handler(d.rx).ServeHTTP(w, r)
	return w
}

// slowly is a body that takes a few milliseconds.
type slowly struct{ io.ReadCloser }

func (s slowly) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	time.Sleep(time.Millisecond * time.Duration(1+n%7))
	return n, err
}

// request asks the inspector.
func (d *demo) request(method, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if d.cookie != nil {
		r.AddCookie(d.cookie)
	}
	w := httptest.NewRecorder()
	d.page.ServeHTTP(w, r)
	return w
}

var (
	reference = regexp.MustCompile(` (href|src)="([^"]*)"`)
	changing  = regexp.MustCompile(`(?s)<form [^>]*method="(?:post|get)".*?</form>`)
	control   = regexp.MustCompile(`<(button|input|select|textarea)\b`)
	dropped   = regexp.MustCompile(`<input type="hidden"[^>]*>| data-stream="[^"]*"|<span class="live[^/]*/span>`)
	sends     = regexp.MustCompile(` (method|action)="[^"]*"`)
)

// copy follows all links of the inspector and returns its files by their names.
func (d *demo) copy() map[string]string {
	site, next := map[string]string{}, []string{"/ui/"}
	for len(next) > 0 {
		path := next[0]
		next = next[1:]
		name := fileOf(path)
		if site[name] != "" {
			continue
		}
		w := d.request(http.MethodGet, path, nil)
		text := w.Body.String()
		if w.Code != http.StatusOK || text == "" {
			d.Errorf("%s: status %d", path, w.Code)
		}
		switch {
		case name == "page.css":
			text += "\nform :disabled { cursor: not-allowed; opacity: 0.5; }\n"
		case name == "page.js": // a fragment of another page cannot be asked for
			text = "window.fetch = () => Promise.reject(new Error('this is a demo'));\n" + text
		case strings.HasSuffix(name, ".html"):
			text = d.still(text, path, &next)
		}
		site[name] = text
	}
	return site
}

// still returns a page that changes nothing, with links to files. It adds their paths to next.
func (d *demo) still(page, at string, next *[]string) string {
	base, err := url.Parse(at)
	check(d.T, err)
	page = dropped.ReplaceAllString(page, "")
	page = changing.ReplaceAllStringFunc(page, func(form string) string {
		return control.ReplaceAllString(sends.ReplaceAllString(form, ""), `<$1 disabled title="This is a demo."`)
	})
	page = reference.ReplaceAllStringFunc(page, func(link string) string {
		part := reference.FindStringSubmatch(link)
		target, err := base.Parse(html.UnescapeString(part[2]))
		check(d.T, err)
		if strings.HasPrefix(part[2], "#") || target.Host != "" {
			return link
		}
		if target.Query().Has("since") || target.Query().Has("until") {
			return "" // a minute of a chart has no file of its own
		}
		*next = append(*next, target.RequestURI())
		return fmt.Sprintf(" %s=%q", part[1], fileOf(target.RequestURI()))
	})
	return strings.Replace(page, "</header>",
		"</header>\n<p class=\"flash\">This is a demo: a copy of a day of test deliveries. It changes nothing.</p>", 1)
}

// fileOf returns the file for a path of the inspector. All are in one folder. The list beside an
// event is always the whole one.
func fileOf(path string) string {
	path, query, _ := strings.Cut(strings.TrimPrefix(path, "/ui/"), "?")
	path, raw := strings.CutSuffix(path, "/raw")
	path = strings.ReplaceAll(path, "/", "-")
	switch {
	case raw:
		return path + ".http"
	case strings.HasPrefix(path, "page."):
		return path
	case strings.HasPrefix(path, "events-"), strings.HasPrefix(path, "refused-"):
		return path + ".html"
	}
	name := strings.Trim(path+"-"+strings.NewReplacer("=", "-", "&", "-", "%3d", "-").Replace(query), "-")
	if name == "" {
		name = "index"
	}
	return name + ".html"
}
