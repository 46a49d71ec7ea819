package dedup

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// The bounds of one search for [Filter.Text], which reads bodies.
const (
	MaxSearched   = 20_000          // records that the rest of the filter selects
	MaxSearchTime = 2 * time.Second // by the clock of the process
)

// Searched is how far a search for [Filter.Text] looked.
type Searched struct {
	// Records is the number of records that were looked at, which the rest of the filter selects.
	Records int
	// Dropped counts those of them whose body is no longer kept, so that only the rest of the
	// record was searched.
	Dropped int
	// Back is when the oldest of them was accepted; zero without any.
	Back time.Time
	// Before continues the search as [Filter.Before]. Zero means that nothing older is left.
	Before uint64
}

// Search implements [Store.List] for a filter with Text over a list without. It ends at its Limit
// and at the bounds [MaxSearched] and [MaxSearchTime], which is not an error: see [Searched].
func (f Filter) Search(list func(Filter) iter.Seq2[Record, error]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		report := f.Searched
		if report == nil {
			report = &Searched{}
		}
		*report = Searched{}
		all := f
		all.Text, all.Searched, all.Body, all.MaxBody, all.Limit = "", nil, true, 0, MaxSearched
		text, began, found := strings.ToLower(f.Text), time.Now(), 0
		for r, err := range list(all) {
			match := err != nil
			if !match {
				report.look(&r)
				if match = r.contains(text); match {
					found++
				}
				if found == f.Limit && match || report.Records == MaxSearched || time.Since(began) > MaxSearchTime {
					report.Before = r.Seq
				}
				if !f.WithBody(int64(len(r.Payload.Body))) {
					r.Payload.Body = nil
				}
			}
			if match && !yield(r, err) || report.Before != 0 {
				return
			}
		}
	}
}

func (s *Searched) look(r *Record) {
	s.Records++
	s.Back = r.Accepted
	if r.Dropped() {
		s.Dropped++
	}
}

// contains reports whether an identifier, the type, an attribute or the body contains the text,
// which is in lower case.
func (r *Record) contains(text string) bool {
	names := []string{r.Event, r.Key.ID, r.Payload.VendorID, r.Payload.Type}
	return slices.ContainsFunc(slices.AppendSeq(names, maps.Values(r.Payload.Attributes)), func(s string) bool {
		return strings.Contains(strings.ToLower(s), text)
	}) || bytes.Contains(bytes.ToLower(r.Payload.Body), []byte(text))
}
