package producer

import (
	"slices"

	"github.com/eyelet-dev/eyelet/verify"
)

// Audience is a value of deliveries that names their receiver, where its sender signs for many.
type Audience struct {
	// From reads the value, which the signature must cover.
	From Extractor
	// Is is the value in deliveries for this endpoint. Others are refused (audience_mismatch).
	Is string
}

// check refuses a delivery for another receiver.
func (a *Audience) check(d *Delivery) error {
	if a == nil {
		return nil
	}
	value, err := a.From.Extract(d)
	if err == nil && value != a.Is {
		err = &verify.Error{Code: verify.AudienceMismatch, Component: component(a.From, "audience")}
	}
	return err
}

// PinURLs finds which of all producers of a receiver accept what is signed by RFC 9421 although it
// covers neither host nor path, because no other endpoint accepts the same: those whose keys are
// secrets that no other producer has, and those whose Audience no other one can share. Secrets are
// compared as bytes. What is not certain must be covered.
func PinURLs(all []Producer) {
	has := make([]verify.Credentials, len(all))
	for i := range all {
		has[i] = verify.CredentialsOf(all[i].Scheme)
	}
	for i := range all {
		p := &all[i]
		var signed verify.All
		eachScheme(p.Scheme, func(s *verify.RFC9421) { signed = append(signed, s) })
		own := verify.CredentialsOf(signed)
		known := !own.MoreKeys && !own.MoreSecrets && len(own.Known) > 0
		byKey, byName := known && !own.Public, p.Audience != nil
		for k := range all {
			if k == i {
				continue
			}
			shared := func(one string) bool { return slices.Contains(has[k].Known, one) }
			apart := known && !has[k].MoreSecrets && !slices.ContainsFunc(own.Known, shared)
			byKey = byKey && apart
			byName = byName && (p.Audience.excludes(all[k].Audience) || apart && !has[k].MoreKeys)
		}
		p.solely = signed != nil && (byKey || byName)
	}
}

// excludes reports whether no delivery for the audience is for the other one, or for a producer
// that has none and so demands host and path.
func (a *Audience) excludes(other *Audience) bool {
	return other == nil || a.From != nil && other.From != nil && a.Is != other.Is &&
		a.From.String() == other.From.String()
}
