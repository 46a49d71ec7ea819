package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/replay"
)

// moment is an entry of the timeline of an event.
type moment struct {
	Time                     time.Time
	Sign                     string // ok, dup, wait or bad
	Title, Note, Error, Link string // Link is the path of another event
	Reply                    string
	Took                     time.Duration
	Folded                   []moment // attempts that failed alike, one after the other
	attempt                  int      // its number; 0 for other moments
	cause                    string   // of a failed attempt
}

// Ahead reports whether it is in the future. Its title has the time then.
func (m moment) Ahead() bool { return m.Time.After(time.Now()) }

// eventView is an event with everything that the store keeps of it.
type eventView struct {
	Event    Event
	State    string
	Key      string
	Target   string
	Moments  []moment
	Body     bodyView
	Fields   []replay.Field
	Facts    []replay.Field // attributes
	Answer   *Response
	Curl     string
	Local    string // a command that sends it to the operator's machine
	Raw      bool   // there is an *.http file
	Waits    bool   // it can be run now
	Dead     bool
	Again    []string // the handlers that can run again, unless one of them is open
	Adds     []string // the handlers that can run an event without tasks
	Stale    bool     // a newer event of its lane was handled: it runs again only if forced
	Finished bool     // it can be forgotten
	Hidden   bool     // something of it is not shown
	Edit     bool     // it can be edited and sent
	Text     string
	List     string
}

// Word, Mood and Sign describe the state as in a row.
func (v *eventView) Word() string {
	if v.Event.QuarantineReason != "" && v.State == "dead" {
		return "quarantined"
	}
	return stateWords[v.State]
}

// Mood is the color of the state.
func (v *eventView) Mood() string {
	if v.Word() == "quarantined" {
		return "wait"
	}
	return stateMoods[v.State]
}

// event shows one event beside the list.
func (p *Inspector) event(w http.ResponseWriter, r *http.Request, s *session) {
	rec, err := p.o.Store.Get(r.Context(), r.PathValue("event"))
	if err != nil {
		p.showError(w, r, s, err)
		return
	}
	again := change{store: p.o.Store, action: actionRerun}
	stale, err := again.stale(r.Context(), &rec)
	if err != nil {
		p.showError(w, r, s, err)
		return
	}
	v := shell{Title: short(cmp.Or(rec.Payload.Type, "Event")), Tab: "deliveries"}
	detail := p.newEventView(rec)
	detail.Stale = len(stale) > 0
	detail.List = string(queryOf(r).URL())
	if r.Header.Get("Eyelet-Part") != "" {
		v.View = &deliveryList{Detail: detail}
	} else {
		list := p.list(r, "/events/"+rec.Event)
		list.Detail = detail
		v.View = list
	}
	p.show(w, r, s, http.StatusOK, "deliveries", v)
}

func (p *Inspector) newEventView(came dedup.Record) *eventView {
	rec, hidden := p.redaction.record(came)
	r := &rec
	v := &eventView{
		Event: Summary(*r), State: stateName(r), Key: r.Key.ID, Moments: p.moments(r),
		Body: newBodyView(r.Payload.Body, r.Payload.Header.Get("Content-Type")), Fields: fieldsOf(r.Payload.Header),
		Answer: Details(*r).Response, Waits: waits(r), Dead: r.State() == dedup.Dead, Finished: !r.Open(),
		Target: r.Payload.Target, Hidden: hidden,
	}
	if text, ok := editable(&came); ok && p.o.Send != nil && !hidden {
		v.Edit, v.Text = true, text
	}
	v.Body.Dropped = came.Dropped() && len(came.Payload.Body) == 0
	if r.Quarantined() {
		v.State = "dead"
	} else if v.Finished && !came.Dropped() {
		for _, t := range r.Tasks {
			v.Again = append(v.Again, t.Handler)
		}
		if len(r.Tasks) == 0 && p.o.Handlers != nil {
			v.Adds = p.o.Handlers(r.Payload.Producer)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Payload.Attributes)) {
		v.Facts = append(v.Facts, replay.Field{Name: name, Value: r.Payload.Attributes[name]})
	}
	if rec, err := replay.Export(*r); err == nil {
		v.Raw, v.Curl = true, rec.Curl(p.o.URL+rec.Target, "body-of-"+r.Event)
		v.Local = "eyelet events show --raw " + r.Event + " | eyelet send - --url http://localhost:3000"
	}
	return v
}

