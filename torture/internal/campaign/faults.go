package campaign

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/eyelet-dev/eyelet/internal/pgserver"
)

// fault is something that goes wrong.
type fault struct {
	name string
	do   func(context.Context, *rand.Rand) error
	// background faults last while others happen.
	background bool
}

// faults returns what happens, in the order of the flags.
func (f *Fleet) faults() (all []fault) {
	add := func(n int, one fault) {
		for range n {
			all = append(all, one)
		}
	}
	add(f.Rounds, fault{name: "kills", do: f.kill})
	add(f.Stops, fault{name: "stops", do: f.pause, background: true})
	add(f.ServerKills, fault{name: "server_kills", do: f.killServer})
	add(f.ServerStops, fault{name: "server_stops", do: f.stopServer})
	add(f.ServerFreezes, fault{name: "server_freezes", do: f.freezeServer})
	add(f.FailOvers, fault{name: "fail_overs", do: f.failOver})
	return all
}

// counts returns how often each fault happens.
func (f *Fleet) counts() map[string]int {
	counts := map[string]int{}
	for _, one := range f.faults() {
		counts[one.name]++
	}
	return counts
}

// doFaults does the faults in a random order, with short times between them. Before every fortieth
// comes an event whose handler kills each receiver that runs it, several in all.
func (f *Fleet) doFaults(ctx context.Context, rng *rand.Rand) error {
	all := f.faults()
	rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	background, running := make(chan error, len(all)), 0
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for i, one := range all {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.MinLife + rand.N(f.MaxLife-f.MinLife+1)):
		}
		if !f.NoCrashers && i%40 == 2 {
			f.o.send(ctx, client, f.anyURL(), f.o.create(rng, typeCrash))
		}
		switch seed := rand.New(rand.NewPCG(rng.Uint64(), 0)); {
		case one.background:
			running++
			go func() { background <- one.do(ctx, seed) }()
		default:
			if err := one.do(ctx, seed); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
		if (i+1)%10 == 0 || i+1 == len(all) {
			n := f.o.counts()
			f.printf("fault %d of %d: %d acknowledged, %d duplicates answered, %d answers wrong", i+1, len(all),
				n.Acknowledged, n.Duplicates, n.Wrong)
		}
	}
	var err error
	for range running {
		err = errors.Join(err, <-background)
	}
	return err
}

