package explain

import (
	"slices"

	"github.com/eyelet-dev/eyelet/verify"
)

// Cause is why a delivery was refused. The set is closed; docs/explain.md lists it.
type Cause string

// group is the part of a delivery or configuration that a cause is about. Two changes of one group
// are not combined.
type group int

const (
	groupNone group = iota // facts that no other change goes with
	groupPolicy
	groupForm
	groupSecret
	groupHash
	groupEncoding
	groupContent
	groupClaim
	groupHeader
	groupURL
	groupBody
)

// The causes that are not a [verify.Mistake].
const (
	otherEndpoint Cause = "other_endpoint"
	otherVendor   Cause = "other_vendor"

	keyUnknown Cause = "key_unknown"

	unsigned       Cause = "unsigned"
	noTime         Cause = "no_time"
	noDigest       Cause = "no_digest"
	headerRenamed  Cause = "header_renamed"
	headerRemoved  Cause = "header_removed"
	headerChanged  Cause = "header_changed"
	headerRepeated Cause = "header_repeated"
	methodChanged  Cause = "method_changed"

	urlScheme Cause = "url_scheme"
	urlHost   Cause = "url_host"
	urlPort   Cause = Cause(verify.PortDiffers)
	urlPath   Cause = "url_path"
	urlSlash  Cause = "url_slash"
	urlCase   Cause = "url_case"
	urlQuery  Cause = Cause(verify.QueryDiffers)
	urlOrder  Cause = "url_query_order"

	bodyNewline      Cause = "body_newline"
	bodyLineEnds     Cause = "body_line_ends"
	bodyBOM          Cause = "body_bom"
	bodyEmpty        Cause = "body_not_signed"
	bodyConsumed     Cause = "body_consumed"
	bodyCut          Cause = "body_cut"
	bodyRewritten    Cause = "body_rewritten"
	bodyCharset      Cause = "body_charset"
	bodyDoubleJSON   Cause = "body_double_json"
	bodyForm         Cause = "body_form"
	bodyEscaped      Cause = "body_escaped"
	bodyBase64       Cause = "body_base64"
	bodyCompressed   Cause = "body_compressed"
	bodyDecompressed Cause = "body_decompressed"
	bodyDigest       Cause = "digest_of_other_body"

	stale     Cause = "stale"
	replayed  Cause = "replayed"
	clockSkew Cause = "clock_skew"
	timeZone  Cause = "time_zone"
	timeUnit  Cause = "time_unit"
	expired   Cause = "expired"
)

// causeText is a cause with its sentence and its remedy. No remedy weakens a check.
type causeText struct {
	cause            Cause
	group            group
	sentence, remedy string
}

const (
	asItCame = "Pass the body to Eyelet as it arrived, before any program that parses and writes it."
	signSent = "The sender must sign the bytes that it sends."
	callURL  = "Set url, of the producer or of the file, to the URL that the sender calls."
)

