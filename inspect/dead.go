package inspect

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	maxDead     = 1000 // dead letters that a page of the view groups; a job takes all
	maxDeadRows = 20   // rows of a group
	maxDeadPage = 200  // dead letters that a page of one group looks at
)

// deadGroup are dead letters with one handler and one reason. Their remedy is the same.
type deadGroup struct{ Handler, Reason string }

// groupOf returns the group of a dead letter, that of its first dead task. False is a quarantined
// delivery, or an event that is not dead.
func groupOf(r *dedup.Record) (deadGroup, bool) {
	if r.Quarantined() {
		return deadGroup{}, false
	}
	for _, t := range r.Tasks {
		if t.State == dedup.Dead {
			return deadGroup{t.Handler, t.Reason}, true
		}
	}
	return deadGroup{}, false
}

// deadLetter is a row.
type deadLetter struct {
	Event   Event
	Attempt int
	Error   string
}

// deadList is a group with its newest rows.
type deadList struct {
	deadGroup
	Count int
	Rows  []deadLetter
}

// deadView is the view of dead letters.
type deadView struct {
	Only        deadGroup // the group that alone is shown
	Groups      []*deadList
	Quarantined []*deadList  // by endpoint and reason
	Looked      int          // dead letters of which this page is made
	Back        time.Time    // when the oldest of them was accepted
	Paged       bool         // there are newer or older ones than them
	Older       template.URL // the query of the next page
	Jobs        []Job
	Error       string
}

// deadLetters shows dead letters in groups, page by page: the store may hold very many.
func (p *Inspector) deadLetters(w http.ResponseWriter, r *http.Request, s *session) {
	v := deadView{Only: deadGroup{r.FormValue("handler"), r.FormValue("reason")}, Jobs: p.jobs.list()}
	v.Jobs = v.Jobs[:min(len(v.Jobs), 5)]
	f := dedup.Filter{
		States: []dedup.State{dedup.Dead}, Handler: v.Only.Handler, Reason: v.Only.Reason, Limit: maxDead,
	}
	rows := maxDeadRows
	if v.Only != (deadGroup{}) {
		f.Limit, rows = maxDeadPage, maxDeadPage
	}
	f.Before, _ = strconv.ParseUint(r.FormValue("before"), 10, 64)
	v.Paged = f.Before != 0
	groups, kept := map[deadGroup]*deadList{}, map[deadGroup]*deadList{}
	for rec, err := range p.o.Store.List(r.Context(), f) {
		if err != nil {
			v.Error = err.Error()
			break
		}
		v.Looked, v.Back = v.Looked+1, rec.Accepted
		if v.Looked == f.Limit {
			v.Paged, v.Older = true, v.older(rec.Seq)
		}
		group, ok := groupOf(&rec)
		into := groups
		if !ok {
			group, into = deadGroup{rec.Payload.Endpoint, rec.QuarantineReason}, kept
		}
		if v.Only != (deadGroup{}) && (!ok || group != v.Only) {
			continue
		}
		list := into[group]
		if list == nil {
			list = &deadList{deadGroup: group}
			into[group] = list
		}
		if list.Count++; len(list.Rows) < rows {
			list.Rows = append(list.Rows, newDeadLetter(&rec))
		}
	}
	v.Groups, v.Quarantined = inOrder(groups), inOrder(kept)
	p.show(w, r, s, http.StatusOK, "dead", shell{Title: "Dead letters", Tab: "dead", View: v})
}

// older returns the query of the page after a record.
func (v *deadView) older(seq uint64) template.URL {
	q := url.Values{"before": {strconv.FormatUint(seq, 10)}}
	if v.Only != (deadGroup{}) {
		q.Set("handler", v.Only.Handler)
		q.Set("reason", v.Only.Reason)
	}
	return template.URL(q.Encode()) //nolint:gosec // encoded
}

func newDeadLetter(r *dedup.Record) deadLetter {
	d := deadLetter{Event: Summary(*r)}
	for _, t := range r.Tasks {
		if t.State == dedup.Dead {
			d.Attempt, d.Error = t.Attempt, t.Err
			break
		}
	}
	return d
}

// deadRows are the rows of a group, for their template.
type deadRows struct {
	Rows   []deadLetter
	Pick   bool // they can be chosen
	Prefix string
}

func rowsOf(rows []deadLetter, pick bool, prefix string) deadRows {
	return deadRows{rows, pick, prefix}
}

// inOrder returns the groups, the largest first.
func inOrder(groups map[deadGroup]*deadList) []*deadList {
	return slices.SortedFunc(maps.Values(groups), func(a, b *deadList) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Handler, b.Handler), cmp.Compare(a.Reason, b.Reason))
	})
}

// reopenDead starts a job: for the chosen events, or for all of a group.
func (p *Inspector) reopenDead(w http.ResponseWriter, r *http.Request, _ *session) {
	group := deadGroup{r.PostFormValue("handler"), r.PostFormValue("reason")}
	what := fmt.Sprintf("all of %s, %s", group.Handler, words(group.Reason))
	selected := dead(p.o.Store, group.Handler, group.Reason)
	if r.PostFormValue("all") == "" {
		events := r.PostForm["event"]
		if len(events) == 0 {
			p.back(w, r, "/dead", "Nothing was chosen.")
			return
		}
		what = fmt.Sprintf("%d chosen of %s, %s", len(events), group.Handler, words(group.Reason))
		selected = func(ctx context.Context) ([]Event, error) { return named(ctx, p.o.Store, events) }
	}
	job, err := p.jobs.start(what, selected)
	if err != nil {
		p.back(w, r, "/dead", words(err.Error())+".")
		return
	}
	p.o.Log.Info("change from the page", "action", "reopen", "job", job.ID, "what", what)
	http.Redirect(w, r, p.o.Prefix+"/jobs/"+job.ID, http.StatusSeeOther)
}

// job shows one job.
func (p *Inspector) job(w http.ResponseWriter, r *http.Request, s *session) {
	job, ok := p.jobs.find(r.PathValue("job"))
	if !ok {
		p.unknown(w, r, s)
		return
	}
	p.show(w, r, s, http.StatusOK, "job",
		shell{Title: "Reopening", Tab: "dead", Refresh: job.Ended == nil, View: job})
}

func (p *Inspector) stopJob(w http.ResponseWriter, r *http.Request, _ *session) {
	p.jobs.stop(r.PathValue("job"))
	p.back(w, r, "/jobs/"+r.PathValue("job"), "")
}
