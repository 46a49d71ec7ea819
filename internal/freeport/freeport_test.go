package freeport

import "testing"

func TestPortsAreGivenOnceInARound(t *testing.T) {
	given := map[int]bool{}
	for range 50 {
		port := Port()
		if given[port] || port <= 10_000 || port >= 30_000 {
			t.Fatalf("port %d after %v", port, given)
		}
		given[port] = true
	}
}
