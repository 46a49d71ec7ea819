package conform

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"time"
)

// rfc9421Checks are those of signatures of RFC 9421.
var rfc9421Checks = map[string]steps{
	"C309": func(ctx context.Context, t *run) error {
		known := t.send(ctx, t.unsigned().forge())
		unknown := t.send(ctx, attemptsOf(t, "C408")[0].make(t))
		if !known.isRefusal() || !unknown.isRefusal() {
			return notJudged("a wrong signature got %s, an unknown key %s", known, unknown)
		}
		return wrongIf(known.status != unknown.status || known.problem()["type"] != unknown.problem()["type"],
			"a wrong signature got %s (%v), an unknown key %s (%v)",
			known, known.problem()["type"], unknown, unknown.problem()["type"])
	},
	"C403": func(ctx context.Context, t *run) error {
		var errs []error
		for _, c := range t.p.Signature.Components {
			if slices.Contains([]string{`"@method"`, `"@scheme"`, `"@query"`}, c) {
				continue // there may be one right value only
			}
			d := t.unsigned()
			d.set("Content-Digest", digestOf(d.body)).uncover(strings.Trim(c, `"`))
			errs = append(errs, wants(ctx, t, c+" is not covered", d.sign()))
		}
		return worst(errs)
	},
	"C411": publicAsSecret,
	"C417": func(ctx context.Context, t *run) error {
		usual := fastest(func() *answer { return t.send(ctx, t.delivery()) })
		a := fastest(func() *answer { // servers may refuse so large a head themselves
			d := t.unsigned().forge()
			d.signOthers(200)
			return t.sendParts(ctx, d.bytes())
		})
		if a.took > max(time.Second, 20*usual.took) {
			return wrong("%s after %s", a, a.took.Round(time.Millisecond))
		}
		return statusOf("201 signatures of others", a, nil)
	},
	"C443": authority,
}

// fastest returns the response of three that took the shortest time: the others may have waited for
// a busy machine.
func fastest(send func() *answer) *answer {
	all := []*answer{send(), send(), send()}
	return slices.MinFunc(all, func(a, b *answer) int { return cmp.Compare(a.took, b.took) })
}

// publicAsSecret signs with the octets of the public key, as if they were a secret.
func publicAsSecret(ctx context.Context, t *run) error {
	pair, _ := t.key.(*keyPair)
	der, err := x509.MarshalPKIXPublicKey(pair.public)
	if err != nil {
		panic(err) // it was parsed
	}
	forms := map[string][]byte{"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})}
	if raw, ok := pair.public.(ed25519.PublicKey); ok {
		forms["the raw octets"] = raw
	}
	var errs []error
	for name, octets := range forms {
		d := t.unsigned()
		d.sig.key = hmacKey(octets)
		d.sig.param("alg", `"hmac-sha256"`)
		errs = append(errs, wants(ctx, t, "an HMAC with "+name, d.sign()))
	}
	return worst(errs)
}

func authority(ctx context.Context, t *run) error {
	if t.p.covers("@target-uri") {
		return notJudged("@target-uri is covered, too, and it has no such rule")
	}
	d := t.unsigned()
	d.host = strings.ToUpper(t.url.Host)
	if t.url.Port() == "" {
		d.host += map[string]string{"http": ":80", "https": ":443"}[t.url.Scheme]
	}
	if d.host == t.url.Host {
		return notApplicable("the host of the URL has no letters, nor a default port")
	}
	a := t.send(ctx, d.sign())
	return wrongIf(!t.accepts(a), "Host: %s got %s", d.host, a)
}
