package preset

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // samples.txt
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed samples.txt
var samplesText string

// typeSample is an event type with what fills {data} of the preset's sample.
type typeSample struct{ name, data string }

// typeSamples are the documented types of a preset.
type typeSamples struct {
	docs   string // the page that documents them
	form   sample
	id     string // the form of an identifier
	open   bool   // senders choose types of their own
	types  []typeSample
	others []typeSample // of other types, by the prefix of their names
}

// allSamples are the sections of samples.txt.
var allSamples = sync.OnceValue(func() map[string]*typeSamples {
	all := map[string]*typeSamples{}
	var section *typeSamples
	for line := range strings.Lines(samplesText) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, docs, ok := strings.Cut(strings.TrimPrefix(line, "["), "] "); ok && line[0] == '[' {
			section = &typeSamples{docs: docs, form: sample{header: map[string]string{}}}
			all[name] = section
			continue
		}
		if line == "..." {
			section.open = true
			continue
		}
		if text, ok := strings.CutPrefix(line, "| "); ok {
			section.form.add(text)
			continue
		}
		if form, ok := strings.CutPrefix(line, "= "); ok {
			section.id = form
			continue
		}
		kind, data, _ := strings.Cut(line, ": ")
		if prefix, ok := strings.CutSuffix(kind, "*"); ok {
			section.others = append(section.others, typeSample{prefix, data})
		} else {
			section.types = append(section.types, typeSample{kind, data})
		}
	}
	return all
})

// samples returns the documented types of the preset.
func (p Preset) samples() *typeSamples {
	if found := allSamples()[p.Name]; found != nil {
		return found
	}
	if p.at.Line == 0 {
		return &typeSamples{}
	}
	own := &typeSamples{docs: p.Docs, form: sample{body: `{"sample":"{id}"}`}, open: true} // of a file
	for _, name := range p.types {
		own.types = append(own.types, typeSample{name: name})
	}
	return own
}

// data returns what fills {data} for a type; without data for it, that of the first type.
func (s *typeSamples) data(kind string) string {
	for _, known := range s.types {
		if known.name == kind {
			return known.data
		}
	}
	for _, other := range s.others {
		if strings.HasPrefix(kind, other.name) {
			return other.data
		}
	}
	if len(s.types) == 0 {
		return ""
	}
	return s.types[0].data
}

// Types are the common event types of the vendor, not all of them; the first is that of a sample
// without a type.
func (p Preset) Types() []string {
	var names []string
	for _, known := range p.samples().types {
		names = append(names, known.name)
	}
	return names
}

// Lists reports whether the type is one of [Preset.Types], has their documented form, or may be of
// the sender's own choice.
func (p Preset) Lists(kind string) bool {
	s := p.samples()
	is := func(known typeSample) bool { return known.name == kind }
	begins := func(known typeSample) bool { return known.name != "" && strings.HasPrefix(kind, known.name) }
	return s.open || slices.ContainsFunc(s.types, is) || slices.ContainsFunc(s.others, begins)
}

// usualType is the type of a sample without one; "" for a preset whose types are unknown.
func (p Preset) usualType() string { return append(p.Types(), "")[0] }

// TypesDocs is the address of the page that documents the types.
func (p Preset) TypesDocs() string { return p.samples().docs }

// TypeFrom returns where the type of an event is, in the syntax of the configuration, such as
// "header:X-GitHub-Event".
func (p Preset) TypeFrom() string {
	if p.typeFrom != "" {
		return p.typeFrom
	}
	made := p.described()
	if made.Type == nil {
		made = made.WithDefaults()
	}
	return fmt.Sprint(made.Type)
}

// KeySigned reports whether the vendor signs with a private key, so that a sample needs one of
// yours ([Settings.SigningKey]) and a receiver that trusts it.
func (p Preset) KeySigned() bool { return p.signWith != nil && !p.sharedKeys }

// idParts are the parts of an identifier that have a length.
var idParts = regexp.MustCompile(`\{[AD][0-9]+\}`)

// newID returns an identifier of the form that the vendor's have, or random text.
func (s *typeSamples) newID(now time.Time) string {
	random, stamp := rand.Text(), make([]byte, 8)
	binary.BigEndian.PutUint64(stamp, uint64(now.UnixMilli())<<14) //nolint:gosec // the next 46 bits
	ulid := crockford.EncodeToString(stamp)[:10] + crockford.EncodeToString([]byte(random))[:16]
	made := append(madeFrom(random), "{ulid}", ulid, "{unix}", strconv.FormatInt(now.Unix(), 10))
	form := idParts.ReplaceAllStringFunc(s.id, func(part string) string {
		n, _ := strconv.Atoi(part[2 : len(part)-1])
		if part[1] == 'A' {
			return rand.Text()[:n]
		}
		return madeFrom(rand.Text())[1][:n]
	})
	return cmp.Or(strings.NewReplacer(made...).Replace(form), random)
}

// crockford is the alphabet of ULIDs.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// madeFrom returns the placeholders made from the identifier, so that another identifier is another
// body. {n} is the identifier itself if that is a number.
func madeFrom(id string) []string {
	sum := sha256.Sum256([]byte(id))
	digits := hex.EncodeToString(sum[:])
	number := id
	if strings.Trim(id, "0123456789") != "" || id < "1" || len(id) > 15 {
		number = "1"
		for _, b := range sum[:11] {
			number += string('0' + b%10)
		}
	}
	uuid := digits[:8] + "-" + digits[8:12] + "-4" + digits[13:16] + "-8" + digits[17:20] + "-" + digits[20:32]
	return []string{"{n}", number, "{hex}", digits[:32], "{sha}", digits[:40], "{uuid}", uuid}
}