// fieldsOf returns the lines of a header, sorted by their names.
func fieldsOf(h http.Header) (fields []replay.Field) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			fields = append(fields, replay.Field{Name: name, Value: value})
		}
	}
	return fields
}

// waits reports whether a task waits for a later time.
func waits(r *dedup.Record) bool {
	return !r.Hold && slices.ContainsFunc(r.Tasks, func(t dedup.Task) bool {
		return t.State == dedup.Pending && t.Due.After(time.Now())
	})
}

// moments returns the timeline, the oldest entry first.
func (p *Inspector) moments(r *dedup.Record) []moment {
	all := []moment{{
		Time: r.Accepted, Sign: "ok", Title: "Verified and stored",
		Note: "from " + r.Key.Principal + ", at endpoint " + r.Payload.Endpoint,
	}}
	code := r.Payload.Attributes[receiver.UnverifiedAttribute]
	if code != "" {
		all[0].Sign, all[0].Title = "bad", "Not verified, and stored"
		all[0].Note = words(code) + ", at endpoint " + r.Payload.Endpoint + ": any client may have sent it"
	}
	if r.QuarantineReason != "" {
		all[0].Sign = "wait"
		all[0].Title, all[0].Note = "Quarantined: "+words(r.QuarantineReason), "stored, but not run"
		if r.Note != "" {
			all[0].Note += ": " + r.Note
		}
		if r.Original != "" {
			all[0].Note, all[0].Link = "stored, but not run: it resembles event "+r.Original, r.Original
		}
	}
	if code == "" && r.Payload.Header.Get(FieldEdited) != "" {
		original := r.Payload.Header.Get(replay.FieldOriginalEvent)
		all = append(all, moment{Time: r.Accepted, Sign: "wait", Title: "Edited and sent from the inspector",
			Note: "it was event " + original, Link: original})
	}
	if r.Response.Status != 0 {
		m := moment{Time: r.Accepted, Sign: "ok", Title: fmt.Sprint("Answered ", r.Response.Status),
			Note: "duplicates get this response again"}
		if r.Hold {
			m.Time = r.Finished
		}
		all = append(all, m)
	}
	for _, s := range p.activity.recent() {
		if s.Event == r.Event && s.verdict() == duplicate {
			all = append(all, moment{
				Time: s.at, Sign: "dup", Title: fmt.Sprint("Delivered again, answered ", s.Status),
				Note: "a duplicate: no handler ran",
			})
		}
	}
	for i := range r.Tasks {
		all = append(all, taskMoments(&r.Tasks[i])...)
	}
	if len(r.Tasks) == 0 && r.Note != "" {
		all = append(all, moment{Time: r.Accepted, Sign: "wait", Title: words(r.Note)})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.Time.Compare(b.Time) })
	if end := r.Ends(); !end.IsZero() && !r.Open() {
		all = append(all, moment{
			Time: end, Title: "Its key is forgotten " + onDay(end),
			Note: "until then a repetition is a duplicate",
		})
	}
	return all
}

// onDay names a time that may be far away.
func onDay(t time.Time) string { return "on " + t.UTC().Format("2 January, 15:04:05") + " UTC" }

