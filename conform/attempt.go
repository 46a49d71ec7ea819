package conform

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// attempt is a delivery that is odd in some way, and what is right then.
type attempt struct {
	right         string // the first word of it
	statuses      []int
	where, unless []string // needs
	what          string
	steps         []step
}

// step is an edit of a delivery, with arguments that may have values in braces.
type step struct {
	edit
	args []string
}

// attemptsText has the attempts of checks, and says how they are written.
//
//go:embed attempts.txt
var attemptsText string

// rights are the words that say what is right.
var rights = []string{
	"refused", "broken", "cut", "accepted", "taken", "same", "another", "judged", "applies", "sent",
}

var allAttempts = sync.OnceValue(func() map[string][]*attempt {
	all := map[string][]*attempt{}
	for _, part := range table("attempts.txt", attemptsText, 4) {
		a := newAttempt(part[1], part[2], part[3])
		if !slices.Contains(rights, a.right) {
			panic("conform: attempts.txt: unknown word " + a.right)
		}
		all[part[0]] = append(all[part[0]], a)
	}
	return all
})

func newAttempt(right, what, steps string) *attempt {
	right, where, _ := strings.Cut(right, " where ")
	right, unless, _ := strings.Cut(right, " unless ")
	words := strings.Fields(right)
	a := &attempt{right: words[0], what: what, where: strings.Fields(where), unless: strings.Fields(unless)}
	for _, word := range words[1:] {
		if word != "if" && word != "accepted" {
			a.statuses = append(a.statuses, number(word))
		}
	}
	for text := range strings.SplitSeq(steps, " ; ") {
		name, rest, _ := strings.Cut(text, " ")
		s := step{edits[name], make([]string, edits[name].args)}
		if s.do == nil || (s.edit.args > 0) != (rest != "") {
			panic("conform: attempts.txt: not a step: " + text)
		}
		copy(s.args, strings.SplitN(rest, " ", s.edit.args))
		for _, value := range valueForm.FindAllString(text, -1) {
			if valueOf(value) == nil {
				panic("conform: attempts.txt: unknown value " + value)
			}
		}
		a.steps = append(a.steps, s)
	}
	return a
}

// number returns that of an argument.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("conform: attempts.txt: " + err.Error())
	}
	return n
}

// attemptsOf returns the attempts of a check that are for the profile of the run.
func attemptsOf(t *run, check string) (all []*attempt) {
	facts := t.facts()
	isMet := func(word string) bool { return facts[word] }
	isUnmet := func(word string) bool { return !facts[word] }
	for _, a := range allAttempts()[check] {
		if !slices.ContainsFunc(a.where, isUnmet) && !slices.ContainsFunc(a.unless, isMet) {
			all = append(all, a)
		}
	}
	return all
}

// attempted is the run of a check that is nothing but attempts.
func attempted(ctx context.Context, t *run) error {
	var errs []error
	for _, a := range attemptsOf(t, t.check.number) {
		err := a.try(ctx, t)
		errs = append(errs, err)
		if isRefusal := a.right == "refused" || a.right == "broken"; err != nil && !isRefusal {
			break
		}
	}
	return worst(errs)
}

func (a *attempt) try(ctx context.Context, t *run) error {
	switch a.right {
	case "refused":
		return wants(ctx, t, a.what, a.make(t), a.statuses...)
	case "broken":
		return breaks(ctx, t, a.what, a.make(t), a.statuses)
	case "cut":
		return truncated(ctx, t, a.what, a.make(t))
	case "accepted":
		return accepts(ctx, t, a.what, a.make(t))
	case "same", "another":
		return known(a.again)(ctx, t)
	}
	got := t.send(ctx, a.make(t))
	switch {
	case len(a.statuses) == 0 && t.accepts(got) || got.is(a.statuses...):
		return nil
	case a.right == "taken":
		return wrong("%s: %s", a.what, got)
	case a.right == "judged":
		return notJudged("%s: %s", a.what, got)
	}
	return notApplicable("%s: %s", a.what, got)
}

// again sends the delivery of an event that was handled once more, as one of the same event or of
// another one.
func (a *attempt) again(ctx context.Context, t *run, d *delivery, first *answer) error {
	if a.right == "another" {
		return twice(ctx, t, a.what, a.change(d.again()))
	}
	return oddly(ctx, t, a.what, first, a.change(d.again()))
}

// oddly sends a duplicate in another form. A consumer that handles duplicates again, soon or late,
// knows none in any form.
func oddly(ctx context.Context, t *run, what string, first *answer, d *delivery) error {
	err := repeats(ctx, t, what, first, d)
	if err == nil {
		return nil
	}
	if plain := known(plainly)(ctx, t); plain != nil {
		return notJudged("%v", plain)
	}
	return err
}

func plainly(ctx context.Context, t *run, d *delivery, first *answer) error {
	err := repeats(ctx, t, "a duplicate", first, d.again())
	if err == nil {
		sleep(ctx, t.p.Settle)
		err = t.once(ctx, d.id)
	}
	return err
}

// make makes the delivery of an attempt, and change changes one.
func (a *attempt) make(t *run) *delivery { return a.change(t.unsigned()) }

func (a *attempt) change(d *delivery) *delivery {
	for _, s := range a.steps {
		args := slices.Clone(s.args)
		for i := range args {
			args[i] = valueForm.ReplaceAllStringFunc(args[i], func(value string) string { return valueOf(value)(d) })
		}
		s.do(d, args)
	}
	return d
}
