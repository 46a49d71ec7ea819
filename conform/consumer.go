package conform

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// wants sends a delivery of a new event, which must get one of the statuses, or any refusal if
// there are none, and must not be handled.
func wants(ctx context.Context, t *run, what string, d *delivery, statuses ...int) error {
	if err := statusOf(what, t.send(ctx, d), statuses); err != nil {
		return err
	}
	return unhandled(ctx, t, what, d.id)
}

// statusOf compares a response with the statuses that are right, or with any refusal if there are
// none. A server that is busy or broken does not refuse, nor does a connection that is cut.
func statusOf(what string, a *answer, statuses []int) error {
	switch isAny := len(statuses) == 0; {
	case a.is(statuses...) || isAny && a.isRefusal():
		return nil
	case a.isBusy() || isAny && a.status >= 500:
		return notJudged("%s: %s, which neither accepts nor refuses it", what, a)
	case isAny:
		return wrong("%s: %s, which is not a refusal", what, a)
	}
	return wrong("%s: %s, not %s", what, a, either(statuses))
}

// isBusy reports whether a response says nothing about its request.
func (a *answer) isBusy() bool {
	return a.status == 0 || a.is(http.StatusTooManyRequests, http.StatusServiceUnavailable)
}

func (a *answer) isRefusal() bool {
	return a.status >= 400 && a.status < 500 && a.status != http.StatusTooManyRequests ||
		a.status == http.StatusNotImplemented
}

// unhandled checks that a refused event is not handled, and has the last check look once more.
func unhandled(ctx context.Context, t *run, what, id string) error {
	t.mu.Lock()
	t.refused = append(t.refused, id)
	t.mu.Unlock()
	if t.p.Effects == nil {
		return nil
	}
	n, err := t.effectsOf(ctx, id)
	if err == nil && n > 0 {
		err = wrong("%s: it was refused, but handled", what)
	}
	return err
}

// worst joins what was wrong. Only if nothing was is the result what could not be judged.
func worst(errs []error) error {
	isOpen := func(err error) bool {
		_, ok := errors.AsType[undecided](err)
		return ok
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if failed := slices.DeleteFunc(slices.Clone(errs), isOpen); len(failed) > 0 {
		return errors.Join(failed...)
	}
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// accepts checks that an unusual delivery is accepted.
func accepts(ctx context.Context, t *run, what string, d *delivery) error {
	a := t.send(ctx, d)
	if a.isBusy() {
		return notJudged("%s: %s", what, a)
	}
	return wrongIf(!t.accepts(a), "%s: %s", what, a)
}

// known is the run of a check of an event that was handled.
func known(then func(ctx context.Context, t *run, d *delivery, first *answer) error) steps {
	return func(ctx context.Context, t *run) error {
		d := t.delivery()
		first, err := t.accepted(ctx, d)
		if err == nil {
			err = t.once(ctx, d.id)
		}
		if err != nil {
			return err
		}
		return then(ctx, t, d, first)
	}
}

// repeats sends a delivery of an event that was accepted with the first response. It must get the
// same one, and have no effect. Without a claim, another status that accepts it is as good.
func repeats(ctx context.Context, t *run, what string, first *answer, d *delivery) error {
	a := t.send(ctx, d)
	same := a.status == first.status
	switch {
	case a.isBusy():
		return notJudged("%s: %s", what, a)
	case !same && (t.p.Answers || t.p.claims("idempotency-key") || !t.accepts(a)):
		return wrong("%s: %s, not %s as the first time", what, a, first)
	case t.p.Answers && !bytes.Equal(a.body, first.body):
		return wrong("%s: the body of the response is not that of the first time", what)
	}
	return t.once(ctx, d.id)
}

// twice checks that a delivery with a known identifier is another event.
func twice(ctx context.Context, t *run, what string, d *delivery) error {
	if a := t.send(ctx, d); !t.accepts(a) {
		return wrong("the same key %s: %s", what, a)
	}
	return exactly(ctx, t, 2, "the same key "+what, d.id)
}

// exactly checks that an event was handled n times in all.
func exactly(ctx context.Context, t *run, n int, what, id string) error {
	got, err := t.settled(ctx, id, n)
	return cmp.Or(err, wrongIf(got != n, "%s: handled %d times, not %d", what, got, n))
}

func either(statuses []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(statuses), " ", " or "), "[]")
}
