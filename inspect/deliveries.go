package inspect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// pageRows is how many events one page of deliveries has.
const pageRows = 100

// maxSummed is the largest body that a row summarizes, in bytes.
const maxSummed = 64 << 10

// row is a delivery in the list.
type row struct {
	Event, Href    string
	Time           time.Time
	Verdict        verdict
	Head, Sub      string
	Summary        string        // of the body
	Tries          int           // attempts
	Took           time.Duration // of the longest last attempt, or of the response
	State          string        // of the event
	Current, Fresh bool
	Unverified     bool
}

// Sign is the form of its chip: ok, dup, wait or bad.
func (r row) Sign() string {
	signs := map[verdict]string{
		accepted: "ok", handshake: "ok", duplicate: "dup", quarantined: "wait", refused: "bad",
	}
	return signs[r.Verdict]
}

// Attempts are how often it was tried, if that was more than once.
func (r row) Attempts() string { return tries(r.Tries) }

func tries(n int) string {
	if n < 2 {
		return ""
	}
	return strconv.Itoa(n) + "×"
}

// Word describes the state of the event.
func (r row) Word() string { return stateWords[r.State] }

// Mood is the color of that word.
func (r row) Mood() string { return stateMoods[r.State] }

var (
	stateWords = map[string]string{
		"pending": "waiting", "retrying": "retrying", "running": "running", "done": "handled", "dead": "dead letter",
		"none": "no handler", dedup.ReasonStale: "stale",
	}
	stateMoods = map[string]string{
		"pending": "wait", "retrying": "wait", "running": "dup", "done": "ok", "dead": "bad", "none": "wait",
		dedup.ReasonStale: "dup",
	}
)

// deliveryList is the view of deliveries, and the list beside an event.
type deliveryList struct {
	Query    listQuery
	Rows     []row
	Searched *Searched
	Error    string
	Older    template.URL // the query of the next page
	Hour     chart
	Names    []string // endpoints
	Live     bool
	Redacted bool // the search is for identifiers only

	since, until time.Time // of Query
	// Detail or Refusal is beside the list; both may be nil.
	Detail  *eventView
	Refusal *refusedView
}

// listQuery is what the list shows.
type listQuery struct{ Show, Text, Endpoint, State, Before, Since, Until string }

func queryOf(r *http.Request) listQuery {
	q := r.URL.Query()
	return listQuery{q.Get("show"), q.Get("q"), q.Get("endpoint"), q.Get("state"), q.Get("before"), q.Get("since"),
		q.Get("until")}
}

// queryTime is the form of a time in a query.
const queryTime = "2006-01-02T15:04Z07:00"

// period returns when the deliveries came that the query wants: from since on, before until. Zero
// is unlimited.
func (q listQuery) period() (since, until time.Time, err error) {
	for text, at := range map[string]*time.Time{q.Since: &since, q.Until: &until} {
		if text != "" && err == nil {
			*at, err = time.Parse(queryTime, text)
		}
	}
	return since, until, err
}

// Period describes it.
func (q listQuery) Period() string {
	since, until, err := q.period()
	if err != nil {
		return ""
	}
	text := ""
	if !since.IsZero() {
		text += " from " + since.UTC().Format("2 Jan 15:04")
	}
	if !until.IsZero() {
		text += " to " + until.UTC().Format("2 Jan 15:04")
	}
	return text
}

// Always is the query without its period.
func (q listQuery) Always() template.URL {
	q.Since, q.Until = "", ""
	return q.With(q.Show)
}

// Open reports whether something is beside the list.
func (v *deliveryList) Open() bool { return v.Detail != nil || v.Refusal != nil }

// With returns the query with another value of show.
func (q listQuery) With(show string) template.URL {
	q.Show, q.Before = show, ""
	return q.URL()
}