// taskMoments returns the attempts of a task and what follows them.
func taskMoments(t *dedup.Task) []moment {
	var all []moment
	attempts := t.Attempts()
	for _, a := range attempts {
		m := moment{Time: a.Started, Note: t.Handler, Error: a.Err, Reply: a.Reply, attempt: a.Number}
		if !a.Ended.IsZero() {
			m.Took = a.Ended.Sub(a.Started)
		}
		m.Title = fmt.Sprintf("Attempt %d", a.Number)
		switch {
		case a.State == dedup.Done && a.Reason == dedup.ReasonStale:
			m.Sign, m.Title = "dup", m.Title+": stale"
		case a.State == dedup.Done:
			m.Sign, m.Title = "ok", m.Title+": handled"
		case a.State == dedup.Running:
			m.Sign, m.Title = "dup", m.Title+": running"
		default:
			reason := cmp.Or(strings.ReplaceAll(a.Reason, "_", " "), "failed")
			m.Sign, m.Title, m.cause = "bad", m.Title+": "+reason, cmp.Or(a.Err, reason)
		}
		all = append(all, m)
		if !a.Reopened.IsZero() {
			all = append(all, moment{
				Time: a.Reopened, Sign: "wait", Title: "An operator runs it again", Note: t.Handler,
			})
		}
	}
	all = folded(all)
	switch {
	case t.State == dedup.Pending && t.Due.After(time.Now()):
		all = append(all, moment{Time: t.Due, Sign: "wait", Title: "Next attempt " + onDay(t.Due), Note: t.Handler})
	case t.State == dedup.Pending:
		all = append(all, moment{Time: t.Due, Sign: "wait", Title: "Due: waits for a worker", Note: t.Handler})
	case t.State == dedup.Dead && len(attempts) > 0:
		all = append(all, moment{Time: t.Ended, Sign: "bad", Title: "Dead letter: no further attempt", Note: t.Handler})
	}
	return all
}

// folded makes one moment of failed attempts that follow each other and have the same cause.
func folded(all []moment) (shown []moment) {
	for len(all) > 0 {
		first, n := all[0], 1
		for n < len(all) && first.cause != "" && all[n].cause == first.cause &&
			all[n].attempt == first.attempt+n {
			n++
		}
		if n > 1 {
			line, _, more := strings.Cut(first.cause, "\n")
			first.Title = fmt.Sprintf("Attempts %d to %d: %s", first.attempt, first.attempt+n-1, short(line))
			if !more && len(line) <= maxShort {
				first.Error = ""
			}
			first.Folded, first.Took, first.Reply = all[:n], 0, ""
		}
		shown, all = append(shown, first), all[n:]
	}
	return shown
}

// refused shows one refused delivery beside the list, with its cause. A POST tries a secret.
func (p *Inspector) refused(w http.ResponseWriter, r *http.Request, s *session) {
	d, ok := p.findRefused(r)
	if !ok {
		p.showFault(w, r, s, http.StatusNotFound,
			"There is no such refused delivery. The oldest are dropped when newer ones need their place.")
		return
	}
	shown := p.redaction.refused(d)
	detail := newRefusedView(shown, string(queryOf(r).URL()))
	if p.o.Explain != nil {
		secret := r.PostFormValue("secret")
		detail.Explained, detail.Tried = p.explain(r.Context(), d.Number, secret), secret != ""
		if detail.Explained != nil {
			p.redaction.explanation(detail.Explained, &d, &shown)
		}
	}
	list := &deliveryList{Refusal: detail}
	if r.Header.Get("Eyelet-Part") == "" {
		list = p.list(r, "/refused/"+r.PathValue("number"))
		list.Refusal = detail
	}
	p.show(w, r, s, http.StatusOK, "deliveries", shell{Title: words(d.Code), Tab: "refused", View: list})
}

// explain returns the causes of a refused delivery, and remembers the first one for the list. The
// secret, if there is one, is tried and not kept.
func (p *Inspector) explain(ctx context.Context, number uint64, secret string) *Explanation {
	why, ok := p.o.Explain(ctx, number, secret)
	if !ok {
		return nil
	}
	if secret != "" {
		p.o.Log.Info("a secret was tried on a refused delivery", "refused", number, "causes", len(why.Causes))
	} else if len(why.Causes) > 0 {
		p.causes.note(number, why.Causes[0].Sentence)
	}
	return &why
}

func (p *Inspector) findRefused(r *http.Request) (RefusedDetail, bool) {
	number, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
	if err != nil || p.o.Refused == nil {
		return RefusedDetail{}, false
	}
	return p.o.Refused.RefusedDetail(number)
}