// causes is the closed set.
var causes = []causeText{
	{otherEndpoint, groupNone, "The delivery is a good one of another endpoint.",
		"Change the URL at the sender to that endpoint."},
	{otherVendor, groupNone, "The delivery has the signature fields of another vendor.",
		"Send it to an endpoint with that vendor's preset."},

	{Cause(verify.OtherSecret), groupSecret, "The signature was made with another secret.",
		"Configure the sender's secret at this endpoint, or this endpoint's secret at the sender."},
	{Cause(verify.SecretEncoding), groupSecret, "The sender reads the secret in another encoding.",
		"Write the secret in the encoding that the sender uses, or set secret_encoding."},
	{Cause(verify.SecretCharacters), groupSecret, "The sender's secret has other characters than the configured one.",
		"Copy the secret again on the side where it has too many or too few characters."},
	{Cause(verify.OtherKey), groupSecret, "The signature was made with another key than the one that it names.",
		"Sign with the named key, or name the key that signs."},
	{Cause(verify.KeyIDDiffers), groupSecret,
		"The signature was made with a known key, under an id that is not configured.",
		"Use the same key id at the sender and in the configuration."},
	{keyUnknown, groupNone, "The signature names a key that this endpoint does not have.",
		"Add the key to this endpoint, or sign with one that it has."},
	{Cause(verify.KeyPurpose), groupSecret, "The signature was made with a key that is published for another purpose.",
		"Sign with a key for signatures, or publish this one as such: use is sig, and key_ops has verify."},
	{Cause(verify.KeyRevoked), groupSecret, "The signature was made with a key that the sender has revoked.",
		"Sign with a key that is not on the sender's list of revoked keys."},
	{Cause(verify.AlgorithmDiffers), groupSecret, "The signature was made with another algorithm than that of the key.",
		"Let the sender sign with the algorithm of the key. None, or a public key as the secret, is an attack."},
	{Cause(verify.CertificateNamed), groupSecret, "The client's certificate is not one of the configured ones.",
		"Add the certificate's name or fingerprint if it is your sender's."},
	{Cause(verify.UserDiffers), groupSecret, "The password is right and the user name is another one.",
		"Use the same user name at the sender and in the configuration."},

	{Cause(verify.LabelDiffers), groupPolicy, "The signature is good and has another label or tag.",
		"Use the configured label and tag at the sender, or configure those of the sender."},
	{Cause(verify.CoverageDiffers), groupPolicy, "The signature does not cover everything that it must cover.",
		"Add the component to those that the sender signs."},
	{Cause(verify.VersionDiffers), groupPolicy, "The signature is good and of an older version.",
		"Set the required signature version at the sender."},
	{Cause(verify.TopicDiffers), groupClaim, "The delivery is a good one of a topic that is not configured.",
		"Add the topic if it is yours; otherwise end its subscription."},
	{Cause(verify.WebhookDiffers), groupClaim, "The signature is over another webhook id than the configured one.",
		"Set account to the id that the vendor shows for this webhook; events of its simulator have another."},
	{Cause(verify.AudienceDiffers), groupClaim, "The token is good and is for another audience.",
		"Set the audience at the sender to the configured one, or configure yours."},
	{Cause(verify.IssuerDiffers), groupClaim, "The token is good and its issuer is not configured.",
		"Configure the issuer exactly as the token names it, if it is yours."},
	{Cause(verify.ClaimDiffers), groupClaim, "The token is good and a claim has another value.",
		"Configure the value of the claim, if it is your sender's."},

	{Cause(verify.HashDiffers), groupHash, "The signature was made with another hash function.",
		"Use the configured hash at the sender, or set hash to the sender's if that is not weaker."},
	{Cause(verify.EncodingDiffers), groupEncoding, "The signature is in another encoding.",
		"Set encoding to that of the sender, or the reverse."},
	{Cause(verify.SignatureWrapped), groupForm,
		"The signature has a prefix, quotes, padding or characters that it should not have.",
		"Write the signature in the configured form at the sender, or set the pattern to the sender's form."},
	{Cause(verify.CredentialWrapped), groupForm, "The right credential is in another form or place.",
		"Send the credential as configured, or configure the place where the sender puts it."},
	{Cause(verify.ContentDiffers), groupContent, "The signature is over other content than the configuration says.",
		"Sign what the scheme describes, or set the template to the content of the sender if it holds body and time."},
	{Cause(verify.OverHash), groupContent, "The signature is over a digest of the body in place of the body.",
		"Sign the body itself."},

	{unsigned, groupNone, "Nothing in the request looks like its signature or credential.",
		"Switch signing on at the sender, and see whether a proxy removes the field."},
	{noTime, groupNone, "The signature has no signed time.", "Let the sender sign the time of the delivery."},
	{noDigest, groupNone, "The signature covers no usable digest of the body.",
		"Sign the body's digest: in Content-Digest with sha-256 or sha-512, or where the scheme reads it."},
	{headerRenamed, groupHeader, "A field was renamed on the way.",
		"Keep the field's name in the proxy; nginx needs underscores_in_headers for names with underscores."},
	{headerRemoved, groupHeader, "A field that the signature covers was removed on the way.",
		"Let the proxy pass the field on."},
	{headerChanged, groupHeader, "A field that the signature covers was changed on the way.",
		"Let the proxy pass the field on unchanged, or sign the value that is sent."},
	{headerRepeated, groupHeader, "A field is there more than once.",
		"Let the proxy replace the field rather than add it."},
	{methodChanged, groupHeader, "The request was signed for another method.",
		"Let the proxy keep the method; look for a redirect between the sender and Eyelet."},

	{urlScheme, groupURL, "The sender signed http and https is configured, or the reverse.", callURL},
	{urlHost, groupURL, "The sender signed another host.", callURL},
	{urlPort, groupURL, "The sender signed the URL with another port, or with none.",
		callURL + " RFC 9421 leaves a default port out."},
	{urlPath, groupURL, "The sender signed another path: a proxy adds or removes a part of it.", callURL},
	{urlSlash, groupURL, "The sender signed the path with a slash more or less at its end.", callURL},
	{urlCase, groupURL, "The sender signed the URL in lower case.", callURL},
	{urlQuery, groupURL, "The sender signed another query.", "Sign the query that is sent, and let the proxy keep it."},
	{Cause(verify.EscapesDiffer), groupURL, "The sender signed the path with other percent-encoding.",
		"Sign the path as it is sent."},
	{urlOrder, groupURL, "The sender signed the parameters of the query in another order.",
		"Let the proxy keep the order, or sign the order that is sent."},

	{bodyNewline, groupBody, "White space at an end of the body was added or removed after signing.", asItCame},
	{bodyLineEnds, groupBody, "The line ends of the body were changed after signing.", asItCame},
	{bodyBOM, groupBody, "A byte order mark was added to the body or removed from it after signing.", asItCame},
	{bodyEmpty, groupBody, "The signature is over an empty body.", "Sign after the body is complete."},
	{bodyConsumed, groupNone, "The body is empty: something read it before, or sent the request again without it.",
		"Mount Eyelet before any middleware that reads the body, and look for a redirect."},
	{bodyCut, groupNone, "The body is shorter than declared: it was cut.",
		"Look for a limit of the body in the proxy, and whether the recording is whole."},
	{bodyRewritten, groupBody, "The JSON was parsed and written again after signing.", asItCame},
	{bodyCharset, groupBody, "The body was converted to another character encoding or form of Unicode after signing.",
		asItCame},
	{bodyDoubleJSON, groupBody, "The JSON was encoded twice, or signed so.", signSent},
	{bodyForm, groupBody, "The JSON was put into a form, or taken out of one, after signing.", signSent},
	{bodyEscaped, groupBody, "Characters of the body were escaped or unescaped after signing.", asItCame},
	{bodyBase64, groupBody, "The body was encoded as base64, or decoded, after signing.",
		"Decode the body before Eyelet; gateways say isBase64Encoded."},
	{bodyCompressed, groupBody, "The body was compressed after signing.",
		"The sender must send its Content-Encoding, or sign the bytes that it sends; signed: coded must not be set."},
	{bodyDecompressed, groupNone, "The body should be compressed and is not: a proxy unpacked what was signed.",
		"Switch decompression off in front of Eyelet."},
	{bodyDigest, groupNone, "The signature is good, and the body does not match the digest that it covers.",
		"See whether the body is changed after signing, or the digest is made of something else."},

	{stale, groupNone, "The delivery came late, or a clock is off.",
		"Compare both clocks, and look for a queue between the sender and Eyelet."},
	{replayed, groupNone, "Old signed bytes were sent again.",
		"Let the sender sign each attempt; if it does, an attacker may have captured a delivery."},
	{clockSkew, groupNone, "The clock of the sender is ahead of ours.",
		"Synchronize both clocks, for example with chrony."},
	{timeZone, groupNone, "The signed time is local time in place of UTC.", "Sign seconds since 1970 in UTC."},
	{timeUnit, groupNone, "The signed time is in another unit.",
		"Set timestamp_unit to that of the sender, or sign the configured unit."},
	{expired, groupNone, "The signature, token or certificate had expired.",
		"Ask for a later expiry, renew the certificate, or look for a queue between the sender and Eyelet."},

	{methodRefused, groupNone, "The endpoint does not take this method.",
		"Use a method that the field Allow of the response lists."},
	{mediaType, groupNone, "The endpoint does not take this media type.",
		"Use a media type that the field Accept-Post of the response lists."},
	{bodyCoding, groupNone, "The body is in a content coding that is not decoded.",
		"Send the body as it is, or in a coding that the field Accept-Encoding of the response lists."},
	{earlyData, groupNone, "The request came as TLS early data, which can be replayed.",
		"Switch early data (0-RTT) off in the proxy, or send the request again after the handshake."},
	{tooLarge, groupNone, "The body is larger than the endpoint takes.",
		"Send less in one delivery, or raise max_body."},
	{hostUnknown, groupNone, "The request names a host that is not configured.",
		"Call a configured host, or add this one to hosts if it is yours."},
	{addressGiven, groupNone, "The client's address is not allowed.",
		"Add the address if it is your sender's; behind a proxy, set trusted_proxies."},
	{endpointEnded, groupNone, "The endpoint has ended.", "Call the endpoint that replaces it."},
	{rateExceeded, groupNone, "The producer sent more than its rate.", "Slow the sender down, or raise rate."},
	{handshake, groupNone, "The endpoint does not answer this handshake.",
		"Compare its parameters with the challenge of the configuration."},
	{otherCheck, groupNone, "Another check refused the delivery.",
		"Look the code up at /policy of the receiver."},
}

// Causes returns the closed set, in the order of docs/explain.md.
func Causes() []Cause {
	all := make([]Cause, len(causes))
	for i, c := range causes {
		all[i] = c.cause
	}
	return all
}

// text returns the line of the cause in the table, or a zero one.
func (c Cause) text() causeText {
	i := slices.IndexFunc(causes, func(t causeText) bool { return t.cause == c })
	if i < 0 {
		return causeText{}
	}
	return causes[i]
}

// Sentence returns the cause in one sentence.
func (c Cause) Sentence() string { return c.text().sentence }

// Remedy returns what the operator can do about it. No remedy weakens a check.
func (c Cause) Remedy() string { return c.text().remedy }
