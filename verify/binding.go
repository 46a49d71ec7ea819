package verify

import (
	"slices"
	"strings"
)

// Binding is what every signature of a scheme binds, as far as that is known before any delivery.
type Binding struct {
	// Content says that there is a digest of what is signed in each identity (Identity.Signed).
	Content bool
	// Time says that each signature has a signed time.
	Time bool
	// Covered lists what is bound, as Identity.Covered does.
	Covered []string
	// Malleable says that other deliveries can have the same signature (Identity.Malleable).
	Malleable bool
}

// Binder is an optional interface of schemes, which those of this package have.
type Binder interface {
	Binds() Binding
}

// Binds implements [Binder]. It needs no secret.
func (h *HMAC) Binds() Binding {
	p := &hmacPlan{custom: h.Contents, config: h.Config, url: h.URL}
	if p.setFields(h) != nil || p.setEntries(h) != nil && len(p.entries) == 0 || len(p.headers) == 0 {
		return Binding{}
	}
	_ = p.setTemplate(h) // its mistakes are those of Check
	p.setCovered(h)
	b := Binding{
		Content: true, Time: p.templateHolds("timestamp"), Covered: slices.Clone(p.covered[0]), Malleable: p.isMalleable(),
	}
	for _, covered := range p.covered[1:] { // each of the fields that may carry the signature has its own
		b.Covered = slices.DeleteFunc(b.Covered, func(part string) bool { return !slices.Contains(covered, part) && !h.isID(part) })
	}
	return b
}

// isID reports whether a field is one of those with the signed identifier.
func (h *HMAC) isID(field string) bool {
	return slices.ContainsFunc(h.IDHeaders, func(name string) bool { return strings.EqualFold(name, field) })
}

// Binds implements [Binder].
func (s *RFC9421) Binds() Binding {
	covered := []string{"@body", "@target-uri"}
	if exactly := s.Coverage.Exactly; len(exactly) > 0 {
		covered = slices.Clone(exactly)
		if slices.Contains(exactly, "content-digest") {
			covered = append(covered, "@body")
		}
	}
	return Binding{Content: true, Time: true, Covered: append(covered, s.Coverage.Consumed...)}
}

// Binds implements [Binder]. A token that is not the body binds nothing of it.
func (j *JWT) Binds() Binding {
	if !j.Body {
		return Binding{}
	}
	return Binding{Content: true, Time: true, Malleable: true, Covered: []string{"@body"}}
}

// Binds implements [Binder]: a shared credential binds nothing.
func (s *Static) Binds() Binding { return Binding{} }

// Binds implements [Binder]: a connection's certificate binds nothing.
func (m *MutualTLS) Binds() Binding { return Binding{} }

// Binds implements [Binder]. It is what all of the schemes bind together; one that does not say binds nothing.
func (a All) Binds() Binding {
	var all Binding
	for _, s := range a {
		b, ok := s.(Binder)
		if !ok {
			continue
		}
		one := b.Binds()
		all.Content, all.Time, all.Malleable = all.Content || one.Content, all.Time || one.Time, all.Malleable || one.Malleable
		all.Covered = append(all.Covered, one.Covered...)
	}
	return all
}