// refusedRaw returns a refused delivery as a file.
func (p *Inspector) refusedRaw(w http.ResponseWriter, r *http.Request, s *session) {
	d, ok := p.findRefused(r)
	if !ok {
		p.unknown(w, r, s)
		return
	}
	d = p.redaction.refused(d)
	file, err := d.Recording()
	if err != nil {
		p.showFault(w, r, s, http.StatusConflict, "It cannot be written as a file: "+err.Error())
		return
	}
	writeFile(w, file)
}

func (p *Inspector) refusedRow(r *Refused) row {
	sub := []string{cmp.Or(r.Endpoint, r.Target), strconv.Itoa(r.Status)}
	if r.Peer != "" {
		sub = append(sub, "from "+r.Peer)
	}
	if r.More > 0 {
		sub = append(sub, "and "+grouped(r.More)+" more like it")
	}
	return row{
		Href: p.o.Prefix + "/refused/" + strconv.FormatUint(r.Number, 10), Time: r.Time, Verdict: refused,
		Head: cmp.Or(p.causes.of(r.Number), words(r.Code)), Sub: strings.Join(sub, " · "),
	}
}

// eventRaw returns the delivery as a file.
func (p *Inspector) eventRaw(w http.ResponseWriter, r *http.Request, _ *session) {
	rec, err := p.o.Store.Get(r.Context(), r.PathValue("event"))
	if err != nil {
		refuse(w, err)
		return
	}
	rec, hidden := p.redaction.record(rec)
	writeRaw(w, rec, hidden)
}

// changeEvent reopens, reruns, retries or forgets an event.
func (p *Inspector) changeEvent(w http.ResponseWriter, r *http.Request, s *session) {
	event, action := r.PathValue("event"), r.PathValue("action")
	path := "/events/" + event
	if action == "send" {
		p.send(w, r, s)
		return
	}
	flash, ok := map[string]string{
		actionReopen: "Reopened. Its handlers run it again.", actionRerun: "It runs again.",
		actionRetry:  "Made due. It runs as soon as a worker is free.",
		actionForget: "Forgotten, with its payload and its key.",
	}[action]
	if !ok {
		p.unknown(w, r, s)
		return
	}
	c := change{store: p.o.Store, action: action}
	c.Force = r.PostFormValue("force") != ""
	switch one := r.PostFormValue("handler"); {
	case one == "":
	case action == actionReopen:
		c.Tasks = []NewTask{{Handler: one}}
	default:
		c.Handlers = []string{one}
	}
	if action == actionForget {
		path = "/"
	}
	_, err := c.apply(r.Context(), event)
	p.o.Log.Info("change from the page", "action", action, "event", event, "error", err)
	if row, ok := refusalOf(err); ok && row.status == http.StatusConflict {
		p.back(w, r, "/events/"+event, words(row.err.Error())+".")
		return
	}
	if err != nil {
		p.showError(w, r, s, err)
		return
	}
	p.back(w, r, path, flash)
}

// send sends the delivery of an event with the body of the form.
func (p *Inspector) send(w http.ResponseWriter, r *http.Request, s *session) {
	if p.o.Send == nil {
		p.unknown(w, r, s)
		return
	}
	event := r.PathValue("event")
	rec, err := p.o.Store.Get(r.Context(), event)
	if err != nil {
		p.showError(w, r, s, err)
		return
	}
	_, hidden := p.redaction.record(rec)
	if _, ok := editable(&rec); !ok || hidden {
		p.back(w, r, "/events/"+event,
			"It cannot be edited here: its body is redacted, too large, not text, or not kept.")
		return
	}
	sent, err := p.o.Send(r.Context(), rec, edited(&rec, r.PostFormValue("body")))
	p.o.Log.Info("change from the page", "action", "send", "event", event, "status", sent.Status, "code", sent.Code,
		"error", err)
	if err != nil {
		p.back(w, r, "/events/"+event, "Not sent: "+err.Error()+".")
		return
	}
	p.back(w, r, "/", "Sent, and "+sent.String()+".")
}
