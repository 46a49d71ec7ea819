package producer_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
)

func TestASummaryIsTheFirstWithAllValues(t *testing.T) {
	t.Parallel()
	p := producer.Producer{FormMember: "payload", Summary: []string{
		"{json:sum in json:money}", "{json:ref | json:tag} by {json:user.name}", "{form:From}", "{header:X-Type}",
	}}
	for body, want := range map[string]string{
		`{"sum":2500,"money":"eur","ref":"main"}`:                                        "25.00 EUR",
		`{"sum":"2500","money":"JPY"}`:                                                   "2500 JPY",
		`{"sum":2500,"money":"KWD"}`:                                                     "2.500 KWD",
		`{"sum":-5,"money":"USD"}`:                                                       "-0.05 USD",
		`{"sum":0,"money":"USD"}`:                                                        "0.00 USD",
		`{"sum":2500,"money":"ISK","tag":"v1","user":{"name":"mallow"}}`:                 "v1 by mallow", // 25 or 2,500
		`{"sum":25.5,"money":"EUR"}`:                                                     "kettle",
		`{"sum":1e3,"money":"EUR"}`:                                                      "kettle",
		`{"sum":2500,"money":"euro"}`:                                                    "kettle",
		`{"sum":2500}`:                                                                   "kettle",
		`{"ref":"main","user":{"name":"mallow"}}`:                                        "main by mallow",
		`{"ref":"main"}`:                                                                 "kettle",
		`{"ref":"a","ref":"b","user":{"name":"mallow"}}`:                                 "kettle", // ambiguous
		`{"ref":{"a":1},"user":{"name":"mallow"}}`:                                       "kettle",
		`{"ref":"` + strings.Repeat("x", 5000) + `","user":{"name":"mallow"}}`:           "kettle",
		`payload=%7B%22ref%22%3A%22main%22%2C%22user%22%3A%7B%22name%22%3A%22m%22%7D%7D`: "main by m",
		"From=%2B15550017":                                                               "+15550017",
		"":                                                                               "kettle",
		"not JSON":                                                                       "kettle",
		strings.Repeat("[", 100_000):                                                     "kettle",
	} {
		header := http.Header{"X-Type": {"kettle"}}
		if strings.HasPrefix(body, "From") {
			header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		if got := producer.Summarize(&p, header, []byte(body)); got != want {
			t.Errorf("%.80s: %.80q, want %q", body, got, want)
		}
	}
	if got := producer.Summarize(&p, nil, []byte("{}")); got != "" {
		t.Errorf("without values: %q", got)
	}
}

func TestMistakesInSummaries(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{ref}": `extractor "ref": want KIND:NAME`, "{json:ref": "a brace is not closed",
		"{json:a in b}": `extractor "b": want KIND:NAME`, "{json:ref} by": "",
	} {
		p := producer.Producer{Name: "shop", Key: producer.JSON("id"), Summary: []string{text}}
		found := ""
		for _, err := range p.Check() {
			if strings.Contains(err.Error(), "summary") {
				found = err.Error()
			}
		}
		if !strings.Contains(found, want) || (want == "") != (found == "") {
			t.Errorf("%s: %q, want %q", text, found, want)
		}
	}
}
