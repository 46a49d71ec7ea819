package main

import "math"

// goal is a figure with the values that it should have.
type goal struct {
	title, workload string
	figure          func(round map[string]figures) float64 // NaN if it was not measured
	atLeast         bool                                   // larger is better
	goal, stretch   float64
}

// goals are the figures by which a change of the receiver is measured.
var goals = []goal{
	{"rate against the better hand-written receiver, 64 clients", "new-64", rateAgainstHand, true, 1.5, 2},
	{"rate against the better hand-written receiver, 256 clients", "new-256", rateAgainstHand, true, 1.8, 2.2},
	{"CPU per event against bare Echo + HMAC, claim only", "claim", cpuAgainst("bare"), false, 3, 2.6},
	{"CPU per event against bare Echo + HMAC, with a handler", "new-64", cpuAgainst("bare"), false, 3.5, 3},
	{"CPU against hand-written with its worker and its Redis", "new-64", cpuAgainst("hand+worker"), false, 0.45, 0.35},
	{"device flushes per commit, in a new store", "new-64", ofEyelet(flushesPerCommit), false, 1.05, 1},
	{"device flushes per commit, after 200,000 events", "steady", ofEyelet(flushesPerCommit), false, 1.02, 1},
	{"p99 at 70 % of the rate of hand-written, against it", "fixed-rate", against("hand", p99), false, 1.2, 0.8},
	{"CPU of 90 % duplicates against bare Echo + HMAC", "duplicates", cpuAgainst("bare"), false, 2.2, 1.8},
	{"RFC 9421 Ed25519: verification against bare cryptography", verifyWorkload, verificationRatio, false, 1.4, 1.15},
	{"allocations per delivery, with a handler", "new-64", ofEyelet(allocs), false, 80, 65},
}

// comparison are the figures against the other binary of Eyelet (-against), for each workload with
// it. They have no goals.
func (r *results) comparison() []goal {
	var all []goal
	for _, m := range r.Workloads {
		rate, used := against("old", perSecond), against("old", cpu)
		all = append(all,
			goal{title: m.Name + ": rate against old", workload: m.Name, figure: rate, atLeast: true},
			goal{title: m.Name + ": CPU against old", workload: m.Name, figure: used})
	}
	return all
}

func perSecond(f figures) float64        { return f.PerSecond }
func cpu(f figures) float64              { return f.CPU }
func p99(f figures) float64              { return f.P99 }
func flushesPerCommit(f figures) float64 { return f.FlushesPerCommit }
func allocs(f figures) float64           { return f.Allocs }

// ratio returns a/b, or NaN where one of them was not measured.
func ratio(a, b float64) float64 {
	if a == 0 || b == 0 {
		return math.NaN()
	}
	return a / b
}

// against returns a figure of Eyelet divided by that of another receiver.
func against(other string, figure func(figures) float64) func(map[string]figures) float64 {
	return func(round map[string]figures) float64 { return ratio(figure(round["eyelet"]), figure(round[other])) }
}

func cpuAgainst(other string) func(map[string]figures) float64 { return against(other, cpu) }

func ofEyelet(figure func(figures) float64) func(map[string]figures) float64 {
	return func(round map[string]figures) float64 { return ratio(figure(round["eyelet"]), 1) }
}

func rateAgainstHand(round map[string]figures) float64 {
	better := max(round["hand"].PerSecond, round["hand+worker"].PerSecond)
	return ratio(round["eyelet"].PerSecond, better)
}

func verificationRatio(round map[string]figures) float64 {
	return ratio(round[verification].CPU, round[cryptography].CPU)
}

// of returns the figure with its spread.
func (g goal) of(r *results) spread {
	var values []float64
	for _, round := range r.of(g.workload) {
		values = append(values, g.figure(round))
	}
	return spreadOf(values)
}
