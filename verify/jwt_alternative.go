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
	return listed(func(to *alternatives) {
		if j.Check() != nil {
			return
		}
		j.otherPlaces(r, to)
		if !j.Body { // else its claims are not known here
			compact, err := j.find(r, nil)
			if err != nil {
				return
			}
			t, err := parseToken(compact)
			if err != nil {
				return
			}
			j.otherClaims(t, to)
		}
		for _, alg := range publicAlgorithms {
			detail := fmt.Sprintf("signed with %s, and %q is accepted", alg, j.Algorithms)
			changed := &jwtTrial{j, alg.String()}
			to.add(Alternative{Mistake: AlgorithmDiffers, Detail: detail, Scheme: changed, Rare: true})
		}
	})
}

// Offers implements [Alternator]: keys of tokens are public, and tried by asking the scheme.
func (j *JWT) Offers(context.Context) []Offer { return nil }

func (j *JWT) alter(change func(*JWT)) *JWT {
	c := *j
	change(&c)
	return &c
}

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
func (j *JWT) otherPlaces(r *http.Request, to *alternatives) {
	name, before, bearer := cmp.Or(j.Field, "Authorization"), "Bearer ", "with Bearer twice"
	if j.Field != "" {
		before, bearer = "", "with Bearer before it"
	}
	value := r.Header.Get(name)
	if j.Body || len(value) > maxBearer {
		return
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
		if form.value != value && form.value != before {
			changed := withField(r, name, form.value)
			to.add(Alternative{Mistake: CredentialWrapped, Detail: form.detail, Scheme: j, Request: changed})
		}
	}
}

// otherClaims tries the token with what it says itself, one claim at a time.
func (j *JWT) otherClaims(t *parsedToken, to *alternatives) {
	beside := func(came, wanted []string) string {
		return truncate(fmt.Sprintf("%q, and %q is accepted", came, wanted))
	}
	offer := func(m Mistake, detail string, change func(*JWT)) {
		if c := j.alter(change); c.Check() == nil {
			to.add(Alternative{Mistake: m, Detail: detail, Scheme: c})
		}
	}
	audience, issuer := claimValues(t.claims, "aud"), claimValues(t.claims, "iss")
	if len(audience) > 0 && !intersects(j.Audiences, audience) {
		offer(AudienceDiffers, beside(audience, j.Audiences), func(c *JWT) { c.Audiences = audience })
	}
	if len(issuer) > 0 && !intersects(j.Issuers, issuer) {
		offer(IssuerDiffers, beside(issuer, j.Issuers), func(c *JWT) { c.Issuers = issuer })
	}
	for i, rule := range j.Claims {
		names := strings.Join(rule.Names, "/")
		for _, name := range rule.Names {
			came := claimValues(t.claims, name)
			if len(came) == 0 || intersects(rule.Values, came) {
				continue
			}
			offer(ClaimDiffers, names+" "+beside(came, rule.Values), func(c *JWT) {
				c.Claims = slices.Clone(j.Claims)
				c.Claims[i].Values = came
			})
		}
	}
	if _, ok := publicAlgorithm(t.alg); ok && !slices.Contains(j.Algorithms, t.alg) {
		offer(AlgorithmDiffers, beside([]string{t.alg}, j.Algorithms), func(c *JWT) {
			c.Algorithms = append(slices.Clone(j.Algorithms), t.alg)
		})
	}
	detail := fmt.Sprintf("a known key, under the id %q", shortID(t.kid))
	offer(KeyIDDiffers, detail, func(c *JWT) { c.Keys = anyTokenKey{j.Keys} })
}

// anyTokenKey returns all keys of a set, whichever id a token names.
type anyTokenKey struct{ of TokenKeySet }

// PublicKeys implements [TokenKeySet].
func (a anyTokenKey) PublicKeys(ctx context.Context, _ string) ([]JSONWebKey, error) {
	return a.of.PublicKeys(ctx, "")
}
