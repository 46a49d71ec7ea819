package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/replay"
	"github.com/eyelet-dev/eyelet/verify"
)

// devOutcome is the state of one handler's task.
type devOutcome struct {
	Handler string `json:"handler"`
	State   string `json:"state"` // done, dead, or pending if it is tried again
	Reason  string `json:"reason,omitempty"`
	Error   string `json:"error,omitempty"`
}

// printed collects what handlers print. It can be used by several goroutines.
type printed struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// maxPrinted bounds what is kept until it is taken.
const maxPrinted = 64 << 10

func (p *printed) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.Write(data[:min(len(data), max(0, maxPrinted-p.b.Len()))])
	return len(data), nil
}

// take returns what was printed since the last call.
func (p *printed) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.b.String()
	p.b.Reset()
	return text
}

// handlersEnd is how long the handlers of one event are waited for.
const handlersEnd = 35 * time.Second

// outcomes waits until every handler of the event was run once, and returns their states.
func (r *devRun) outcomes(ctx context.Context, event string) (all []devOutcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, handlersEnd)
	defer cancel()
	for {
		rec, err := r.store.Get(ctx, event)
		if err != nil {
			return nil, err
		}
		all = nil
		busy := false
		for _, task := range rec.Tasks {
			tried := task.Err != "" || task.Postponed > 0
			busy = busy || task.State == dedup.Running || task.State == dedup.Pending && !tried
			all = append(all, devOutcome{task.Handler, task.State.String(), task.Reason, task.Err})
		}
		if !busy {
			return all, nil
		}
		select {
		case <-ctx.Done():
			return all, nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// text returns the outcome in words.
func (o devOutcome) text() string {
	state := o.State
	switch {
	case o.State == "pending" && o.Error != "":
		state = "failed, will be tried again"
	case o.State == "pending" || o.State == "running":
		state = "still running"
	}
	if o.Reason != "" && o.Reason != "failed" {
		state += " (" + strings.ReplaceAll(o.Reason, "_", " ") + ")"
	}
	if o.Error != "" {
		state += ": " + o.Error
	}
	return o.Handler + ": " + state
}

// sign makes a delivery of a payload, signed by the producer that its path or --producer names.
func (r *devRun) sign(p payload, o *replay.Options) (rec *replay.Recording, producer string, err error) {
	known := r.settings.ProducerNames()
	name, kind := p.origin(r.flags.producer, known)
	if name == "" {
		return nil, "", noOrigin(p, known)
	}
	signer := &verify.Signer{KeyID: r.flags.keyID}
	if err := loadKey(signer, r.flags); err != nil {
		return nil, "", err
	}
	from := &sender{url: r.address, signedURL: r.plan.URL, now: time.Now(), private: signer.Private,
		keyID: r.flags.keyID}
	flags := r.flags
	flags.producer = name
	if err := from.become(r.settings, r.plan, flags, signer); err != nil {
		return nil, "", err
	}
	if from.sign == nil && (signer.Private != nil || signer.Secret != nil) {
		from.sign = signer
	}
	rec, _, unsigned, err := from.delivery(p, kind)
	if unsigned {
		o.Sign, o.SignedURL, o.Now = from.sign, r.plan.URL, from.now
	}
	return rec, name, err
}

// unexpected returns what is wrong with a result of which nothing was expected: no endpoint, or
// a refusal of a payload, which was signed for this run.
func (r *devRun) unexpected(o devResult, rec devRecording) []string {
	if o.Code == codeNotFound {
		path, _, _ := strings.Cut(rec.Target, "?")
		return []string{fmt.Sprintf("no endpoint has the path %s; there are: /webhooks/%s", path,
			strings.Join(r.settings.ProducerNames(), ", /webhooks/"))}
	}
	if rec.payload != nil && (o.Verdict == verdictRefused || o.Verdict == verdictFailed) {
		return []string{"the payload was signed for this run, and not accepted"}
	}
	return nil
}
