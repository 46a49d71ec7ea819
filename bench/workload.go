package main

import "time"

// workload is one kind of load. Each receiver gets it once in each round.
type workload struct {
	name, title string
	clients     int
	signature   string  // "github" (HMAC of the body) or "rfc9421" (Ed25519)
	handler     string  // of Eyelet: "stdout", "none" or "forward"
	duplicates  float64 // share of deliveries that repeat an earlier one
	// share, if not 0, fixes the rate of deliveries at this part of the rate that the hand-written
	// receiver reached in the workload "new-64" of the same round.
	share  float64
	before int // events that the receiver handles first, at least, in which the log is filled once
	// once replaces the duration and the number of rounds of the flags: one round of this duration.
	once      time.Duration
	window    time.Duration // for which events are remembered; 0 for the default
	receivers []string
	refused   string // the setting of Eyelet; "" for the default
}

// workloads are measured in this order.
var workloads = []workload{
	{
		name: "new-64", title: "New events, 64 clients", clients: 64, signature: "github", handler: "stdout",
		receivers: []string{"bare", "hand", "hand+worker", "webhook", "eyelet"},
	},
	{
		name: "new-256", title: "New events, 256 clients", clients: 256, signature: "github", handler: "stdout",
		receivers: []string{"bare", "hand", "hand+worker", "eyelet"},
	},
	{
		name: "steady", title: "New events after 200,000, 64 clients", clients: 64, signature: "github",
		handler: "stdout", before: 200_000, receivers: []string{"eyelet"},
	},
	{
		name: "duplicates", title: "90 % duplicates, without a handler, 64 clients", clients: 64, signature: "github",
		handler: "none", duplicates: 0.9, receivers: []string{"bare", "hand", "eyelet"},
	},
	{
		name: "claim", title: "Claim only, without a handler, 64 clients", clients: 64, signature: "github",
		handler: "none", receivers: []string{"bare", "eyelet"},
	},
	{
		name: "forward", title: "Forwarded events, 64 clients", clients: 64, signature: "github",
		handler: "forward", receivers: []string{"bare", "eyelet"},
	},
	{
		name: "rfc9421", title: "RFC 9421 with Ed25519, 64 clients", clients: 64, signature: "rfc9421",
		handler: "stdout", receivers: []string{"bare", "eyelet"},
	},
	{
		name: "fixed-rate", title: "70 % of the hand-written receiver's rate, 64 clients", clients: 64,
		signature: "github", handler: "stdout", share: 0.7, receivers: []string{"hand", "eyelet"},
	},
	{
		name: "minute", title: "60 seconds of new events, 64 clients", clients: 64, signature: "github",
		handler: "stdout", once: time.Minute, receivers: []string{"hand+worker", "eyelet"},
	},
	{
		name: verifyWorkload, title: "Verification of RFC 9421 with Ed25519, without a receiver",
		receivers: []string{verification, cryptography},
	},
}

// descriptions say what each receiver does. "old" is a second binary of Eyelet (-against).
var descriptions = []struct{ name, what string }{
	{"bare", "an Echo handler that checks the HMAC and stores nothing"},
	{"hand", "Echo and Redis (appendfsync always): HMAC, SET NX of the delivery's id, LPUSH of the payload"},
	{"hand+worker", "the same with workers that BLMOVE, print a line and LREM"},
	{"webhook", "adnanh/webhook: HMAC, then runs `true` and answers; it stores nothing"},
	{"eyelet", "this project's binary with a store on disk and `stdout: true`"},
	{"old", "another binary of Eyelet"},
	{verification, "package verify on a whole request"},
	{cryptography, "SHA-256 of its body, and Ed25519 over its signature base"},
}
