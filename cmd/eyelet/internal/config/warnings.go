package config

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/sink"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/nearest"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
)

// Warnings returns what serve accepts and is probably a mistake.
func (p *Plan) Warnings() usage.Errors {
	var found usage.Errors
	for _, warning := range Exposed(p.settings) {
		found.Add(usage.Place{}, "", "%s", warning)
	}
	for i := range p.Producers {
		for _, warning := range p.Producers[i].Warnings() {
			found.Add(usage.Place{}, "", "%s", warning)
		}
	}
	for _, warning := range producer.SharedSecrets(p.Producers) {
		found.Add(usage.Place{}, "", "%s", warning)
	}
	for _, warn := range []func(*Settings) usage.Errors{unhandled, unknownTypes, misplaced, acmeWarnings, scripts} {
		found = append(found, warn(p.settings)...)
	}
	return found
}

// unhandled warns of producers whose events no handler takes.
func unhandled(s *Settings) (found usage.Errors) {
	if len(s.Handlers) == 0 {
		found.Add(usage.Place{}, "", "there are no handlers: events are accepted and kept, but not handled")
		return found
	}
	for i := range s.Producers {
		from := &s.Producers[i]
		if !slices.ContainsFunc(s.Handlers, func(h Handler) bool { return h.Producer == from.Name }) {
			found.Add(from.at, "add a handler with producer: "+from.Name,
				"producer %q has no handler: its events are accepted and kept, but not handled", from.Name)
		}
	}
	return found
}

// scripts warns of programs that the system cannot run.
func scripts(s *Settings) (found usage.Errors) {
	for i := range s.Handlers {
		h := &s.Handlers[i]
		if len(h.Exec) == 0 {
			continue
		}
		name := h.Exec[0]
		if strings.ContainsRune(name, filepath.Separator) {
			name = s.Path(name)
		}
		if full, err := exec.LookPath(name); err == nil {
			name = full
		}
		if err := sink.CheckScript(name); err != nil {
			found.Add(h.Node.Place("exec"), "", "%s cannot run: %v", h.Exec[0], err)
		}
	}
	return found
}

// unknownTypes warns of handlers for a type that is almost a known one. The preset does not know
// all types, so those that are similar to none may be right.
func unknownTypes(s *Settings) (found usage.Errors) {
	for i := range s.Handlers {
		h := &s.Handlers[i]
		from := s.producer(h.Producer)
		if from == nil || from.common.Type != nil {
			continue
		}
		vendor, _ := from.Vendor()
		known := vendor.Types()
		if slices.ContainsFunc(known, func(name string) bool { return dedup.MatchType(h.Type, name) }) {
			continue
		}
		word, isPrefix := strings.CutSuffix(h.Type, "*")
		for i, name := range known {
			if isPrefix { // compared with the beginning of each type
				known[i] = name[:min(len(name), len(word))]
			}
		}
		if meant := usage.Nearest(word, known); meant != "" && nearest.Distance(word, meant) <= maxTypo {
			found.Add(h.Node.Place("type"), fmt.Sprintf("did you mean %q?", meant+h.Type[len(word):]),
				"type %q matches none of the common types of preset %s, and is almost one of them", h.Type, from.Preset)
		}
	}
	return found
}

// maxTypo is the number of wrong letters in a type that is probably misspelt. More of them may be
// another type: invoice.updated is not a misspelt invoice.created.
const maxTypo = 2

// twilioAccount is the form of a Twilio account SID, which is not the auth token.
var twilioAccount = regexp.MustCompile(`^AC[0-9a-fA-F]{32}$`)

// misplaced warns of values that belong elsewhere.
func misplaced(s *Settings) (found usage.Errors) {
	for i := range s.Producers {
		p := &s.Producers[i]
		if endpoint := "/webhooks/" + p.Name; strings.HasSuffix(strings.TrimRight(s.URL, "/"), endpoint) {
			found.Add(s.Place("url"), "write the public base without "+endpoint,
				"url ends in %[1]s, which is added to it: signatures would have to cover %[1]s%[1]s", endpoint)
		}
		if p.Preset == "twilio" && slices.ContainsFunc(p.PresetSettings.Secrets, twilioAccount.MatchString) {
			found.Add(p.at, "write the auth token, which is beside the account SID in Twilio's console",
				"producer %q: a secret has the form of an account SID (AC...), which signs nothing", p.Name)
		}
	}
	return found
}
