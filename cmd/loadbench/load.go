package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// secret is the key of both sides; the load runs on loopback only.
const secret = "loadbench-shared-secret"

// measure starts one side as a separate process, loads it for one round, and returns its figures.
func measure(ctx context.Context, s settings, side string) (figures, error) {
	self, err := os.Executable()
	if err != nil {
		return figures{}, err
	}
	cmd := exec.CommandContext(ctx, self, "-child", side, "-dir", s.dir)
	if s.profile != "" && side == "receiver" {
		cmd.Args = append(cmd.Args, "-profile", s.profile)
	}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // the child exits when this closes
	if err != nil {
		return figures{}, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return figures{}, err
	}
	if err := cmd.Start(); err != nil {
		return figures{}, err
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		return figures{}, fmt.Errorf("child did not start: %w", err)
	}
	url = strings.TrimSpace(url)
	// An uncounted second of warm-up opens the connections and fills the pools.
	if _, err := load(ctx, s, url, min(time.Second, s.time)); err != nil {
		return figures{}, err
	}
	f, err := round(ctx, s, url, cmd.Process.Pid)
	if err != nil {
		return figures{}, err
	}
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		return figures{}, fmt.Errorf("child: %w", err)
	}
	return f, nil
}

// round loads a child and returns its figures.
func round(ctx context.Context, s settings, url string, pid int) (figures, error) {
	before, err := stateOf(ctx, url)
	if err != nil {
		return figures{}, err
	}
	cpu, flushed := cpuTime(pid), flushes(s.dir)
	start := time.Now()
	took, err := load(ctx, s, url, s.time)
	if err != nil {
		return figures{}, err
	}
	elapsed := time.Since(start)
	cpu, flushed = cpuTime(pid)-cpu, flushes(s.dir)-flushed
	after, err := stateOf(ctx, url)
	if err != nil {
		return figures{}, err
	}
	f := summarise(took, elapsed, cpu, flushed)
	f.HandledPerSecond = float64(after.Handled-before.Handled) / elapsed.Seconds()
	f.Backlog = float64(after.Backlog)
	f.Allocs = float64(after.Mallocs-before.Mallocs) / f.Events
	if commits := after.Commits - before.Commits; commits > 0 {
		f.EventsPerCommit = f.Events / float64(commits)
	}
	return f, nil
}

// stateOf requests the state of a side.
func stateOf(ctx context.Context, url string) (st state, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, hookPath)+statePath, nil)
	if err != nil {
		return st, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	return st, json.NewDecoder(resp.Body).Decode(&st)
}

func summarise(took []time.Duration, elapsed, cpu time.Duration, flushed int64) figures {
	slices.Sort(took)
	n := float64(len(took))
	at := func(q float64) float64 { return float64(took[min(len(took)-1, int(q*n))].Microseconds()) / 1000 }
	f := figures{
		Events: n, PerSecond: n / elapsed.Seconds(), P50: at(0.50), P99: at(0.99), CPU: float64(cpu.Microseconds()) / n,
	}
	if flushed > 0 {
		f.EventsPerFlush = n / float64(flushed)
	}
	return f
}

// load sends distinct signed events over s.clients connections for the given time and returns
// the duration of each. Any status except 200 is an error, because refusals are cheaper than
// acceptances.
func load(ctx context.Context, s settings, url string, length time.Duration) ([]time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.clients, MaxConnsPerHost: s.clients}}
	defer client.CloseIdleConnections()
	deadline := time.Now().Add(length)
	took := make([][]time.Duration, s.clients)
	clients, ctx := errgroup.WithContext(ctx)
	for i := range took {
		clients.Go(func() (err error) {
			took[i], err = oneClient(ctx, client, url, s.body, deadline)
			return err
		})
	}
	err := clients.Wait()
	all := slices.Concat(took...)
	if err == nil && len(all) == 0 {
		err = errors.New("no event was sent")
	}
	return all, err
}

func oneClient(
	ctx context.Context, client *http.Client, url string, size int, deadline time.Time,
) ([]time.Duration, error) {
	mac := hmac.New(sha256.New, []byte(secret))
	var took []time.Duration
	for time.Now().Before(deadline) {
		req, err := event(ctx, url, size, mac)
		if err != nil {
			return took, err
		}
		start := time.Now()
		resp, err := client.Do(req)
		if err != nil {
			return took, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return took, err
		}
		if resp.StatusCode != http.StatusOK {
			return took, fmt.Errorf("unexpected status %s", resp.Status)
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// event makes a signed delivery with a unique identifier and an incompressible payload.
func event(ctx context.Context, url string, size int, mac hash.Hash) (*http.Request, error) {
	raw := make([]byte, size*3/4)
	rand.Read(raw) // never fails
	body := fmt.Appendf(nil, `{"action":"bench","pad":"%s"}`, base64.RawURLEncoding.EncodeToString(raw[16:]))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	mac.Reset()
	mac.Write(body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-GitHub-Event", "push")
	req.Header.Set("X-GitHub-Delivery", hex.EncodeToString(raw[:16]))
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	return req, nil
}
