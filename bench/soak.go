package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// soakRate is the load of a soak in deliveries per second: a fraction of the largest rate, because
// the disk must hold the events of an hour until the store rewrites its files.
const soakRate = 500

// The sizes that must not grow while the load is constant, except by a slack: at each time another
// number of deliveries is in flight.
var soaked = []struct {
	title, metric string
	slack         float64
}{
	{"memory without pages of files, bytes", anonymous, 0},
	{"open files", "process_open_fds", 16},
	{"goroutines", "go_goroutines", 64},
	{"disk, bytes", "eyelet_store_bytes", 0},
}

// anonymous is the memory that the system cannot take back. Pages of the store's files are not in
// it: how many are resident follows the size of the disk's cache.
const anonymous = "anonymous memory"

// maxGrowth is the largest ratio of the last quarter of a soak to its second quarter. The store
// deletes expired records every ten minutes and rewrites its files every hour: a soak of less than
// two hours always shows growth of the disk.
const maxGrowth = 1.1

// growth is one size in a soak. Early and Late are what three of four samples of its second and its
// last quarter are not below: a sweep raises the memory for a minute, and what is lost raises all.
type growth struct {
	Title string  `json:"title"`
	Early float64 `json:"early"`
	Late  float64 `json:"late"`
	Max   float64 `json:"max"`
	Flat  bool    `json:"flat"`
}

// growthOf returns the growth of a series of samples.
func growthOf(title string, samples []float64, slack float64) growth {
	n := len(samples)
	early, late := lowerQuartile(samples[n/4:n/2]), lowerQuartile(samples[n-n/4:])
	return growth{title, early, late, spreadOf(samples).Max, late <= maxGrowth*early+slack}
}

func lowerQuartile(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[len(sorted)/4]
}

// soakWindow is how long events are remembered in a soak: short enough that most of a soak deletes
// as many events as it accepts.
func soakWindow(length time.Duration) time.Duration {
	return min(max(length/20, 10*time.Second), 2*time.Minute).Round(time.Second)
}

// soak loads Eyelet constantly, and reports each size. Growth is an error.
func soak(ctx context.Context, s settings, out, progress io.Writer) error {
	b, err := newBench(ctx, s, progress)
	if err != nil {
		return err
	}
	defer b.disk.close()
	w := workload{
		name: "soak", clients: 64, signature: "github", handler: "stdout", window: soakWindow(s.soak), duplicates: 0.1,
	}
	r, err := b.receivers.start(ctx, "eyelet", w)
	if err != nil {
		return err
	}
	defer r.stop()
	p := plan{workload: w, address: r.address, length: s.soak, size: s.body, rate: soakRate}
	senders, err := p.senders(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		a, err := p.run(ctx, senders)
		ended <- errors.Join(err, r.wait(ctx, float64(a.fresh)))
	}()
	series, err := sampleUntil(ctx, r, max(time.Second, s.soak/200), ended, progress)
	if err != nil {
		return err
	}
	var all []growth
	for i, m := range soaked {
		all = append(all, growthOf(m.title, series[i], m.slack))
	}
	return reportSoak(out, s, all)
}

// sampleUntil samples each size until the load has ended.
func sampleUntil(
	ctx context.Context, r *running, every time.Duration, ended <-chan error, progress io.Writer,
) (series [][]float64, err error) {
	series = make([][]float64, len(soaked))
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case err := <-ended:
			if err == nil && len(series[0]) < 4 {
				err = errors.New("a soak must be longer")
			}
			return series, err
		case <-ticks.C:
			m, err := r.scrape(ctx)
			if err != nil {
				return nil, err
			}
			m[anonymous] = anonymousMemory(r.process.Process.Pid)
			for i, s := range soaked {
				series[i] = append(series[i], m[s.metric])
				_, _ = fmt.Fprintf(progress, "%s %.0f  ", s.title, m[s.metric])
			}
			_, _ = fmt.Fprintln(progress)
		}
	}
}

func reportSoak(out io.Writer, s settings, all []growth) error {
	var err error
	rows := [][]string{{"size", "second quarter", "last quarter", "highest", "growth"}}
	for _, g := range all {
		rows = append(rows, []string{
			g.Title, number(g.Early), number(g.Late), number(g.Max), number(ratio(g.Late, g.Early)),
		})
		if !g.Flat {
			err = errors.Join(err, fmt.Errorf("%s: grew by %.0f %%", g.Title, 100*(g.Late/g.Early-1)))
		}
	}
	if s.output == "json" {
		return errors.Join(json.NewEncoder(out).Encode(all), err)
	}
	_, _ = fmt.Fprintf(out, "%v of %d deliveries/s, a window of %v\n", s.soak, soakRate, soakWindow(s.soak))
	printTable(out, rows)
	return err
}
