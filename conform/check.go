package conform

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts. A check fails only after the program has shown that it accepts what is right.
const (
	Holds         Verdict = "holds"
	Fails         Verdict = "fails"
	NotApplicable Verdict = "not applicable"
	NotJudged     Verdict = "not judged"
)

// Result is what a check found.
type Result struct {
	// Check is its number, such as C101.
	Check string `json:"check"`
	Title string `json:"title"`
	// Rows are the requirements that it tests, of the documents that the profile claims.
	Rows []Row `json:"rows"`
	// Strength is the strongest of those rows whose document the profile claims: MUST, SHOULD, MAY,
	// or advice, which only recommends.
	Strength string  `json:"strength"`
	Verdict  Verdict `json:"verdict"`
	// Reason says why it is not judged or not applicable, or what was wrong.
	Reason string `json:"reason,omitempty"`
	// Right is the right behaviour, and Cure how to get it. They are given if the check fails.
	Right string `json:"right,omitempty"`
	Cure  string `json:"cure,omitempty"`
	// Exchanges are the last requests and responses of the check. Secrets are not in them.
	Exchanges []Exchange    `json:"exchanges,omitempty"`
	Took      time.Duration `json:"took"` // nanoseconds
}

// check is one thing that is tested.
type check struct {
	number             string
	rows               []string // numbers of requirements
	phase              int      // checks of a later one are run later
	free               bool     // it needs no control: a consumer accepts what is right
	needs              []string // words: why it is not judged
	title, right, cure string
	run                steps
}

// steps are what a check does.
type steps func(context.Context, *run) error

// checksText has a check in each line: its number, rows, when it is run, title, what is right, and
// how to cure what is wrong. It is run with the others, after a control, unless a word says
// otherwise, if its needs are met.
//
//go:embed checks.txt
var checksText string

// The phases of checks that are not run with the others: that look at the responses to them, that
// move the program's clock, that look once more at the end, and that kill the program.
var phases = map[string]int{"after-others": 1, "with-clock": 2, "after-all": 3, "last": lastPhase}

// lastPhase is that of checks that kill the program: a damaged one would fail the others.
const lastPhase = 4

// initials are those of the numbers of checks.
var initials = map[Role]string{Consumer: "C", Producer: "P", Intermediary: "I"}

// checksOf returns the checks of a role, in the order of their numbers.
func checksOf(role Role) (all []*check) {
	for _, part := range table("checks.txt", checksText, 6) {
		c := &check{number: part[0], rows: strings.Fields(part[1]), title: part[3], right: part[4], cure: part[5]}
		if c.number[:1] != initials[role] {
			continue
		}
		for _, word := range strings.Fields(part[2]) {
			if phase, ok := phases[word]; ok {
				c.phase = phase
			} else if word == "uncontrolled" {
				c.free = true
			} else if needs()[word].reason != "" {
				c.needs = append(c.needs, word)
			} else if word != "-" {
				panic("conform: checks.txt: " + c.number + ": unknown word " + word)
			}
		}
		if allAttempts()[c.number] != nil {
			c.run = attempted
		}
		for _, area := range areas {
			if run, ok := area[c.number]; ok {
				c.run = run
			}
		}
		all = append(all, c)
	}
	return all
}

// areas have the checks that are more than attempts, by their numbers.
var areas = []map[string]steps{
	keyChecks, repeatChecks, httpChecks, seenChecks, rfc9421Checks, deliveryChecks, killChecks,
	producerChecks, intermediaryChecks,
}

// undecided is the error of a check that does not apply, or cannot be tested.
type undecided struct {
	verdict Verdict
	reason  string
}

func (u undecided) Error() string { return u.reason }

// notJudged ends a check as not judged.
func notJudged(format string, a ...any) error {
	return undecided{NotJudged, fmt.Sprintf(format, a...)}
}

// notApplicable ends a check that says nothing about this program.
func notApplicable(format string, a ...any) error {
	return undecided{NotApplicable, fmt.Sprintf(format, a...)}
}

// wrong is what the program did wrong.
func wrong(format string, a ...any) error { return fmt.Errorf(format, a...) }

// wrongIf is what the program did wrong if it did.
func wrongIf(did bool, format string, a ...any) error {
	if !did {
		return nil
	}
	return fmt.Errorf(format, a...)
}

// run is one run of a check.
type run struct {
	*session
	check     *check
	exchanges []Exchange
	remark    string        // the reason of a check that holds
	gate      chan struct{} // closed when the second parts of requests are sent
	lingers   bool          // responses are not complete before it is known whether the connection is closed
}

// evaluate runs a check.
func (s *session) evaluate(ctx context.Context, c *check) Result {
	began := time.Now()
	r := Result{Check: c.number, Title: c.title, Strength: advice}
	var isClaimed bool
	r.Rows, isClaimed = s.p.rowsOf(c)
	for _, row := range r.Rows {
		if s.p.claims(row.Document) && strengths[row.Strength] > strengths[r.Strength] {
			r.Strength = row.Strength
		}
	}
	t := &run{session: s, check: c}
	err := s.unmet(c)
	if !isClaimed {
		err = notApplicable("the profile does not claim %s", r.Rows[0].Document)
	}
	if err == nil && s.o.Role == Consumer && !c.free {
		_, err = t.accepted(ctx, t.delivery())
	}
	if err == nil {
		err = c.run(ctx, t)
	}
	r.Took, r.Exchanges = time.Since(began).Round(time.Millisecond), t.exchanges
	switch u, isOpen := errors.AsType[undecided](err); {
	case err == nil:
		r.Verdict, r.Reason = Holds, t.remark
		return r
	case isOpen:
		r.Verdict = u.verdict
	default:
		r.fails(c, "")
	}
	r.Reason = s.withoutSecret(err.Error())
	return r
}

func (r *Result) fails(c *check, reason string) {
	r.Verdict, r.Reason, r.Right, r.Cure = Fails, reason, c.right, c.cure
}

// rowsOf returns the rows of a check that count: those of documents that the profile claims, or
// else our own, or else all. Then the check does not apply.
func (p *Profile) rowsOf(c *check) (counted []Row, isClaimed bool) {
	all := rowsOf(c.rows)
	isOwn := func(document string) bool { return document == ownDocument }
	for _, counts := range []func(string) bool{p.claims, isOwn} {
		counted = slices.DeleteFunc(slices.Clone(all), func(row Row) bool { return !counts(row.Document) })
		if len(counted) > 0 {
			return counted, true
		}
	}
	return all, false
}

// Listed is a check as it is listed.
type Listed struct {
	Check string `json:"check"`
	Title string `json:"title"`
	Rows  []Row  `json:"rows"`
}

// List returns the checks of a role.
func List(role Role) []Listed {
	var all []Listed
	for _, c := range checksOf(role) {
		all = append(all, Listed{Check: c.number, Title: c.title, Rows: rowsOf(c.rows)})
	}
	return all
}

// Source returns the documents and sections that the check is from.
func (l Listed) Source() string { return source(l.Rows) }

// source returns where the requirements of a check are from, such as "RFC 9421 §2.5".
func source(rows []Row) string {
	var all []string
	for _, row := range rows {
		if text := strings.TrimSpace(documents[row.Document] + " " + row.Section); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}
