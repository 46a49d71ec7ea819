package preset

import (
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// activityPub receives activities that servers sign with RFC 9421, as Fedify does and Mastodon
// accepts since 4.5; Mastodon's documents still describe the older draft for what it sends. Keys
// are public keys of actors in PEM ("publicKeyPem") by their ids, such as
// "https://social.example/users/mallow#main-key".
//
// Keys are given, because a server finds them at a URL in the request, which Eyelet never fetches.
// The member "actor" must be the owner of the key, who is the principal: its id up to "#", or
// without "/main-key". What is forwarded for another actor is refused. The algorithm is
// RSASSA-PKCS1-v1_5 with SHA-256, whether the parameter alg names it or not.
//
// The media type is not signed, so only application/activity+json is accepted. Signatures may be an
// hour old or ahead, as in Mastodon. The identifier is that of the activity. How long servers retry
// is theirs; the window of 3 days is ours.
//
// Read in November 2026: the page below of July 2026, and packages/fedify/src/sig/http.ts of
// github.com/fedify-dev/fedify of August 2026.
//
// https://docs.joinmastodon.org/spec/security/#http-message-signatures
var activityPub = Preset{
	Name: "activitypub", Docs: "https://docs.joinmastodon.org/spec/security/#http-message-signatures",
	Auth: "RFC 9421", ID: "body id", Wants: "2xx", Uses: []string{"keys"},
	like: producer.Producer{
		Summary: []string{"{json:actor}"},
		Key:     producer.JSON("id"), Type: producer.JSON("type"),
		Tolerance: verify.Tolerance{Past: time.Hour, Future: time.Hour}, Window: 3 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		s.principal = keyOwner
		p.Admit = sentBy(producer.JSON("actor"), func(id verify.Identity, actor string) bool {
			return actor == id.Principal
		})
		p.MediaTypes = []string{"application/activity+json"}
		signedByMessages(p, s, &verify.RFC9421{Algs: []verify.Alg{verify.RSAv15SHA256}}, verify.JWKSConfig{})
	},
	signWith: signsMessages(verify.Signer{
		Alg: verify.RSAv15SHA256, Components: []string{"@method", "@target-uri", "content-digest"},
	}),
}

// keyOwner returns the actor whose key has the id.
func keyOwner(id string) string {
	actor, _, _ := strings.Cut(id, "#")
	return strings.TrimSuffix(actor, "/main-key")
}
