package verify

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Alternatives implements [Alternator]. Tokens for other audiences and of other issuers are tried
// with the keys of this scheme.
func (j *JWT) Alternatives(r *http.Request, _ []Offer) []Alternative {
	if j.Check() != nil {
		return nil
	}
	all := j.otherPlaces(r)
	if !j.Body { // else its claims are not known here
		compact, err := j.find(r, nil)
		if err != nil {
			return all
		}
		t, err := parseToken(compact)
		if err != nil {
			return all
		}
		all = append(all, j.otherClaims(t)...)
	}
	for _, alg := range publicAlgorithms {
		detail := fmt.Sprintf("signed with %s, and %q is accepted", alg, j.Algorithms)
		changed := func() Scheme { return &jwtTrial{j, alg.String()} }
		all = append(all, Alternative{Mistake: AlgorithmDiffers, Detail: detail, Scheme: changed, Rare: true})
	}
	return all
}

// Offers implements [Alternator]: keys of tokens are public, and tried by asking the scheme.
func (j *JWT) Offers(context.Context) []Offer { return nil }

// jwtTrial verifies a token by an algorithm, whatever its header and the key say. Only an
// [Alternative] does.
type jwtTrial struct {
	*JWT
	alg string
}

// Verify implements [Scheme].
func (t *jwtTrial) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	return t.verify(t.alg, r, body)
}

// otherPlaces tries forms of the field that senders write by mistake.
func (j *JWT) otherPlaces(r *http.Request) (all []Alternative) {
	name, before, bearer := cmp.Or(j.Field, "Authorization"), "Bearer ", "with Bearer twice"
	if j.Field != "" {
		before, bearer = "", "with Bearer before it"
	}
	value := r.Header.Get(name)
	if j.Body || len(value) > maxBearer {
		return nil
	}
	bare := func(name, prefix string) string { return before + cutFold(r.Header.Get(name), prefix) }
	for _, form := range []variant{
		{"without Bearer before it", before + value},
		{"in quotes", before + strings.Trim(cutFold(value, "Bearer "), `"'`)},
		{bearer, cutFold(value, "Bearer ")},
		{"with Token before it", bare(name, "Token ")},
		{"with JWT before it", bare(name, "JWT ")},
		{"in the field Authorization", bare("Authorization", "Bearer ")},
		{"in the field X-Access-Token", before + r.Header.Get("X-Access-Token")},
		{"in the field X-Authorization", bare("X-Authorization", "Bearer ")},
		{"in the field X-Forwarded-Authorization", bare("X-Forwarded-Authorization", "Bearer ")},
	} {
		if form.text != value && form.text != before {
			changed := withField(r, name, form.text)
			all = append(all, Alternative{Mistake: CredentialWrapped, Detail: form.what, Request: changed})
		}
	}
	return all
}

// otherClaims tries the token with what it says itself, one claim at a time.
func (j *JWT) otherClaims(t *parsedToken) (all []Alternative) {
	offer := func(m Mistake, detail string, change func(*JWT)) {
		c := *j
		if change(&c); c.Check() == nil {
			all = append(all, Alternative{Mistake: m, Detail: detail, Scheme: func() Scheme { return &c }})
		}
	}
	beside := func(m Mistake, name string, came, wanted []string, change func(*JWT)) {
		if len(came) > 0 && !intersects(wanted, came) {
			offer(m, name+truncate(fmt.Sprintf("%q, and %q is accepted", came, wanted)), change)
		}
	}
	audience, issuer := claimValues(t.claims, "aud"), claimValues(t.claims, "iss")
	beside(AudienceDiffers, "", audience, j.Audiences, func(c *JWT) { c.Audiences = audience })
	beside(IssuerDiffers, "", issuer, j.Issuers, func(c *JWT) { c.Issuers = issuer })
	for i, rule := range j.Claims {
		for _, name := range rule.Names {
			came := claimValues(t.claims, name)
			beside(ClaimDiffers, strings.Join(rule.Names, "/")+" ", came, rule.Values, func(c *JWT) {
				c.Claims = slices.Clone(j.Claims)
				c.Claims[i].Values = came
			})
		}
	}
	if _, ok := publicAlgorithm(t.alg); ok {
		beside(AlgorithmDiffers, "", []string{t.alg}, j.Algorithms, func(c *JWT) {
			c.Algorithms = append(slices.Clone(j.Algorithms), t.alg)
		})
	}
	detail := fmt.Sprintf("a known key, under the id %q", shortID(t.kid))
	offer(KeyIDDiffers, detail, func(c *JWT) { c.Keys = anyTokenKey{j.Keys} })
	return all
}

// anyTokenKey returns all keys of a set, whichever id a token names.
type anyTokenKey struct{ of TokenKeySet }

// PublicKeys implements [TokenKeySet].
func (a anyTokenKey) PublicKeys(ctx context.Context, _ string) ([]JSONWebKey, error) {
	return a.of.PublicKeys(ctx, "")
}
