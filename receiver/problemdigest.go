package receiver

import (
	"errors"

	"github.com/eyelet-dev/eyelet/verify"
)

// digestProblem holds the members that the problem types for digests add
// (draft-ietf-httpapi-digest-fields-problem-types-06).
type digestProblem struct {
	Unsupported []digestFault `json:"unsupported-algorithms,omitempty"`
	Invalid     []digestFault `json:"invalid-digests,omitempty"`
}

// digestFault is one algorithm of a digest field.
type digestFault struct {
	Algorithm string `json:"algorithm"`
	Header    string `json:"header"`
	Reason    string `json:"reason,omitempty"`
}

// digestProblemOf returns the members for a refusal; none where it is not about digests.
func digestProblemOf(err error) (p digestProblem) {
	var cause *verify.DigestError
	if !errors.As(err, &cause) {
		return p
	}
	for _, algorithm := range cause.Algorithms {
		fault := digestFault{Algorithm: algorithm, Header: "Content-Digest"}
		if errors.Is(cause, verify.ErrDigestUnsupported) {
			p.Unsupported = append(p.Unsupported, fault)
			continue
		}
		fault.Reason = cause.Error()
		p.Invalid = append(p.Invalid, fault)
	}
	return p
}
