package conform

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// keyChecks are those of the syntax of Idempotency-Key.
var keyChecks = map[string]steps{
	"C102": func(ctx context.Context, t *run) error {
		a := t.send(ctx, attemptsOf(t, "C101")[0].make(t))
		kind, isProblem := a.problem()["type"].(string)
		switch {
		case a.status != http.StatusBadRequest:
			return notJudged("the response is %s, not 400", a)
		case a.field("Link") == "" && (!isProblem || kind == "" || kind == "about:blank"):
			return wrong("there is no Link, and no problem with a type of its own")
		}
		return nil
	},
	"C103": known(func(ctx context.Context, t *run, d *delivery, first *answer) error {
		again := d.again().key(d.id).sign()
		if err := attemptsOf(t, "C104")[0].try(ctx, t); err != nil {
			return err
		}
		a := t.send(ctx, again)
		if t.accepts(a) && t.p.claims("event-delivery") { // examples of its section 9.8 send it without quotes
			return oddly(ctx, t, "without quotes", first, again)
		}
		return statusOf("without quotes", a, nil)
	}),
}

// repeatChecks are those of what a known identifier means.
var repeatChecks = map[string]steps{
	"C110": func(ctx context.Context, t *run) error {
		d := t.delivery()
		if _, err := t.accepted(ctx, d); err != nil {
			return wrong("%v", err)
		}
		if t.p.Effects == nil {
			return needs()["effects"]
		}
		n, err := t.settled(ctx, d.id, 1)
		return cmp.Or(err, wrongIf(n == 0, "it was accepted, and not handled within %s", t.p.Settle))
	},
	"C111": known(func(ctx context.Context, t *run, d *delivery, first *answer) error {
		return repeats(ctx, t, "the second time", first, d.again())
	}),
	"C113": known(func(ctx context.Context, t *run, d *delivery, _ *answer) error {
		a := t.send(ctx, t.conflict(d))
		switch isSuccess := t.p.Conflict < 300 && t.accepts(a); {
		case isSuccess && t.p.Effects == nil:
			return notJudged("it was accepted, and the profile has no effects: whether it was handled cannot be seen")
		case !isSuccess:
			if err := statusOf("another payload", a, []int{t.p.Conflict}); err != nil {
				return err
			}
		}
		return t.once(ctx, d.id)
	}),
	"C114": known(func(ctx context.Context, t *run, d *delivery, first *answer) error {
		t.send(ctx, t.conflict(d))
		return repeats(ctx, t, "after another payload", first, d.again())
	}),
	"C115": atOnce,
	"C116": func(ctx context.Context, t *run) error {
		_, err := inFlight(ctx, t)
		return err
	},
	"C117": func(ctx context.Context, t *run) error {
		a, err := inFlight(ctx, t)
		switch seconds, bad := strconv.Atoi(a.field("Retry-After")); {
		case err != nil:
			return notJudged("%v", err)
		case a.status != http.StatusConflict:
			return notApplicable("it does not answer 409")
		case bad != nil || seconds < 1:
			return wrong("Retry-After is %q", a.field("Retry-After"))
		}
		return nil
	},
	"C118": failing("transient", func(t *run, _, second *answer) error {
		return wrongIf(!t.accepts(second), "the retry got %s", second)
	}),
	"C119": failing("terminal", func(_ *run, first, second *answer) error {
		return wrongIf(!second.equals(first), "the retry got %s, not the response of the first time: %s", second, first)
	}),
	"C120": known(func(ctx context.Context, t *run, d *delivery, _ *answer) error {
		get := d.again()
		get.method, get.body = http.MethodGet, nil
		a := t.send(ctx, get.sign())
		get.identify(t.id())
		b, c := t.send(ctx, get.sign()), t.send(ctx, get.sign())
		if a.status != b.status || !a.equals(b) && b.equals(c) && t.accepts(a) {
			return wrong("%s with the known key, %s with an unknown one", a, b)
		}
		return t.once(ctx, d.id)
	}),
	"C121": known(func(ctx context.Context, t *run, d *delivery, first *answer) error {
		err := pass(ctx, t, t.p.Window/2)
		if err == nil {
			err = repeats(ctx, t, "after half the window", first, d.again())
		}
		if err == nil {
			err = pass(ctx, t, t.p.Window+time.Second/4)
		}
		if err != nil {
			return err
		}
		if _, err := t.accepted(ctx, d.again()); err != nil {
			return err
		}
		return exactly(ctx, t, 2, "after the window", d.id)
	}),
	"C122": func(ctx context.Context, t *run) error {
		if t.p.Window > t.p.Timeout/2 {
			return notJudged("the window is too long for a handler that outlasts it")
		}
		d, _, _, err := overlap(ctx, t, t.p.Window+time.Second, t.p.Window+time.Second/2)
		if err != nil {
			return err
		}
		return t.once(ctx, d.id)
	},
	"C302": func(ctx context.Context, t *run) error {
		d := t.delivery()
		if err := statusOf("signed with another key", t.send(ctx, d.again().forge()), nil); err != nil {
			return err
		}
		const what = "after another one with its identifier was refused"
		if err := accepts(ctx, t, what, d); err != nil || t.p.Effects == nil {
			return err
		}
		return exactly(ctx, t, 1, what, d.id)
	},
	"C308": known(func(ctx context.Context, t *run, d *delivery, _ *answer) error {
		t.send(ctx, d)
		return t.once(ctx, d.id)
	}),
	"C310": known(func(ctx context.Context, t *run, d *delivery, first *answer) error {
		a := t.send(ctx, d.again().forge())
		if len(first.body) > 0 && bytes.Equal(a.body, first.body) {
			return wrong("a wrong signature got the stored response")
		}
		return statusOf("a known key with a wrong signature", a, nil)
	}),
	"C311": known(func(ctx context.Context, t *run, d *delivery, first *answer) error {
		again, err := d.again().as(t.p.with(t.p.Old))
		if err != nil {
			return err
		}
		return repeats(ctx, t, "with the old credential", first, again)
	}),
}

