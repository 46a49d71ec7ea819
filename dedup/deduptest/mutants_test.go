package deduptest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutant is one mistake: text of a file of package dedup that occurs once, and what replaces it.
type mutant struct{ file, text, by string }

// mutants are mistakes that the suite must find in a store in memory.
var mutants = []mutant{
	{"claim.go", `check(c.Key.ID == "",`, `check(false,`},
	{"decision.go", `if !old.live(now) {`, `if old.Event == "" {`},
	{"decision.go", `if old.Fingerprint.conflicts(c.Fingerprint) {`, `if false {`},
	{"decision.go", `if old.Fingerprint.conflicts(c.Fingerprint) {`,
		`if !Continues(old, c, now) && old.Fingerprint.conflicts(c.Fingerprint) {`},
	{"decision.go", `if c.Series != (Key{}) && !old.Newest {`, `if false {`},
	{"decision.go", `return c.Hold && old.live(now) && old.free(now)`, `return old.live(now) && old.free(now)`},
	{"decision.go", `const maxAliases = 64`, `const maxAliases = 1000`},
	{"decision.go", `out[max(0, len(out)-maxAliases):]`, `out[:min(len(out), maxAliases)]`},
	{"decision.go", `if !slices.Contains(after, k) {`, `if true {`},
	{"decision.go", `Generation: old.Generation + 1`, `Generation: 1`},
	{"decision.go", `joinAliases(old.Aliases, c.Names())`, `c.Names()`},
	{"decision.go", "\t\tr.Newest = c.Series != (Key{})\n", ``},
	{"decision.go", `.Ended = Dead, c.`, `.Ended = Pending, c.`},
	{"decision.go", `Window: c.window()`, `Window: c.Window`},
	{"decision.go", `DropBody: c.DropBody, `, ``},
	{"decision.go", `Note: c.Note, `, ``},
	{"key.go", `b = binary.AppendUvarint(b, uint64(len(part)))`, `_ = binary.AppendUvarint(nil, uint64(len(part)))`},
	{"key.go", `return f != none && with != none && f != with`, `return f != none && f != with`},

	{"record.go", `now.Before(r.Tasks[0].Until)`, `!now.After(r.Tasks[0].Until)`},
	{"record.go", `if r.Newest {`, `if false {`},
	{"record.go", `return r.Tasks[0].Until.Add(r.Window)`, `return r.Tasks[0].Until`},
	{"record.go", `!now.Before(ends)`, `now.After(ends)`},
	{"record.go", `r.Expired(now) && r.State() != Dead`, `r.Expired(now)`},
	{"record.go", `len(r.Tasks) > 0 && r.State() == Done`, `r.State() == Done`},
	{"record.go", `len(r.Tasks) > 0 && r.State() == Done`, `len(r.Tasks) > 0 && !r.Open()`},
	{"record.go", `case t.State == Pending && state != Running:`, `case t.State == Pending:`},
	{"record.go", `{r.Payload.Endpoint, t.Handler, t.Lane}`, `{t.Handler, t.Lane}`},
	{"record.go", `{r.Payload.Endpoint, t.Handler, t.Lane}`, `{r.Payload.Endpoint, t.Lane}`},
	{"record.go", `b = binary.AppendUvarint(b, uint64(len(part)))`, `_ = binary.AppendUvarint(nil, uint64(len(part)))`},
	{"record.go", `return strings.HasPrefix(`, `return false && strings.HasPrefix(`},
	{"record.go", "\tc.Aliases = slices.Clone(r.Aliases)\n", ``},
	{"record.go", "\tc.Payload.Header = r.Payload.Header.Clone()\n", ``},
	{"record.go", `bytes.Clone(r.Payload.Body)`, `r.Payload.Body`},
	{"record.go", `return r.freed() || r.lapses()`, `return r.lapses()`},
	{"record.go", `return r.freed() || r.lapses() && !r.Held(now)`, `return r.freed()`},

	{"record_transition.go", `; t.State == Running {`, `; false {`},
	{"record_transition.go", "\tt.Attempt++\n", ``},
	{"record_transition.go", `r.Tasks[l.Task].Token == l.Token && `, ``},
	{"record_transition.go", ` && r.Tasks[l.Task].State == Running`, ``},
	{"record_transition.go", `now.Add(d)`, `r.Tasks[l.Task].Until.Add(d)`},
	{"record_transition.go", `if res.Kind < ResultDone || `, `if `},
	{"record_transition.go", `now.Add(max(0, res.After))`, `now`},
	{"record_transition.go", "\t\t\tt.Postponed++\n", ``},
	{"record_transition.go", `if !r.Hold {`, `if true {`},
	{"record_transition.go", `res.Response.Status != 0 && !t.Open()`, `res.Response.Status != 0`},
	{"record_transition.go", `res.Response.Status != 0 && !t.Open()`, `!t.Open()`},
	{"record_transition.go", `res.Kind == ResultRelease && r.Hold {`, `res.Kind == ResultRelease {`},
	{"record_transition.go", "\tt.note(\"\")\n", ``},
	{"record_transition.go", `if r.Hold && r.Open() || `, `if `},
	{"record_transition.go", "if r.Dropped() {\n\t\treturn ErrNoPayload", "if false {\n\t\treturn ErrNoPayload"},
	{"record_transition.go", `if t := &r.Tasks[i]; t.State == Dead {`, `if t := &r.Tasks[i]; !t.Open() {`},
	{"record_transition.go", `if !r.has(n.Handler) {`, `if true {`},
	{"record_transition.go", "\tr.Hold = false\n\tr.settle(now)\n\treturn nil\n}\n\n// Rerun",
		"\tr.settle(now)\n\treturn nil\n}\n\n// Rerun"},
	{"record_transition.go", "\tr.Hold = false\n\tr.settle(now)\n\treturn nil\n}\n\n// RunNow",
		"\tr.settle(now)\n\treturn nil\n}\n\n// RunNow"},
	{"record_transition.go", `case r.Quarantined():`, `case false:`},
	{"record_transition.go", `len(r.Tasks) == 0 || slices`, `slices`},
	{"record_transition.go", `return selected(t) && t.Open()`, `return t.Open()`},
	{"record_transition.go", `case r.Dropped():`, `case false:`},
	{"record_transition.go", `if selected(r.Tasks[i]) {`, `if true {`},
	{"record_transition.go", `if r.Hold || !slices`, `if !slices`},
	{"record_transition.go", `t.State == Pending && t.Due.After(now)`, `t.State == Pending`},
	{"record_transition.go", `if r.Open() && !r.freed() {`, `if r.Open() {`},
	{"record_transition.go", `r.Finished, r.Expires = time.Time{}, time.Time{}`, ``},
	{"attempt.go", `, History: kept}`, `}`},
	{"attempt.go", `kept[n-1].Reopened = now`, `_ = now`},
	{"attempt.go", "\ta.Reply = ", "\t_ = "},
	{"attempt.go", `slices.Delete(all, HistoryFirst, HistoryFirst+more)`, `all[more:]`},
	{"attempt.go", `t.History[n-1].Number + 1`, `n + 1`},
	{"attempt.go", `out[i].History = slices.Clone(out[i].History)`, `_ = i`},

	{"occurrence.go", ` && first.Payload.Type == c.Payload.Type`, ``},
	{"occurrence.go", `now.Sub(first.Accepted) < o.Within`, `now.Sub(first.Accepted) <= o.Within`},
	{"occurrence.go", `err != nil || named.Event != "" {`, `err != nil {`},
	{"occurrence.go", `case first.Event == "":`, `case false:`},
	{"occurrence.go", `case o.Name == "":`, `case false:`},
	{"occurrence.go", `n <= most`, `n < most`},
	{"occurrence.go", "if taken.Event == \"\" {\n\t\t\ts.claim.Key", "if taken.Event != \"-\" {\n\t\t\ts.claim.Key"},
	{"occurrence.go", "if taken.Event == \"\" {\n\t\t\ts.claim.Aliases", "if true {\n\t\t\ts.claim.Aliases"},
	{"occurrence.go", "if o.Spare {\n\t\treturn", "if false {\n\t\treturn"},
	{"occurrence.go", `if i == 0 {`, `if i >= 0 {`},
	{"occurrence.go", `s.slots = o`, ``},
	{"occurrence.go", `SpaceOccurrence+c.Key.ID`, `SpaceOccurrence`},
	{"occurrence.go", `sent.Space = SpaceSent`, `sent.Space = ""`},
	{"occurrence.go", `!strings.HasPrefix(named.Key.ID, s.content.ID+";")`, `strings.HasPrefix("", "")`},
	{"occurrence.go", `r.Event == "" || r.Key.Space`, `r.Key.Space`},
	{"occurrence.go", `r.Key.Endpoint != c.Key.Endpoint && !f.Delivery.SameScope(*r)`, `!f.Delivery.SameScope(*r)`},
	{"occurrence.go", `!f.Delivery.SameScope(*r)`, `false`},
	{"occurrence.go", `return f.Fingerprint != Fingerprint{} && !`, `return !`},
	{"occurrence.go", `Fingerprint{} && !f.Fingerprint.conflicts(r.Fingerprint)`, `Fingerprint{}`},
	{"occurrence.go", `name.Space == "" && r.Payload.VendorID == "" ||`, `name.Space == "" ||`},
	{"occurrence.go", `|| f.Delivery != nil && f.Delivery.SameContent(*r)`, ``},
	{"occurrence.go", `if first.Event != "" && first.Key != c.Key {`, `if false {`},
	{"occurrence.go", `names = c.names()`, ``},
	{"occurrence.go", `|| s.claim.Former == nil || first.Event != "" {`, `|| s.claim.Former == nil {`},
	{"occurrence.go", `if r.Payload.VendorID != "" && r.Payload.VendorID != c.Occurrence.Name {`, `if false {`},
	{"occurrence.go", `err != nil || r.Event != "" {`, `err != nil || r.Event == "-" {`},
	{"occurrence.go", `if r.Event != "" {
		c.Key = r.Key`, `if false {
		c.Key = r.Key`},
	{"occurrence.go", ` && c.Former.Delivery.SameSignature(r) {`, ` {`},
	{"occurrence.go", `if c.matches(&r, content) && `, `if `},

	{"retention.go", `if t.Day < first {`, `if false {`},
	{"retention.go", `s.number > 0 || `, ``},
	{"retention.go", `int(trace.Count) >= min(`, `int(trace.Count) > min(`},
	{"retention.go", `known = known || i == 0`, `_ = i`},
	{"retention.go", `happened.Before(first.Start().Add(producerSkew))`, `happened.Before(first.Start())`},
	{"retention.go", `if happened.Before(s.now.Add(-s.claim.window())) {`, `if true {`},
	{"retention.go", `k == s.claim.Key && old.Event != "" && old.Unaccepted()`, `false`},
	{"retention.go", `, s.claim.Remember.Also...)`, `)`},
	{"retention.go", `most = maxCount`, `_ = maxCount`},
	{"retention.go", `if t.Count <= 1 {`, `if true {`},

	{"step.go", `err != nil || s.claim.OnlyKnown`, `err != nil`},
	{"step.go", ` && other.Key != c.Key`, ``},
	{"step.go", `err != nil || !r.live(s.now) {`, `err != nil {`},
	{"step.go", `>= q.Max`, `> q.Max`},
	{"step.go", `full := q.Max > 0 && `, `full := `},
	{"record_transition.go", `{ r.Newest = false }`, `{}`},
	{"step.go", `r.QuarantineCount++`, ``},
	{"step.go", `r.Occurrences = s.number`, ``},
	{"step.go", `if newest != d.Record.Event {`, `if false {`},
	{"step.go", `if d.Record.Event != before.Event {`, `if true {`},
	{"step.go", `|| state.Disposable(s.now)`, ``},
	{"step.go", `if !full {`, `if !full || full {`},
	{"memstore/events.go", `before.Generation = last.Generation`, `_ = last`},
	{"memstore/events.go", `if r = r.Clone(); r.Event`, `if r.Event`},
	{"memstore/events.go", `e != nil && !e.retired`, `e != nil`},
	{"memstore/events.go", "\t\ts.dropAliases(e)\n", ``},
	{"memstore/events.go", `shown.Aliases, shown.Payload = nil, dedup.Payload{}`, ``},
	{"memstore/events.go", `return shown.Clone(), nil`, `return shown, nil`},
	{"memstore/events.go", `older.retired = true`, `_ = older`},
	{"memstore/events.go", `h := alias.Hash(); m.aliases[h] == e {`, `h := alias.Hash(); true {`},
	{"memstore/events.go", `if !e.retired && e.Unaccepted() {`, `if false {`},
	{"memstore/events.go", `case e.Hold || !t.Open():`, `case !t.Open():`},
	{"memstore/events.go", `m.queue.Extend(e.Seq, i, t.Until)`, ``},
	{"memstore/events.go", `&& m.order[m.swept].Disposable(m.now) {`, `{`},
	{"memstore/events.go", `old.Due.Equal(t.Due) &&`, ``},
	{"memstore/store.go", `r.Recover(it.Task, m.now, 0)`, ``},
	{"memstore/store.go", "\t\tres.Response = res.Response.Clone()\n", ``},
	{"memstore/store.go", `if !e.retired {`, `if true {`},
	{"memstore/store.go", "if e.Open() {\n\t\t\treturn", "if false {\n\t\t\treturn"},
	{"memstore/store.go", "if e.Open() {\n\t\t\ts.Backlog", "if true {\n\t\t\ts.Backlog"},
	{"memstore/store.go", `if m.waiting > 0 {`, `if false {`},
	{"memstore/store.go", `if e.Quarantined() {`, `if e.QuarantineReason != "" {`},
	{"memstore/store.go", "\t\t\t\ts.Running++\n", ``},
	{"memstore/store.go", `range slices.Backward(m.order)`, `range slices.All(m.order)`},
	{"memstore/store.go", `len(out) == f.Limit`, `len(out) > f.Limit`},
	{"memstore/store.go", `m.opened.Add(w.OrphanAfter)`, `m.opened`},
	{"memstore/traces.go", `return t.Day < first`, `return t.Day <= first`},

	{"internal/taskqueue/take.go", `if q.suspect != nil {`, `if false {`},
	{"internal/taskqueue/take.go", `from = nanos(w.Orphans)`, ``},
	{"internal/taskqueue/take.go", `len(out) > 0 && bytes < int64(e.bytes)`, `false`},
	{"internal/taskqueue/lane.go", `case a.running != b.running:`, `case false:`},
	{"internal/taskqueue/lane.go", `return a.seq < b.seq`, `return before(a, b)`},
	{"internal/taskqueue/lane.go", `case a.yields:`, `case false:`},
}

