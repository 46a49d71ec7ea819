package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// answered are the answers of a load.
type answered struct {
	took  []time.Duration // of each delivery; at a fixed rate from the scheduled time
	fresh int             // deliveries of new events
}

// plan is a load on one receiver.
type plan struct {
	workload
	address string
	length  time.Duration
	size    int     // of bodies, in bytes
	rate    float64 // deliveries per second; 0 sends as fast as the answers arrive
}

// senders returns a sender for each client.
func (p plan) senders(ctx context.Context) ([]*sender, error) {
	// Signing with Ed25519 costs a third of an acceptance: most of it is done in advance.
	const expected = 8000 // deliveries per second
	senders := make([]*sender, p.clients)
	signing, ctx := errgroup.WithContext(ctx)
	signing.SetLimit(runtime.GOMAXPROCS(0))
	for i := range senders {
		senders[i] = newSender(p.workload, p.size)
		signing.Go(func() error {
			return senders[i].prepare(ctx, int(expected*p.length.Seconds())/p.clients)
		})
	}
	return senders, signing.Wait()
}

// run sends deliveries over one connection for each sender, and returns when the last one is
// answered. Each status except 2xx is an error, because refusals cost less than acceptances.
func (p plan) run(ctx context.Context, senders []*sender) (answered, error) {
	results := make([]answered, p.clients)
	clients, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range senders {
		clients.Go(func() (err error) {
			results[i], err = p.client(ctx, senders[i], start, i)
			return err
		})
	}
	err := clients.Wait()
	var all answered
	for _, r := range results {
		all.took, all.fresh = append(all.took, r.took...), all.fresh+r.fresh
	}
	if err == nil && all.fresh == 0 {
		err = errors.New("no event was sent")
	}
	slices.Sort(all.took)
	return all, err
}

// client sends one delivery after the other, at a fixed rate at its own points in time.
func (p plan) client(ctx context.Context, s *sender, start time.Time, number int) (a answered, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return a, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := conn.SetDeadline(start.Add(p.length + time.Minute)); err != nil {
		return a, err
	}
	in := bufio.NewReader(conn)
	for sent := 0; ; sent++ {
		begin := time.Now()
		if p.rate > 0 {
			turn := float64(sent*p.clients+number) / p.rate
			begin = start.Add(time.Duration(turn * float64(time.Second)))
			time.Sleep(time.Until(begin))
		}
		if begin.Sub(start) > p.length {
			return a, nil
		}
		raw, fresh, err := s.next(ctx)
		if err != nil {
			return a, err
		}
		if p.rate == 0 {
			begin = time.Now() // without the time of signing
		}
		if _, err := conn.Write(raw); err != nil {
			return a, err
		}
		if err := readAnswer(in); err != nil {
			return a, err
		}
		a.took = append(a.took, time.Since(begin))
		if fresh {
			a.fresh++
		}
	}
}

// readAnswer reads a response with a Content-Length, which must be 2xx.
func readAnswer(in *bufio.Reader) error {
	status, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		if len(name) == 0 {
			break
		}
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if len(status) < 12 || status[9] != '2' || length < 0 && status[9:12] != "204" {
		problem, _ := in.Peek(min(max(0, length), 300))
		return fmt.Errorf("unexpected response %q: %s", status, problem)
	}
	_, err = in.Discard(max(0, length))
	return err
}
