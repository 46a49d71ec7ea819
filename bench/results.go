package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// results are the results of a run, as they are kept in JSON.
type results struct {
	Date    string `json:"date"`
	Command string `json:"command"`
	// Machine is its processor, system and file system, one property per line.
	Machine   []string   `json:"machine"`
	Seconds   float64    `json:"seconds"` // for which a receiver was loaded in a round
	Body      int        `json:"body"`
	Notes     []string   `json:"notes"` // what was not measured, or not as it should be
	Workloads []measured `json:"workloads"`
}

// measured are the rounds of a workload: the figures of each receiver.
type measured struct {
	Name     string               `json:"name"`
	Title    string               `json:"title"`
	Rounds   []map[string]figures `json:"rounds"`
	workload workload
}

func newResults(ctx context.Context, s settings, d disk) *results {
	return &results{
		Date: time.Now().UTC().Format(time.DateOnly), Seconds: s.time.Seconds(), Body: s.body,
		Command: "go run -C bench . " + strings.Join(os.Args[1:], " "),
		Machine: machine(ctx, d),
	}
}

func machine(ctx context.Context, d disk) []string {
	system := runtime.GOOS
	if out, err := exec.CommandContext(ctx, "uname", "-sr").Output(); err == nil {
		system = strings.TrimSpace(string(out))
	}
	files := "ext4 of its own in a file on " + fileSystem(ctx, filepath.Dir(d.dir))
	if d.shared != "" {
		files = fileSystem(ctx, d.dir)
	}
	return []string{
		fmt.Sprintf("%d processors, %s", runtime.NumCPU(), cmp.Or(processor(), runtime.GOARCH)),
		system, "file system: " + files, runtime.Version(),
	}
}

func readResults(name string) (*results, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var r results
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &r, nil
}

// of returns the rounds of a workload.
func (r *results) of(name string) []map[string]figures {
	for _, m := range r.Workloads {
		if m.Name == name {
			return m.Rounds
		}
	}
	return nil
}

// rate returns the median rate of a receiver, or 0.
func (r *results) rate(receiver, workload string) float64 {
	return medianOf(r.of(workload), receiver).PerSecond
}

// fields calls f for each field of figures.
func (f figures) each(do func(i int, value float64)) {
	v := reflect.ValueOf(f)
	for i := range v.NumField() {
		do(i, v.Field(i).Float())
	}
}

// rounded returns the figures with four significant digits.
func (f figures) rounded() (r figures) {
	to := reflect.ValueOf(&r).Elem()
	f.each(func(i int, value float64) {
		value, _ = strconv.ParseFloat(strconv.FormatFloat(value, 'g', 4, 64), 64) // cannot fail
		to.Field(i).SetFloat(value)
	})
	return r
}

// medianOf returns the median of each figure of a receiver.
func medianOf(rounds []map[string]figures, receiver string) (m figures) {
	var values [][]float64
	for _, round := range rounds {
		if f, ok := round[receiver]; ok {
			f.each(func(i int, value float64) {
				if i == len(values) {
					values = append(values, nil)
				}
				values[i] = append(values[i], value)
			})
		}
	}
	for i, v := range values {
		reflect.ValueOf(&m).Elem().Field(i).SetFloat(spreadOf(v).Median)
	}
	return m
}

// spread is a median with the smallest and the largest value.
type spread struct{ Median, Min, Max float64 }

// spreadOf returns the spread of the values that are numbers; NaN without any.
func spreadOf(values []float64) spread {
	values = slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	n := len(values)
	if n == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	slices.Sort(values)
	return spread{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]}
}