// durable are mistakes that the suite must find in a store that is opened again.
var durable = []mutant{
	{"record_transition.go", `freed = t.Until`, `freed = now`},
	{"record_transition.go", `t.Due, t.Until = now.Add(wait)`, `t.Due, t.Until = now.Add(wait + 1000*time.Hour)`},
}

// TestNoMutantSurvives breaks package dedup in one place at a time. The suite must fail each time.
func TestNoMutantSurvives(t *testing.T) {
	t.Parallel()
	if os.Getenv("EYELET_LONG") == "" {
		t.Skip("it builds a test for each mutant: set EYELET_LONG=1")
	}
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	none := mutant{"decision.go", "package dedup\n", "package dedup\n"}
	if out, err := none.test(t, dir, "^TestMemoryPassesTheSuite$", "./memstore"); err != nil {
		t.Fatalf("without a mistake: %v\n%s", err, out)
	}
	for i, m := range slices.Concat(mutants, durable) {
		tests, of := "^TestMemoryPassesTheSuite$", "./memstore"
		if i >= len(mutants) {
			tests, of = "^TestStoreKeepsTheContract$", "./badgerstore"
		}
		t.Run(fmt.Sprint(m.file, ":", i), func(t *testing.T) {
			t.Parallel()
			m.dies(t, dir, tests, of)
		})
	}
}

