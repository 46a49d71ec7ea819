package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// running is a receiver that accepts deliveries, with its services.
type running struct {
	dir     string // its files
	sockets string // its sockets, whose paths may have about 100 bytes; "" without any
	address string // of deliveries
	metrics string // URL of its metrics; "" without any
	profile string // address of its profiles, if it was built with them
	// handled returns how many events are handled completely, from the metrics. It is nil if an
	// answered event is a handled event.
	handled  func(metrics) float64
	process  *exec.Cmd
	services []*exec.Cmd // whose CPU counts too
	target   io.Closer   // of forwarded events
}

// startTimeout limits the start of a process.
const startTimeout = 30 * time.Second

// launch starts a process that listens on an address.
func launch(ctx context.Context, cmd *exec.Cmd, network, address string) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	for begin := time.Now(); ; {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			return conn.Close()
		}
		if ctx.Err() != nil || time.Since(begin) > startTimeout {
			kill(cmd)
			return fmt.Errorf("%s does not listen: %w", cmd.Path, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
}

func (r *running) stop() {
	if r.process != nil {
		kill(r.process)
	}
	for _, s := range r.services {
		kill(s)
	}
	if r.target != nil {
		_ = r.target.Close()
	}
	if r.sockets != "" {
		_ = os.RemoveAll(r.sockets)
	}
}

// cpu returns the CPU time of the receiver and of its services.
func (r *running) cpu() (own, services time.Duration) {
	own = cpuTime(r.process.Process.Pid)
	for _, s := range r.services {
		services += cpuTime(s.Process.Pid)
	}
	return own, services
}

// metrics are sums of Prometheus metrics by name.
type metrics map[string]float64

// scrape reads the metrics of a receiver.
func (r *running) scrape(ctx context.Context) (m metrics, err error) {
	m = metrics{}
	if r.metrics == "" {
		return m, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.metrics, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if i := strings.LastIndexByte(lines.Text(), ' '); i > 0 {
			value = lines.Text()[i+1:]
		}
		name, _, _ = strings.Cut(name, "{")
		if v, err := strconv.ParseFloat(value, 64); ok && name != "#" && err == nil {
			m[name] += v
		}
	}
	return m, lines.Err()
}

// wait returns once the receiver has handled so many events.
func (r *running) wait(ctx context.Context, events float64) error {
	begin := time.Now()
	for last, idle := -1.0, begin; r.handled != nil; {
		m, err := r.scrape(ctx)
		if err != nil {
			return err
		}
		done := r.handled(m)
		switch {
		case done >= events:
			return nil
		case done > last:
			last, idle = done, time.Now()
		case time.Since(idle) > startTimeout:
			return fmt.Errorf("%.0f of %.0f events are handled, and no more follow", done, events)
		}
		time.Sleep(10*time.Millisecond + time.Since(begin)/20) // scrapes cost CPU too
	}
	return nil
}
