package main

import "testing"

func TestCountsHaveTheirPlural(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n          int
		what, want string
	}{
		{1, "remembered key", "1 remembered key"},
		{2, "remembered key", "2 remembered keys"},
		{0, "event", "0 events"},
		{2, "delivery", "2 deliveries"},
		{2, "alias", "2 aliases"},
	} {
		if got := count(tt.n, tt.what); got != tt.want {
			t.Errorf("%d of %q is %q, want %q", tt.n, tt.what, got, tt.want)
		}
	}
}