func atOnce(ctx context.Context, t *run) error {
	const n = 32
	d := t.delivery()
	copies, answers := make([]*delivery, n), make([]*answer, n)
	for i := range copies {
		copies[i] = d.again()
	}
	var wg sync.WaitGroup
	t.gate = make(chan struct{})
	for i := range copies {
		text := copies[i].bytes()
		wg.Go(func() { answers[i] = t.sendParts(ctx, text[:len(text)-1], text[len(text)-1:]) })
	}
	time.Sleep(100 * time.Millisecond) // all but the last octets arrive
	close(t.gate)
	wg.Wait()
	if !slices.ContainsFunc(answers, t.accepts) {
		return notJudged("none of %d deliveries was accepted", n)
	}
	errs := []error{t.once(ctx, d.id)}
	for _, a := range answers {
		switch {
		case t.accepts(a):
		case a.status == 0:
			errs = append(errs, notJudged("a delivery got %s", a))
		case !a.is(http.StatusConflict, http.StatusServiceUnavailable, http.StatusTooManyRequests):
			errs = append(errs, wrong("a delivery got %s", a))
		}
	}
	return worst(errs)
}

// overlap sends an event whose handler takes a time, and its duplicate later.
func overlap(ctx context.Context, t *run, takes, later time.Duration) (d *delivery, first, second *answer, err error) {
	d = t.waiting(takes)
	done := make(chan *answer, 1)
	go func() { done <- t.send(ctx, d) }()
	time.Sleep(later)
	second = t.send(ctx, d.again())
	first = <-done
	if !t.accepts(first) {
		err = notJudged("the first delivery got %s", first)
	}
	return d, first, second, err
}

// inFlight sends a duplicate while its event is being answered, and returns its response.
func inFlight(ctx context.Context, t *run) (*answer, error) {
	d, first, second, err := overlap(ctx, t, 900*time.Millisecond, 300*time.Millisecond)
	isLater := second.is(http.StatusConflict, http.StatusServiceUnavailable)
	switch {
	case err != nil:
		return second, err
	case !isLater && (!t.accepts(second) || !second.equals(first)):
		return second, wrong("%s, neither 409 nor 503, nor the response to the first: %s", second, first)
	}
	return second, t.once(ctx, d.id)
}

// equals reports whether a response is that of the first time.
func (a *answer) equals(first *answer) bool {
	return a.status == first.status && bytes.Equal(a.body, first.body)
}

// failing sends an event twice whose handler fails the first time, and compares the responses.
func failing(how string, compare func(t *run, first, second *answer) error) steps {
	return func(ctx context.Context, t *run) error {
		d := t.unsigned().member("fail", quoted(how)).sign()
		first := t.send(ctx, d)
		isTransient := first.status >= 500 || first.status == http.StatusTooManyRequests
		if first.status < 400 || isTransient != (how == "transient") {
			return notJudged("the first response is %s, which is not a %s failure", first, how)
		}
		return compare(t, first, t.send(ctx, d.again()))
	}
}

// pass makes time pass for the program.
func pass(ctx context.Context, t *run, d time.Duration) error {
	if t.p.Clock == "" {
		sleep(ctx, d)
		return nil
	}
	seconds := int(d/time.Second) + 1
	if _, err := t.command(ctx, t.p.Clock, "SECONDS="+strconv.Itoa(seconds)); err != nil {
		return notJudged("%v", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved += time.Duration(seconds) * time.Second
	return nil
}