// victim waits for a receiver that runs, and of which others are left. It is marked as paused if
// this is a pause.
func (f *Fleet) victim(ctx context.Context, rng *rand.Rand, pause bool) (*member, *child, error) {
	for {
		others := 0
		for _, m := range f.members {
			if c := m.running(); c != nil && c.url != "" {
				others++
			}
		}
		m := f.members[rng.IntN(len(f.members))]
		if c := m.running(); others > 1 && c != nil && c.url != "" {
			m.mu.Lock()
			m.paused = pause
			m.mu.Unlock()
			return m, c, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (f *Fleet) kill(ctx context.Context, rng *rand.Rand) error {
	_, c, err := f.victim(ctx, rng, false)
	if err == nil {
		c.kill()
	}
	return err
}

// pause stops a receiver for longer than its lease.
func (f *Fleet) pause(ctx context.Context, rng *rand.Rand) error {
	m, c, err := f.victim(ctx, rng, true)
	if err != nil {
		return err
	}
	pid := c.cmd.Process.Pid
	if err := pgserver.Suspend(pid); err != nil {
		return err
	}
	f.interrupt(c)
	select {
	case <-ctx.Done():
	case <-time.After(f.Lease + f.Lease/8 + time.Duration(rng.Int64N(int64(f.Lease*3/2)))):
	}
	err = pgserver.Resume(pid)
	m.mu.Lock()
	m.paused = false
	m.mu.Unlock()
	return err
}

// outage makes the database unreachable and back. It measures how long the receivers need.
func (f *Fleet) outage(ctx context.Context, away, back func() error) error {
	out := span{from: time.Now()}
	err := away()
	if err == nil {
		err = back()
	}
	if err != nil {
		return err
	}
	came := time.Now()
	late, cancel := context.WithTimeout(ctx, latestRecovery)
	defer cancel()
	if err := f.ready(late); err != nil {
		if ctx.Err() == nil {
			f.o.broken(&f.stuck, "not every receiver accepts deliveries %v after the database", latestRecovery)
		}
		return ctx.Err()
	}
	out.to = time.Now()
	f.recoveries = append(f.recoveries, out.to.Sub(came))
	f.db.outages = append(f.db.outages, out)
	return nil
}

// wait waits, at most until ctx ends.
func wait(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}

func (f *Fleet) killServer(ctx context.Context, rng *rand.Rand) error {
	return f.outage(ctx, func() error {
		f.db.primary.Kill()
		wait(ctx, time.Duration(rng.Int64N(int64(time.Second))))
		return nil
	}, func() error { return f.db.primary.Start(ctx) })
}

// restart kills the server and starts it again within a second.
func (d *database) restart(ctx context.Context, rng *rand.Rand) error {
	d.primary.Kill()
	wait(ctx, time.Duration(rng.Int64N(int64(time.Second))))
	return d.primary.Start(ctx)
}

func (f *Fleet) stopServer(ctx context.Context, _ *rand.Rand) error {
	return f.outage(ctx, func() error {
		f.db.primary.Stop()
		wait(ctx, f.Outage)
		return nil
	}, func() error { return f.db.primary.Start(ctx) })
}

// freezeServer makes the server vanish without a packet.
func (f *Fleet) freezeServer(ctx context.Context, _ *rand.Rand) error {
	return f.outage(ctx, func() error {
		err := f.db.primary.Freeze()
		wait(ctx, f.Outage)
		return err
	}, func() error { return f.db.primary.Thaw() })
}

// failOver kills the primary, or makes it vanish, and promotes the standby. Then it makes a new
// standby.
func (f *Fleet) failOver(ctx context.Context, rng *rand.Rand) error {
	d := f.db
	old := d.primary
	err := f.outage(ctx, func() error {
		if rng.IntN(2) == 0 {
			if err := old.Freeze(); err != nil {
				return err
			}
		} else {
			old.Kill()
		}
		wait(ctx, time.Duration(rng.Int64N(int64(time.Second))))
		return nil
	}, func() error { return d.standby.Promote(ctx) })
	if err != nil {
		return err
	}
	old.Kill() // it must not come back
	d.primary, d.standby = d.standby, nil
	d.sockets[0], d.sockets[1] = d.sockets[1], d.sockets[0]
	d.data[0], d.data[1] = d.data[1], d.data[0]
	return d.addStandby(ctx)
}

// startServers starts a server in the directory, and a synchronous standby if there are to be
// fail-overs.
func (d *database) startServers(ctx context.Context, dir string, standby bool) (err error) {
	if d.dir, err = pgserver.TempDir(); err != nil {
		return err
	}
	files := filepath.Join(dir, "servers")
	if err := os.Mkdir(files, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the servers do not run as root
		return err
	}
	for _, path := range []string{files, filepath.Join(d.dir, "a"), filepath.Join(d.dir, "b")} {
		if path != files {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			d.sockets = append(d.sockets, path)
		}
		if err := pgserver.GiveAway(path); err != nil {
			return err
		}
	}
	d.data = []string{filepath.Join(files, "a"), filepath.Join(files, "b")}
	if d.primary, err = pgserver.New(d.data[0], d.sockets[0]); err != nil {
		return err
	}
	if err := d.primary.Start(ctx); err != nil {
		return err
	}
	if d.dsn = d.primary.DSN(); !standby {
		return nil
	}
	d.dsn = "host=" + d.sockets[0] + "," + d.sockets[1] + " user=" + pgserver.User +
		" dbname=postgres target_session_attrs=read-write"
	return d.addStandby(ctx)
}

// addStandby makes a standby of the primary in the other directories.
func (d *database) addStandby(ctx context.Context) (err error) {
	if err := os.RemoveAll(d.data[1]); err != nil {
		return err
	}
	d.standby, err = d.primary.Standby(ctx, d.data[1], d.sockets[1])
	return err
}

// close ends the servers. Their files stay.
func (d *database) close() {
	if d == nil {
		return
	}
	for _, s := range []*pgserver.Server{d.standby, d.primary} {
		if s != nil {
			s.Stop()
		}
	}
	if d.dir != "" {
		_ = os.RemoveAll(d.dir)
	}
}
