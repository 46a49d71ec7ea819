package inspect_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// summedSite has a producer that summarizes, and redacts as the rules say.
func summedSite(t *testing.T, store dedup.Store, redact ...string) *site {
	t.Helper()
	s := &site{T: t, store: store}
	s.page = inspect.Page(inspect.Options{Store: store, Token: token, Redact: redact, Producers: []producer.Producer{
		{Name: "shop", Summary: []string{"{json:total in json:currency}", "{json:ref} by {json:user}"}},
	}})
	s.server, s.browser = httptest.NewServer(s.page), s.newBrowser()
	t.Cleanup(func() {
		s.page.Close()
		s.server.Close()
	})
	s.login(token)
	return s
}

func TestRowsSummarizeTheirBodies(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	s, veiled := summedSite(t, store), summedSite(t, store, "json:user", "json:total")
	hostile := `{"ref":"<b>\u202e\u0000` + strings.Repeat("y", 4000) + `","user":"mallow"}`
	large := `{"ref":"main","user":"mallow","more":"` + strings.Repeat("x", 64<<10) + `"}`
	for i, one := range []struct{ body, want, hidden string }{
		{`{"total":2500,"currency":"eur"}`, "25.00 EUR", ""},
		{`{"ref":"main","user":"mallow"}`, "main by mallow", "main by REDACTED(8)"},
		{hostile, `&lt;b&gt;\u{202e}\u{0}` + strings.Repeat("y", maxShort-5) + "…", `&lt;b&gt;\u{202e}`},
		{large, "", ""}, {"not JSON", "", ""}, {"", "", ""}, {`{"ref":"main"}`, "", ""},
	} {
		id := fmt.Sprint("row-", i)
		claim(t, store, id, "order.paid", []byte(one.body))
		for at, want := range map[*site]string{s: one.want, veiled: one.hidden} {
			_, page := at.get("/ui/?q=" + id)
			_, sum, _ := strings.Cut(page, `<span class="about">`)
			sum, _, _ = strings.Cut(sum, "</span>")
			if sum != want && (want == "" || !strings.HasPrefix(sum, want)) {
				t.Errorf("%.60s: %q, want %q", one.body, sum, want)
			}
		}
	}
}

// maxShort is how many characters of a line the page shows.
const maxShort = 120

// TestLiveRowsAreSummarizedWithinABudget: the stream reads the store for 100 rows at most, and
// shows the others without a summary.
func TestLiveRowsAreSummarizedWithinABudget(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	s := summedSite(t, store)
	rec := claim(t, store, "k", "order.paid", []byte(`{"total":2500,"currency":"eur"}`))
	res, err := s.browser.Get(s.server.URL + "/ui/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines, sums, rows := bufio.NewScanner(res.Body), 0, 0
	for range 110 {
		s.page.Observe(t.Context(), receiver.Observation{Kind: receiver.KindDelivery, Endpoint: "shop",
			Type: "order.paid", Event: rec.Event, Status: http.StatusAccepted, Code: "accepted", New: true})
	}
	for rows < 110 && lines.Scan() {
		if strings.Contains(lines.Text(), `<span class="about">25.00 EUR</span>`) {
			sums++
		}
		if lines.Text() == "event: row" {
			rows++
		}
	}
	if rows != 110 || sums != 100 {
		t.Errorf("%d rows, %d with a summary (%v)", rows, sums, lines.Err())
	}
}
