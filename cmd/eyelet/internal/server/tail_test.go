package server

import (
	"context"
	"errors"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
)

func TestASlowReaderGetsTheNumberOfLostLines(t *testing.T) {
	t.Parallel()
	f := newTailHub("")
	reader := f.add()
	for range tailBacklog + 7 {
		f.observe(context.Background(), observed("delivery"))
	}
	for range tailBacklog {
		if h := <-reader.lines; h.Kind != "delivery" || h.Why != "the cause" {
			t.Fatalf("line is %+v", h)
		}
	}
	f.observe(context.Background(), observed("attempt"))
	if h := <-reader.lines; h.Kind != "lost" || h.Lost != 7 {
		t.Errorf("line is %+v, want 7 lost", h)
	}
	if h := <-reader.lines; h.Kind != "attempt" || h.Why != "" {
		t.Errorf("line is %+v", h)
	}
	for range maxTailReaders - 1 {
		if f.add() == nil {
			t.Fatal("a reader was refused")
		}
	}
	if f.add() != nil {
		t.Error("readers are not limited")
	}
	f.remove(reader)
	if f.add() == nil {
		t.Error("a reader that leaves frees no place")
	}
}

func observed(kind receiver.Kind) receiver.Observation {
	return receiver.Observation{Kind: kind, Endpoint: "gh", State: dedup.Done, Err: errors.New("the cause")}
}
