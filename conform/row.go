package conform

import (
	_ "embed"
	"strings"
	"sync"
)

// Row is a requirement.
type Row struct {
	// Number is that of docs/dev/requirements.md, or of this kit: K for consumers, P for producers,
	// I for intermediaries.
	Number string `json:"number"`
	// Document is its short name, as in the claims of a profile, and Section is that of it.
	Document string `json:"document"`
	Section  string `json:"section"`
	// Strength is that of the document: MUST, SHOULD or MAY; advice if it is our own.
	Strength string `json:"strength"`
	Text     string `json:"text"`
}

// Two documents belong to every run. ownDocument has what no other document requires: it is advice
// for programs that do not claim it. profileDocument has what the profile itself claims: that
// deliveries are verified by its scheme, with its tolerance.
const (
	ownDocument     = "eyelet"
	profileDocument = "profile"
	advice          = "advice"
)

// strengths are in the order of their weight.
var strengths = map[string]int{advice: 0, "MAY": 1, "SHOULD": 2, "MUST": 3}

// documents are those that a profile can claim, by their short names.
var documents = map[string]string{
	"http":              "HTTP,",
	"rfc9421":           "RFC 9421",
	"rfc9457":           "RFC 9457",
	"rfc9530":           "RFC 9530",
	"idempotency-key":   "draft-ietf-httpapi-idempotency-key-header-07",
	"event-delivery":    "draft-mayankpanke-event-delivery-semantics-01",
	"standard-webhooks": "Standard Webhooks 1.0.0",
	"cloudevents":       "CloudEvents 1.0.2",
	"owasp":             "OWASP",
	ownDocument:         "advice",
	profileDocument:     "the profile",
}

// rowsText has a row for each line: number, document, section, strength, text. Strength is what the
// document asks of the program of this role, which may be less than it asks of the other side.
//
//go:embed rows.txt
var rowsText string

var rows = sync.OnceValue(func() map[string][]Row {
	all := map[string][]Row{}
	for _, part := range table("rows.txt", rowsText, 5) {
		if _, known := strengths[part[3]]; !known || documents[part[1]] == "" {
			panic("conform: rows.txt: " + part[0])
		}
		all[part[0]] = append(all[part[0]], Row{part[0], part[1], part[2], part[3], part[4]})
	}
	return all
})

// table returns the columns of each line of a file that is neither empty nor a comment.
func table(name, text string, columns int) (all [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		part := strings.SplitN(line, " | ", columns)
		if len(part) != columns {
			panic("conform: " + name + ": " + line)
		}
		all = append(all, part)
	}
	return all
}

// rowsOf returns the rows of these numbers. A requirement of several documents has one for each.
func rowsOf(numbers []string) (all []Row) {
	for _, number := range numbers {
		if rows()[number] == nil {
			panic("conform: no row " + number)
		}
		all = append(all, rows()[number]...)
	}
	return all
}
