package forward

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"

	"github.com/eyelet-dev/eyelet/verify"
)

// Labels of signatures: that of our own where the configuration names none, and that of a carried one which would have
// the same as ours.
const (
	defaultLabel = "sig1"
	originLabel  = "origin"
)

// labelOf is the label of the signature that is added to the request; "" where none is.
func labelOf(c Credentials) string {
	if c.Signer == nil {
		return ""
	}
	return cmp.Or(c.Signer.Label, defaultLabel)
}

// carry adds a signature of the producer's to the request where it holds for it, so that a target which knows the producer's
// key can check who made the event, whoever brought it (section 9.7): the one that was verified, else another of the same key.
// The one that was verified mostly covers our URL; a producer that wants to be checked by the target adds one that does not
// (RFC 9421 section 4.3). One is sent at most, because targets try few signatures, and ours keeps its label.
func (t *Target) carry(ev Event, h http.Header, to *url.URL, ours string) {
	s := lasting(ev, h, to)
	if s == nil {
		return
	}
	label := s.Label()
	if label == ours {
		label = originLabel
	}
	if label == ours {
		label += "-1"
	}
	s.AddTo(h, label)
}

// lasting returns the signature of the delivery that holds for the request; nil where none does.
func lasting(ev Event, h http.Header, to *url.URL) *verify.SentSignature {
	if ev.Label == "" {
		return nil
	}
	all := verify.SentSignatures(ev.Header)
	verified := slices.IndexFunc(all, func(s verify.SentSignature) bool { return s.Label() == ev.Label })
	if verified < 0 {
		return nil
	}
	all[0], all[verified] = all[verified], all[0]
	for i := range all {
		changed := func(name string) bool { return !unchanged(name, ev, h, to) }
		if all[i].KeyID() == all[0].KeyID() && !slices.ContainsFunc(all[i].Covers(), changed) {
			return &all[i]
		}
	}
	return nil
}

// unchanged reports whether a covered component of the delivery has the same value in the request. The authority of the
// target is another one than ours, so that nothing which holds it is unchanged.
func unchanged(name string, ev Event, h http.Header, to *url.URL) bool {
	switch name {
	case "@method":
		return ev.Method == http.MethodPost
	case "@path", "@query", "@query-param":
		from, err := url.ParseRequestURI(ev.Target)
		if err != nil {
			return false
		}
		if name == "@path" {
			return cmp.Or(from.EscapedPath(), "/") == cmp.Or(to.EscapedPath(), "/")
		}
		return from.RawQuery == to.RawQuery && from.ForceQuery == to.ForceQuery
	}
	sent := h.Values(name)
	return len(sent) > 0 && slices.Equal(sent, ev.Header.Values(name))
}
