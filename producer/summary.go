package producer

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// summaryPart is a text of a template of [Producer.Summary], or a value.
type summaryPart struct {
	text     string
	value    Extractor
	currency Extractor // that of an amount in minor units; else nil
}

// parseSummary parses a template.
func parseSummary(text string) (parts []summaryPart, err error) {
	for rest := text; rest != ""; {
		before, inner, found := strings.Cut(rest, "{")
		parts = append(parts, summaryPart{text: before})
		if !found {
			break
		}
		inner, after, closed := strings.Cut(inner, "}")
		value, currency, isAmount := strings.Cut(inner, " in ")
		var part summaryPart
		if part.value, err = ParseExtractor(value); err == nil && isAmount {
			part.currency, err = ParseExtractor(currency)
		}
		if !closed {
			err = errors.New("a brace is not closed")
		}
		if err != nil {
			return nil, fmt.Errorf("summary %q: %w; want {json:ref}, or {json:amount in json:currency}", text, err)
		}
		parts, rest = append(parts, part), after
	}
	return parts, nil
}

// checkSummary adds the mistakes in Summary.
func checkSummary(p *Producer, m *mistakes) {
	for _, text := range p.Summary {
		_, err := parseSummary(text)
		m.add(err)
	}
}

// Summarize returns a line about a stored event by its fields and body: of the first template of
// Summary whose values it all has, or "". The line has at most 4,096 bytes of each value, and may
// have any character.
func Summarize(p *Producer, header http.Header, body []byte) string {
	d := &Delivery{Request: &http.Request{Header: header, URL: &url.URL{}}, Body: body, formMember: p.FormMember}
	for _, text := range p.Summary {
		parts, err := parseSummary(text)
		if line, ok := summarize(parts, d); ok && err == nil {
			return line
		}
	}
	return ""
}

func summarize(parts []summaryPart, d *Delivery) (line string, ok bool) {
	for _, part := range parts {
		value := part.text
		if part.value != nil {
			value, _ = part.value.Extract(d) // what must not be used is not shown
			if part.currency != nil {
				currency, _ := part.currency.Extract(d)
				value = majorUnits(value, currency)
			}
			if value == "" {
				return "", false
			}
		}
		line += value
	}
	return line, line != ""
}

// minorDigits are the digits of the minor unit of currencies in ISO 4217 that have not two. -1
// marks those of which vendors deviate from it, each in its own way.
var minorDigits = map[string]int{
	"BIF": 0, "DJF": 0, "GNF": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0, "VND": 0, "VUV": 0,
	"XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
	"CLP": -1, "CVE": -1, "IDR": -1, "ISK": -1, "MGA": -1, "UGX": -1,
}

// majorUnits returns an amount of minor units with its currency, as in 25.00 EUR; "" if it is not
// one, or if it could be another amount.
func majorUnits(minor, currency string) string {
	currency = strings.ToUpper(currency)
	digits, special := minorDigits[currency]
	if !special {
		digits = 2
	}
	number, negative := strings.CutPrefix(minor, "-")
	if digits < 0 || len(currency) != 3 || number == "" || strings.Trim(number, "0123456789") != "" {
		return ""
	}
	if missing := digits + 1 - len(number); missing > 0 {
		number = strings.Repeat("0", missing) + number
	}
	if digits > 0 {
		number = number[:len(number)-digits] + "." + number[len(number)-digits:]
	}
	if negative {
		number = "-" + number
	}
	return number + " " + currency
}
