package explain

import (
	"fmt"
	"slices"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// The receiver's codes of refusals that have a cause of their own, besides those of a body.
const (
	methodRefused Cause = "method_not_allowed"
	mediaType     Cause = Cause(verify.MediaTypeUnsupported)
	bodyCoding    Cause = "content_coding_unsupported"
	earlyData     Cause = "early_data"
	tooLarge      Cause = "body_too_large"
	hostUnknown   Cause = "host_unknown"
	addressGiven  Cause = "address_refused"
	endpointEnded Cause = "endpoint_retired"
	rateExceeded  Cause = "rate_limited"
	handshake     Cause = Cause(verify.ChallengeUnexpected)
	otherCheck    Cause = "other_check"
)

// searched are the codes that a search explains. With any other code the receiver says that it
// did not refuse the signature.
var searched = []verify.Code{
	"", codeBodyCut, codeBodyConsumed, "digest_malformed", "digest_unsupported", "digest_invalid", "signature_invalid",
	verify.SignatureMissing, verify.SignatureMalformed, verify.SignatureMismatch, verify.AlgorithmNotAllowed,
	verify.AlgorithmMismatch, verify.VersionUnsupported, verify.InsufficientCoverage, verify.ComponentUnsupported,
	verify.AmbiguousField, verify.DigestMissing, verify.DigestMismatch, verify.BodyHashMismatch,
	verify.TimestampMissing, verify.TimestampMalformed, verify.TimestampTooOld, verify.TimestampTooNew,
	verify.KeyUnknown, verify.KeysUnavailable, verify.CredentialsMissing, verify.CredentialsMismatch,
	verify.TokenMissing, verify.TokenMalformed, verify.TokenExpired, verify.TokenNotYetValid,
	verify.AudienceMismatch, verify.IssuerMismatch, verify.SubjectMismatch, verify.CertURLUntrusted,
	verify.CertUntrusted, verify.CertExpired, verify.TopicUnexpected,
}

// refusedElsewhere explains a delivery that was refused for its head or its event, and not by its
// scheme, which refuses with the code now.
func refusedElsewhere(d *Delivery, own *producer.Producer, now verify.Code) (Finding, bool) {
	code := d.Code
	if code == now || slices.Contains(searched, code) {
		return Finding{}, false
	}
	f := Finding{Cause: Cause(code), Proved: true}
	r := d.Request
	switch f.Cause {
	case methodRefused:
		f.Detail = quoted(r.Method)
	case mediaType:
		f.Detail = quoted(r.Header.Get("Content-Type"))
	case bodyCoding:
		f.Detail = quoted(r.Header.Get("Content-Encoding"))
	case hostUnknown:
		f.Detail = quoted(r.Host)
	case tooLarge:
		f.Detail = fmt.Sprintf("at most %d bytes, also decoded", own.MaxBody)
		if d.Declared > 0 {
			f.Detail = fmt.Sprintf("%d bytes, and %s", d.Declared, f.Detail)
		}
	case earlyData, addressGiven, endpointEnded, rateExceeded, handshake:
	default:
		f.Cause, f.Detail = otherCheck, quoted(string(code))
	}
	return f, true
}
