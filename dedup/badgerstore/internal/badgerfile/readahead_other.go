//go:build !linux

package badgerfile

// Readahead does nothing where mappings cannot be looked up.
type Readahead struct{}

// NewReadahead returns a Readahead.
func NewReadahead(string) *Readahead { return &Readahead{} }

// DisableNew does nothing.
func (*Readahead) DisableNew() {}