// URL returns the query of an address. It is escaped.
func (q listQuery) URL() template.URL {
	v := url.Values{}
	for name, value := range map[string]string{
		"show": q.Show, "q": q.Text, "endpoint": q.Endpoint, "state": q.State, "before": q.Before,
		"since": q.Since, "until": q.Until,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return template.URL(v.Encode()) //nolint:gosec // encoded
}

// deliveries shows the list.
func (p *Inspector) deliveries(w http.ResponseWriter, r *http.Request, s *session) {
	v := shell{Title: "Deliveries", Tab: "deliveries", View: p.list(r, "")}
	if queryOf(r).Show == string(refused) {
		v.Title, v.Tab = "Refused deliveries", "refused"
	}
	p.show(w, r, s, http.StatusOK, "deliveries", v)
}

// list returns the list that a request asks for. current is the path of the delivery beside it.
func (p *Inspector) list(r *http.Request, current string) *deliveryList {
	v := &deliveryList{Query: queryOf(r), Redacted: p.redaction.on, Hour: p.history.hour(p.o.Prefix + "/")}
	var err error
	if v.since, v.until, err = v.Query.period(); err != nil {
		v.Error = "There is no such time."
		return v
	}
	for _, one := range p.o.Producers {
		v.Names = append(v.Names, one.Name)
	}
	v.Live = v.Query.Before == "" && v.Query.Text == "" && v.Query.State == "" &&
		v.Query.Since == "" && v.Query.Until == ""
	var oldest time.Time // of the events on this page
	if v.Query.Show != "duplicate" && v.Query.Show != "refused" {
		oldest = p.addEvents(r, v)
	}
	if v.Query.State == "" && v.Query.Show != "accepted" {
		p.addOthers(v, oldest)
	}
	slices.SortStableFunc(v.Rows, func(a, b row) int { return b.Time.Compare(a.Time) })
	for i := range v.Rows {
		v.Rows[i].Current = current != "" && v.Rows[i].Href == p.o.Prefix+current
		v.Rows[i].Href += hrefQuery(v.Query, v.Rows[i].Href)
	}
	return v
}

// hrefQuery keeps the list beside an event as it is.
func hrefQuery(q listQuery, href string) string {
	if text := string(q.URL()); text != "" && href != "" {
		return "?" + text
	}
	return ""
}

// addEvents adds the events of the store, and returns when the oldest was accepted, or zero if
// there is none older.
func (p *Inspector) addEvents(r *http.Request, v *deliveryList) (oldest time.Time) {
	var searched dedup.Searched
	f := dedup.Filter{
		Limit: pageRows, Endpoint: v.Query.Endpoint, Text: v.Query.Text, Searched: &searched,
		Body: true, MaxBody: maxSummed,
	}
	if p.redaction.on { // a search of bodies would find what is hidden
		f.Text, f.Ref = "", v.Query.Text
	}
	f.Before, _ = strconv.ParseUint(v.Query.Before, 10, 64)
	if f.Until = v.until; !v.since.IsZero() {
		f.Since = max(0, time.Since(v.since)) + time.Second // the clock of the store may be ahead
	}
	if v.Query.State != "" {
		state, ok := stateOf(v.Query.State)
		if !ok {
			v.Error = "There is no such state."
			return time.Time{}
		}
		f.States = []dedup.State{state}
	}
	var last uint64
	for rec, err := range p.o.Store.List(r.Context(), f) {
		if err != nil {
			v.Error = err.Error()
			break
		}
		if rec.Accepted.Before(v.since) {
			continue
		}
		v.Rows = append(v.Rows, p.eventRow(&rec))
		last, oldest = rec.Seq, rec.Accepted
	}
	if f.Text != "" {
		report := newSearched(searched)
		v.Searched, last = &report, searched.Before
	} else if len(v.Rows) < pageRows {
		last, oldest = 0, time.Time{}
	}
	if last != 0 {
		older := v.Query
		older.Before = strconv.FormatUint(last, 10)
		v.Older = older.URL()
	}
	return oldest
}

func (p *Inspector) eventRow(r *dedup.Record) row {
	v := row{
		Event: r.Event, Href: p.o.Prefix + "/events/" + url.PathEscape(r.Event), Time: r.Accepted, Verdict: accepted,
		Head: cmp.Or(r.Payload.Type, r.Payload.Endpoint), State: stateName(r),
		Sub:        r.Payload.Endpoint + " · " + cmp.Or(r.Payload.VendorID, r.Key.ID),
		Unverified: r.Payload.Attributes[receiver.UnverifiedAttribute] != "", Summary: p.summary(r),
	}
	if r.Quarantined() {
		v.Verdict, v.State = quarantined, ""
	}
	for _, t := range r.Tasks {
		v.Tries = max(v.Tries, t.Attempt)
		if !t.Ended.IsZero() && !t.Started.IsZero() {
			v.Took = max(v.Took, t.Ended.Sub(t.Started))
		}
	}
	return v
}

// summary returns the line of a record that its producer has, as it may be shown.
func (p *Inspector) summary(r *dedup.Record) string {
	i := slices.IndexFunc(p.o.Producers, func(one producer.Producer) bool { return one.Name == r.Payload.Producer })
	if i < 0 || len(r.Payload.Body) == 0 {
		return ""
	}
	shown, _ := p.redaction.record(*r)
	return producer.Summarize(&p.o.Producers[i], shown.Payload.Header, shown.Payload.Body)
}

// stateName is the state of an event, with two more: retrying, and none without a handler.
func stateName(r *dedup.Record) string {
	switch {
	case len(r.Tasks) == 0:
		return "none"
	case r.State() == dedup.Pending && slices.ContainsFunc(r.Tasks, func(t dedup.Task) bool { return t.Attempt > 0 }):
		return "retrying"
	case r.State() == dedup.Done && slices.ContainsFunc(r.Tasks, func(t dedup.Task) bool { return t.Stale() }):
		return dedup.ReasonStale
	}
	return r.State().String()
}

// addOthers adds duplicates and refused deliveries of the time of the page.
func (p *Inspector) addOthers(v *deliveryList, oldest time.Time) {
	newest := time.Now()
	if v.Query.Before != "" {
		if len(v.Rows) == 0 {
			return
		}
		newest = v.Rows[0].Time
	}
	var all []row
	for _, s := range p.activity.recent() {
		if v.wants(&s) && (p.o.Refused == nil || s.verdict() != refused) {
			all = append(all, p.seenRow(&s))
		}
	}
	if p.o.Refused != nil && v.Query.Show != "duplicate" {
		for _, r := range p.o.Refused.Refused() {
			r = p.redaction.line(r)
			if v.Query.selects(r.Endpoint, r.Code, r.Why, r.Target, r.Peer) {
				all = append(all, p.refusedRow(&r))
			}
		}
	}
	all = slices.DeleteFunc(all, func(r row) bool {
		return r.Time.Before(oldest) || r.Time.After(newest) || r.Time.Before(v.since) ||
			!v.until.IsZero() && !r.Time.Before(v.until)
	})
	slices.SortStableFunc(all, func(a, b row) int { return b.Time.Compare(a.Time) })
	v.Rows = append(v.Rows, all[:min(len(all), pageRows)]...)
}

// wants reports whether the list shows a delivery.
func (v *deliveryList) wants(s *seen) bool {
	q, what := v.Query, s.verdict()
	shown := q.Show == "" || string(what) == q.Show || q.Show == "duplicate" && what == quarantined
	return shown &&
		q.State == "" && q.selects(s.Endpoint, string(s.Code), s.Type, s.ID, s.Event)
}

// selects reports whether the query wants an endpoint, and texts of which one contains its own.
func (q listQuery) selects(endpoint string, texts ...string) bool {
	text := strings.ToLower(strings.Join(append(texts, endpoint), "\n"))
	return (q.Endpoint == "" || q.Endpoint == endpoint) && strings.Contains(text, strings.ToLower(q.Text))
}

func (p *Inspector) seenRow(s *seen) row {
	v := row{
		Event: s.Event, Time: s.at, Verdict: s.verdict(), Took: s.Took, Unverified: s.Unverified,
		Head: cmp.Or(s.Type, s.Endpoint), Sub: strings.Trim(s.Endpoint+" · "+s.ID, " ·"),
	}
	if v.Verdict == refused {
		v.Head = words(string(s.Code))
		v.Sub = strings.Trim(strings.Join([]string{s.Endpoint, strconv.Itoa(s.Status), s.Type}, " · "), " ·")
	}
	if v.Verdict == accepted {
		v.State, v.Took = "pending", 0 // its handlers take longer
	}
	if s.Event != "" {
		v.Href = p.o.Prefix + "/events/" + url.PathEscape(s.Event)
	}
	return v
}

// words turns a code into a phrase.
func words(code string) string {
	text := strings.ReplaceAll(code, "_", " ")
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// afterAttempt is the state of an event after one attempt, as far as it is known from that.
func afterAttempt(o receiver.Observation) string {
	if o.State == dedup.Pending {
		return "retrying"
	}
	if o.Reason == dedup.ReasonStale {
		return o.Reason
	}
	return o.State.String()
}

// The times of a stream, and how many rows it summarizes between two beats: each reads the store.
const (
	streamSums    = 100
	streamBeat    = 10 * time.Second
	streamTimeout = 10 * time.Second // for one write to a slow reader
)

// streamType is the media type of a stream, which EventSource asks for.
const streamType = "text/event-stream"

// stream sends new rows (server-sent events), made by the template of the list. An event
// "row" has the row, and "state" the new state of an event. A slow reader loses rows, and never
// delays the receiver.
func (p *Inspector) stream(w http.ResponseWriter, r *http.Request, _ *session) {
	reader := p.activity.add()
	if reader == nil {
		http.Error(w, "too many readers", http.StatusServiceUnavailable)
		return
	}
	defer p.activity.remove(reader)
	w.Header().Set("Content-Type", streamType)
	control := http.NewResponseController(w)
	beat := time.NewTicker(streamBeat)
	defer beat.Stop()
	filter := deliveryList{Query: queryOf(r)}
	text, sums := "retry: 2000\n\n", streamSums
	for {
		_ = control.SetWriteDeadline(time.Now().Add(streamTimeout)) // instead of the server's write timeout
		if _, err := w.Write([]byte(text)); err != nil || control.Flush() != nil {
			return
		}
		select {
		case s := <-reader:
			text = p.streamed(r.Context(), &filter, &s, &sums)
		case <-beat.C:
			text, sums = ":\n\n", streamSums
			if _, ok := p.access.find(r); !ok { // it was logged out, or ended
				return
			}
		case <-p.jobs.ctx.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}

// streamed returns the text of the stream for a delivery or an attempt; "" if the list does not
// show it. A row of an event has its summary while there are sums left.
func (p *Inspector) streamed(ctx context.Context, filter *deliveryList, s *seen, sums *int) string {
	if s.Kind == receiver.KindAttempt {
		state := afterAttempt(s.Observation)
		data, err := json.Marshal(map[string]string{
			"event": s.Event, "word": stateWords[state], "mood": stateMoods[state],
			"took": duration.Rough(s.Took), "tries": tries(s.Attempt),
		})
		if err != nil {
			return ""
		}
		return fmt.Sprintf("event: state\ndata: %s\n\n", data)
	}
	if s.verdict() == handshake || !filter.wants(s) {
		return ""
	}
	v := p.seenRow(s)
	v.Fresh = true
	if v.Event != "" && *sums > 0 {
		*sums--
		f := dedup.Filter{Event: v.Event, Limit: 1, Body: true, MaxBody: maxSummed}
		for rec, err := range p.o.Store.List(ctx, f) {
			if err == nil {
				v.Summary = p.summary(&rec)
			}
		}
	}
	v.Href += hrefQuery(filter.Query, v.Href)
	if v.Verdict == refused && p.o.Refused != nil { // its number is not known yet
		v.Href = p.o.Prefix + "/?show=refused"
	}
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, "row", v); err != nil {
		p.o.Log.Error("a row could not be made", "error", err)
		return ""
	}
	var text strings.Builder
	text.WriteString("event: row\n")
	for line := range strings.Lines(b.String()) {
		text.WriteString("data: " + strings.TrimRight(line, "\r\n") + "\n")
	}
	return text.String() + "\n"
}
