package verify

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
)

// Alternatives implements [Alternator]. Tokens for other audiences and of other issuers are tried
// with the keys of this scheme.
func (j *JWT) Alternatives(r *http.Request, _ []Offer) iter.Seq[Alternative] {
	return func(yield func(Alternative) bool) {
		if j.Check() != nil || !j.otherPlaces(r, yield) {
			return
		}
		if !j.Body { // else its claims are not known here
			compact, err := j.find(r, nil)
			if err != nil {
				return
			}
			if t, err := parseToken(compact); err != nil || !j.otherClaims(t, yield) {
				return
			}
		}
		for _, alg := range publicAlgorithms {
			detail := fmt.Sprintf("signed with %s, and %q is accepted", alg, j.Algorithms)
			changed := j.alter(func(c *JWT) { c.as = alg.String() })
			if !yield(Alternative{Mistake: AlgorithmDiffers, Detail: detail, Scheme: changed, Rare: true}) {
				return
			}
		}
	}
}

// Offers implements [Alternator]: keys of tokens are public, and tried by asking the scheme.
func (j *JWT) Offers(context.Context) []Offer { return nil }

func (j *JWT) alter(change func(*JWT)) *JWT {
	c := *j
	change(&c)
	return &c
}

// otherPlaces tries forms of the field that senders write by mistake.
func (j *JWT) otherPlaces(r *http.Request, yield func(Alternative) bool) bool {
	name, before, bearer := cmp.Or(j.Field, "Authorization"), "Bearer ", "with Bearer twice"
	if j.Field != "" {
		before, bearer = "", "with Bearer before it"
	}
	value := r.Header.Get(name)
	if j.Body || len(value) > maxBearer {
		return true
	}
	token := cutFold(value, "Bearer ")
	for _, form := range []sentForm{
		{"without Bearer before it", before + value}, {"in quotes", before + strings.Trim(token, `"'`)},
		{bearer, token}, {"with Token before it", before + cutFold(value, "Token ")},
		{"with JWT before it", before + cutFold(value, "JWT ")},
		{"in the field Authorization", before + cutFold(r.Header.Get("Authorization"), "Bearer ")},
		{"in the field X-Access-Token", before + r.Header.Get("X-Access-Token")},
		{"in the field X-Authorization", before + cutFold(r.Header.Get("X-Authorization"), "Bearer ")},
		{"in the field X-Forwarded-Authorization",
			before + cutFold(r.Header.Get("X-Forwarded-Authorization"), "Bearer ")},
	} {
		if form.value == value || form.value == before {
			continue
		}
		changed := withField(r, name, form.value)
		if !yield(Alternative{Mistake: CredentialWrapped, Detail: form.detail, Scheme: j, Request: changed}) {
			return false
		}
	}
	return true
}

// otherClaims tries the token with what it says itself, one claim at a time.
func (j *JWT) otherClaims(t *parsedToken, yield func(Alternative) bool) bool {
	beside := func(came, wanted []string) string {
		return truncate(fmt.Sprintf("%q, and %q is accepted", came, wanted))
	}
	offer := func(m Mistake, detail string, change func(*JWT)) bool {
		c := j.alter(change)
		return c.Check() != nil || yield(Alternative{Mistake: m, Detail: detail, Scheme: c})
	}
	audience, issuer := claimValues(t.claims, "aud"), claimValues(t.claims, "iss")
	if len(audience) > 0 && !intersects(j.Audiences, audience) &&
		!offer(AudienceDiffers, beside(audience, j.Audiences), func(c *JWT) { c.Audiences = audience }) {
		return false
	}
	if len(issuer) > 0 && !intersects(j.Issuers, issuer) &&
		!offer(IssuerDiffers, beside(issuer, j.Issuers), func(c *JWT) { c.Issuers = issuer }) {
		return false
	}
	for i, rule := range j.Claims {
		names := strings.Join(rule.Names, "/")
		for _, name := range rule.Names {
			came := claimValues(t.claims, name)
			if len(came) == 0 || intersects(rule.Values, came) {
				continue
			}
			if !offer(ClaimDiffers, names+" "+beside(came, rule.Values), func(c *JWT) {
				c.Claims = slices.Clone(j.Claims)
				c.Claims[i].Values = came
			}) {
				return false
			}
		}
	}
	if _, ok := publicAlgorithm(t.alg); ok && !slices.Contains(j.Algorithms, t.alg) {
		if !offer(AlgorithmDiffers, beside([]string{t.alg}, j.Algorithms), func(c *JWT) {
			c.Algorithms = append(slices.Clone(j.Algorithms), t.alg)
		}) {
			return false
		}
	}
	detail := fmt.Sprintf("a known key, under the id %q", shortID(t.kid))
	return offer(KeyIDDiffers, detail, func(c *JWT) { c.Keys = anyTokenKey{j.Keys} })
}

// anyTokenKey returns all keys of a set, whichever id a token names.
type anyTokenKey struct{ of TokenKeySet }

// PublicKeys implements [TokenKeySet].
func (a anyTokenKey) PublicKeys(ctx context.Context, _ string) ([]JSONWebKey, error) {
	return a.of.PublicKeys(ctx, "")
}
