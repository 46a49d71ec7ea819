package verify

import "slices"

// PublishedAlgorithms returns the algorithms that a scheme accepts by name, for publication (RFC 9421 section 1.4), each once: those of RFC 9421 signatures and of
// tokens. The algorithm of any other scheme is a part of its description.
func PublishedAlgorithms(scheme Scheme) []string {
	switch s := scheme.(type) {
	case *RFC9421:
		algs := s.Algs
		if len(algs) == 0 {
			algs = defaultAlgs
		}
		var names []string
		for _, a := range algs {
			names = append(names, string(a))
		}
		return names
	case *JWT:
		return s.Algorithms
	case All:
		var all []string
		for _, one := range s {
			all = append(all, PublishedAlgorithms(one)...)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	return nil
}
