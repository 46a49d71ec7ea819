package verify

import (
	"net/http"
	"slices"
)

// SentSignature is one signature of a request (RFC 9421), taken out of it to be sent on with another request. Whether it
// holds there is for the intermediary to judge: every component that it covers must have the same value.
type SentSignature struct{ in signatureInput }

// SentSignatures returns the signatures of a request that are well formed, at most 8, in the order of Signature-Input. None of
// them is verified.
func SentSignatures(h http.Header) []SentSignature {
	inputs, err := signatureFields(h)
	if err != nil {
		return nil
	}
	var sent []SentSignature
	for i := range inputs {
		if len(sent) < maxSignatures && inputs[i].parse() == nil {
			sent = append(sent, SentSignature{inputs[i]})
		}
	}
	return sent
}

// Label returns the label under which the signature came.
func (s *SentSignature) Label() string { return s.in.label }

// KeyID returns the parameter keyid, or "".
func (s *SentSignature) KeyID() string { return s.in.keyID }

// Covers returns the names of the covered components, each once: field names in lower case, and derived components such as
// "@method".
func (s *SentSignature) Covers() []string {
	var names []string
	for i := range s.in.components {
		if name := s.in.components[i].name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// AddTo adds the signature to the signature fields of a header, octet for octet, under a label. No signature covers its own
// label, so that an intermediary may choose another one (RFC 9421 section 7.2.5).
func (s *SentSignature) AddTo(h http.Header, label string) {
	setMember(h, "Signature-Input", label, s.in.member)
	setMember(h, "Signature", label, s.in.signature)
}
