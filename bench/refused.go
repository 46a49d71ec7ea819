package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// The load of refused deliveries: how many pairs, how many deliveries at once, and how many before
// and in each measurement.
const (
	refusedPairs   = 10
	refusedClients = 8
	refusedWarmup  = 2_000
	refusedCount   = 10_000
)

// maxRefusedRatio is the largest ratio of CPU for a refused delivery, kept to not kept.
const maxRefusedRatio = 1.10

// refusedResult is the CPU time of the receiver for a refused delivery, in microseconds.
type refusedResult struct {
	Kept  []float64 `json:"kept"` // of each pair
	Off   []float64 `json:"off"`
	Ratio float64   `json:"ratio"` // the median of the ratios of pairs
}

// refusedDeliveries measures what it costs to keep refused deliveries, in pairs of a receiver that
// keeps them and one that does not. A larger ratio than the goal is an error.
func refusedDeliveries(ctx context.Context, s settings, out, progress io.Writer) error {
	b, err := newBench(ctx, s, progress)
	if err != nil {
		return err
	}
	defer b.disk.close()
	var found refusedResult
	var ratios []float64
	for i := range refusedPairs {
		cost := map[string]float64{}
		keeps := []string{"memory", "off"}
		if i%2 == 1 {
			slices.Reverse(keeps)
		}
		for _, keep := range keeps {
			if cost[keep], err = b.refusedRound(ctx, keep); err != nil {
				return fmt.Errorf("refused: %s: %w", keep, err)
			}
			_, _ = fmt.Fprintf(progress, "pair %d of %d: refused: %-6s %6.1f us CPU\n", i+1, refusedPairs, keep,
				cost[keep])
		}
		found.Kept, found.Off = append(found.Kept, cost["memory"]), append(found.Off, cost["off"])
		ratios = append(ratios, ratio(cost["memory"], cost["off"]))
	}
	found.Ratio = spreadOf(ratios).Median
	if found.Ratio > maxRefusedRatio {
		err = fmt.Errorf("keeping a refused delivery takes %.2f times the CPU, want at most %.2f", found.Ratio,
			maxRefusedRatio)
	}
	if s.output == "json" {
		return errors.Join(json.NewEncoder(out).Encode(found), err)
	}
	printTable(out, [][]string{
		{"CPU for a refused delivery", "us"}, {"refused: memory", number(spreadOf(found.Kept).Median)},
		{"refused: off", number(spreadOf(found.Off).Median)}, {"median ratio of pairs", number(found.Ratio)},
	})
	return err
}

// refusedRound returns the CPU time of one receiver for a refused delivery, in microseconds.
func (b *bench) refusedRound(ctx context.Context, keep string) (cost float64, err error) {
	w := workload{name: "refused", signature: "github", handler: "none", refused: keep}
	r, err := b.receivers.start(ctx, "eyelet", w)
	if err != nil {
		return 0, err
	}
	defer r.stop()
	if err := sendRefused(ctx, r.address, b.body, refusedWarmup); err != nil {
		return 0, err
	}
	before, _ := r.cpu()
	if err := sendRefused(ctx, r.address, b.body, refusedCount); err != nil {
		return 0, err
	}
	after, _ := r.cpu()
	return float64((after - before).Nanoseconds()) / 1e3 / refusedCount, nil
}

// sendRefused sends deliveries with a wrong signature. Each must be answered 401.
func sendRefused(ctx context.Context, address string, size, count int) error {
	body := []byte(`{"pad":"` + string(padding[:max(0, size-10)]) + `"}`)
	transport := &http.Transport{MaxIdleConnsPerHost: refusedClients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	clients, ctx := errgroup.WithContext(ctx)
	for range refusedClients {
		clients.Go(func() error {
			for range count / refusedClients {
				if err := sendWrong(ctx, client, address, body); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return clients.Wait()
}

func sendWrong(ctx context.Context, client *http.Client, address string, body []byte) error {
	target := "http://" + address + "/webhooks/github"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-GitHub-Event", "push")
	req.Header.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	req.Header.Set("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err = errors.Join(err, res.Body.Close()); err == nil && res.StatusCode != http.StatusUnauthorized {
		err = fmt.Errorf("a wrong signature is answered %s", res.Status)
	}
	return err
}
