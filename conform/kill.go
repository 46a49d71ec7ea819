package conform

import (
	"context"
	"fmt"
	"time"
)

// maxDelay is how long after its response a program is killed at most.
const maxDelay = 50 * time.Millisecond

// maxStart is how long a program may take to accept connections after a kill, or to accept a
// delivery again.
const maxStart = time.Minute

var killChecks = map[string]steps{
	"C801": func(ctx context.Context, t *run) error { return kills(ctx, t, t.p.Restart) },
	"C802": func(ctx context.Context, t *run) error { return kills(ctx, t, t.p.Power) },
	"C803": known(func(ctx context.Context, t *run, d *delivery, first *answer) error {
		sleep(ctx, t.p.Settle) // that it was handled may be written after its effect
		if _, err := t.command(ctx, t.p.Restart); err != nil {
			return notJudged("%v", err)
		}
		if _, err := acknowledged(ctx, t, true); err != nil {
			return err
		}
		return repeats(ctx, t, "after the kill", first, d.again())
	}),
}

// kills sends deliveries and kills the program after each of their responses. Then each event must
// have been handled. Twice is allowed: a process that ends between an effect and its record cannot
// know of it.
func kills(ctx context.Context, t *run, kill string) error {
	var ids []string
	for i := range t.o.Kills {
		id, err := acknowledged(ctx, t, i > 0)
		if err != nil {
			return err
		}
		ids = append(ids, id)
		time.Sleep(time.Duration(t.number()) * maxDelay / 1_000_000)
		if _, err := t.command(ctx, kill); err != nil {
			return notJudged("after %d kills: %v", i, err)
		}
	}
	var lost []string
	twice := 0
	for _, id := range ids {
		n, err := t.reached(ctx, id, 1)
		if err != nil {
			return err
		}
		if n == 0 {
			lost = append(lost, id)
		} else if n > 1 {
			twice++
		}
	}
	if len(lost) > 0 {
		return wrong("%d of %d acknowledged events were never handled, the first %s", len(lost), len(ids), lost[0])
	}
	t.remark = fmt.Sprintf("not refuted in %d kills; %d events were handled more than once", len(ids), twice)
	return nil
}

// acknowledged sends a new delivery until it is accepted, as a program that starts may refuse it,
// and returns its identifier.
func acknowledged(ctx context.Context, t *run, again bool) (string, error) {
	d := t.delivery()
	for end := time.Now().Add(maxStart); ; {
		a := t.send(ctx, d)
		switch {
		case t.accepts(a):
			return d.id, nil
		case !again:
			return "", notJudged("a delivery as the profile describes it got %s", a)
		case time.Now().Before(end) && ctx.Err() == nil:
		case a.status == 0:
			return "", notJudged("the program did not come back within a minute: %s", a)
		default:
			return "", wrong("a minute after a kill deliveries still get %s", a)
		}
		time.Sleep(20 * time.Millisecond)
		d = d.again()
	}
}