// test runs tests of a package on the mutant of package dedup, which is in dir.
func (m mutant) test(t *testing.T, dir, tests, of string) (string, error) {
	t.Helper()
	file := filepath.Join(dir, m.file)
	b, err := os.ReadFile(file)
	if n := strings.Count(string(b), m.text); err != nil || n != 1 {
		t.Fatalf("%v, %d times: %s", err, n, m.text)
	}
	mutated, overlay := filepath.Join(t.TempDir(), "mutant.go"), filepath.Join(t.TempDir(), "overlay.json")
	write(t, mutated, []byte(strings.Replace(string(b), m.text, m.by, 1)))
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, replace)
	limit := "1m" // a mutant that blocks fails, too
	if of == "./badgerstore" {
		limit = "5m"
	}
	c := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-count=1", "-failfast", "-vet=off",
		"-timeout="+limit, "-run="+tests, of)
	c.Dir, c.Env = dir, append(os.Environ(), "EYELET_SEED=1", "EYELET_RUNS=24", "EYELET_STEPS=1200")
	out, err := c.CombinedOutput()
	return string(out), err
}

// dies requires that a test fails on the mutant.
func (m mutant) dies(t *testing.T, dir, tests, of string) {
	t.Helper()
	switch out, err := m.test(t, dir, tests, of); {
	case err == nil:
		t.Errorf("survives: %s becomes %q", m.text, m.by)
	case !strings.Contains(out, "--- FAIL: ") && !strings.Contains(out, "panic: "):
		t.Errorf("%s becomes %q: %v\n%s", m.text, m.by, err, out)
	case testing.Verbose():
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "    --- FAIL: ") || strings.HasPrefix(line, "panic: ") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}

func write(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
