package eyelet_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	update  = flag.Bool("update", false, "lower the numbers of testdata/style and write testdata/api")
	phrases = flag.Bool("phrases", false, "list every unidiomatic phrase with its place")
)

// maxPhrases is how many unidiomatic phrases 1,000 words may contain, in each package and each
// page. One is always allowed.
const maxPhrases = 1

// phrase is a form that a native technical writer would not use. The list begins with the forms
// that were most frequent in this repository.
type phrase struct {
	form   *regexp.Regexp
	unless *regexp.Regexp // matches idiomatic uses, with some context around the form
	needs  []string       // a sentence without any of these, in lower case, does not match; none: all may
	better string
}

func avoid(form, unless, better string) phrase {
	p := phrase{form: regexp.MustCompile(form), needs: literalsOf(form), better: better}
	if unless != "" {
		p.unless = regexp.MustCompile(unless)
	}
	return p
}

// unidiomatic holds the forms. Those that begin with ^ are forms of the beginning of a sentence.
var unidiomatic = []phrase{
	// People for programs, and pronoun clauses for nouns.
	avoid(`(?i)\b(?:whoever|whomever|whom)\b`, ``, "the client, the sender, the caller"),
	avoid(`(?i)\b(?:no|some|any|every)body\b`, ``, "no client, another process, every user"),
	avoid(`(?i)\bwho (?:asks?|sends?|reads?|writes?|gets?|waits?|comes?|calls?|knows?|has|have|wants?|must|looks?|`+
		`tries|holds?|took|takes?|did|does|listens?)\b`, `(?i)\bwho (?:sends|asks)[^.]*\?`, "the caller, which ..."),
	avoid(`(?i)\bwhat (?:it|they|he|she) (?:has|have|had|holds?|knows?|gives?|tells?|says?|brings?|began|wants?|`+
		`stands?|asks?|is told)\b`, ``, "the thing by its name"),
	avoid(`(?i)\bwhat (?:becomes|became) of\b`, ``, "the result of"),
	avoid(`(?i)\bwhat (?:is|was|are|were) (?:read|kept|known|left|remembered|written|stored|decided|done|sent|`+
		`taken|told) (?:of|by|to|for|from)\b`, ``, "the thing by its name"),
	avoid(`(?i)\bof what (?:is|was|are|were|it|they)\b`, ``, "of the thing by its name"),
	avoid(`(?i)\b(?:he|his|him)\b`, ``, "it, the client, the operator"),
	avoid(`^What (?:is|was|are|were|an?|the|it|they|no|stands?|came|comes|cannot|can|could|did|does|has|have|had|`+
		`waits?|runs?|goes|needs?|takes?|this|that|one)\b[^?]*[.]$`, ``, "subject first: name the thing"),
	avoid(`^Who (?:is|has|gets|asks|wants|sends|waits|calls|reads|knows|captured|looks|holds)\b[^?]*[.]$`, ``,
		"subject first: name the client"),
	avoid(`^That (?:an?|nobody|no|they|nothing|it|the) [^,]*[.]$`, ``, "subject first"),
	avoid(`(?i)\bit is (?:they|he|she|those|the \w+) who\b`, ``, "the subject itself"),

	// Negated nouns.
	avoid(`(?i)\b(?:is|are|was|were|be|been) no \w+`,
		`(?i)\b(?:there|this|that)(?: \w+)? (?:is|are|was|were|be|been) no |`+
			` no (?:longer|more|less|later|earlier|larger|older|newer|different|better|worse)\b`, "is not a ..."),
	avoid(`(?i)\b(?:is|are|was|were) none\b`, `(?i)\bthere (?:is|are|was|were) none\b`, "is not one"),
	avoid(`(?i)\bnone that\b`, ``, "not one that"),
	avoid(`(?i)\b(?:has|have|had) no need\b`, ``, "does not need"),
	avoid(`(?i)\b(?:is|are|was|were) of (?:no|use|worth|age|another|the same)\b`, ``, "is unused, belongs to another"),

	// Stands, told, said, heard.
	avoid(`(?i)\b(?:stands?|stood|standing)\b`, `(?i)\blong-standing\b`, "is, is in, means, follows"),
	avoid(`(?i)\b(?:tells?|told|telling)\b`, ``, "reports, shows, reveals, distinguishes"),
	avoid(`(?i)\bsa(?:ys?|id) of\b`, ``, "reports"),
	avoid(`(?i)\b(?:is|are|was|were|be) said\b`, ``, "is reported"),
	avoid(`(?i)\b(?:hears?|heard)\b`, ``, "is notified of"),
	avoid(`(?i)\bbeliev(?:e|es|ed)\b`, ``, "is trusted"),

	// Metaphors that have a term.
	avoid(`(?i)\b(?:crowds?|guests?|strangers?)\b`, ``, "limiter, permit, unauthenticated client"),
	avoid(`(?i)\bdoors?\b`, ``, "in-flight tracker, adapter"),
	avoid(`(?i)\bflights?\b`, `(?i)\bin[ -]flight\b`, "pending answer"),
	avoid(`(?i)\b(?:the|a|our|strict) (?:gates?|faces?)\b`, ``, "parser, adapter"),
	avoid(`(?i)\bheeds?\b`, ``, "records, obeys"),
	avoid(`(?i)\b(?:the|a|our) book\b`, ``, "registry"),
	avoid(`(?i)\brooms?\b`, `(?i)\brooms? (?:for|to)\b|\b(?:makes?|made|leaves?|no|enough|more) room\b`,
		"package, capacity"),
	avoid(`(?i)\b(?:the|keeps?) house\b|\bhousekeep\w*`, ``, "layout, maintenance"),
	avoid(`(?i)\b(?:chores?|fates?|happenings?|veil\w*|twins?|agendas?)\b`, ``,
		"bulk action, result, entry, redact, variant, queue"),
	avoid(`(?i)\b(?:kept|keeps?|keeping|keep|puts?) (?:it |them |\w+ )?aside\b`, ``, "quarantined"),
	avoid(`\bkept_aside\b|--aside\b`, ``, "quarantined"),
	avoid(`(?i)\bhasten\w*`, ``, "run now"),
	avoid(`(?i)\bloose\b`, ``, "malleable"),
	avoid(`(?i)\b(?:a|this|optional|these|further) powers?\b|\bpowers? of (?:a |the )?stores?\b`,
		`(?i)\bpower (?:cut|loss|failure|supply|of two)`, "optional interface"),
	avoid(`(?i)\b(?:unsound|harmed)\b`, ``, "corrupt, damaged"),
	avoid(`(?i)\bspell(?:ing|ings|ed|s)\b`, ``, "syntax, written as"),
	avoid(`(?i)\bjudg(?:e|es|ed|ing)\b`, `(?i)\bnot judged\b`, "classify, evaluate, decide"),
	avoid(`(?i)\b(?:learns?|learnt|learned)\b`, ``, "record, receive"),
	avoid(`(?i)\bwelcomed?\b`, ``, "credited, supported"),
	avoid(`(?i)\bdawdl\w*`, ``, "is slow"),
	avoid(`(?i)\bown affair\b`, ``, "is recovered, is ignored"),
	avoid(`(?i)\bno business\b`, ``, "must not"),

	// Idioms of another language.
	avoid(`(?i)\bfor ever\b`, ``, "forever"),
	avoid(`(?i)\bg(?:ive|ives|iving|iven|ave) (?:(?:it|them|its \w+|their \w+) )?back\b`, ``, "return, release"),
	avoid(`(?i)\bg(?:ive|ives|iving|iven|ave) (?:(?:it|them) )?up\b`, ``, "abandon, stop"),
	avoid(`(?i)\b(?:goes|going|gone|went|go) on\b`, `(?i)\bgoes on (?:the|a) `, "continues"),
	avoid(`(?i)\bat work\b`, ``, "running"),
	avoid(`(?i)\blet(?:s|ting)? go of\b`, ``, "deletes, releases"),
	avoid(`(?i)\bunder way\b`, ``, "in flight, running"),
	avoid(`(?i)\bin (?:the|its|their) place of\b`, ``, "instead of"),
	avoid(`(?i)\bas good as\b`, ``, "almost, like"),
	avoid(`(?i)\band the like\b`, ``, "and others"),
	avoid(`(?i)\bgets? on\b`, `(?i)\bgets? on (?:the|a) `, "progresses"),
	avoid(`(?i)\bby the way\b`, ``, ""),
	avoid(`(?i)\bbr(?:ing|ings|ought|inging) (?:(?:it|them) )?(?:forward|home)\b`, ``, "upgraded, migrated"),
	avoid(`(?i)\bbut for\b`, ``, "except"),
	avoid(`, be (?:it|they)\b`, ``, "whether ... or ..."),
	avoid(`(?i)\b(?:comes?|came|coming) again\b`, ``, "is redelivered, is repeated"),
	avoid(`(?i)\b(?:anew|afresh)\b`, ``, "again, re-signed"),
	avoid(`(?i)\blately\b`, ``, "recently"),
	avoid(`(?i)\b(?:is|are|was|were|be|been) (?:looked at|taken for|let)\b`, ``, "is read, counts as, may"),
	avoid(`(?i)\bas (?:it|they) (?:came|comes?)\b`, ``, "unchanged"),
	avoid(`(?i)\b(?:to|before) (?:its|their) end\b`, ``, "completely, to EOF"),
	avoid(`(?i)\b(?:its|their|his) turn\b`, ``, "slot"),
	avoid(`(?i)\b(?:becomes?|became|makes?|made) of (?:it|them|what)\b`, ``, "the result"),
	avoid(`(?i)\bbe had\b`, ``, "is available"),
	avoid(`(?i)\bso that\b[^.;:]*\bso that\b`, ``, "two sentences"),
}

// literalsOf returns texts of which every match of the form holds one.
func literalsOf(form string) []string {
	parsed, err := syntax.Parse(form, syntax.Perl)
	if err != nil {
		panic(err)
	}
	return literals(parsed.Simplify())
}

func literals(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCapture:
		return literals(re.Sub[0])
	case syntax.OpConcat: // the longest of what every match holds
		var best []string
		for _, sub := range re.Sub {
			if found := literals(sub); found != nil && (best == nil || shortest(found) > shortest(best)) {
				best = found
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			found := literals(sub)
			if found == nil {
				return nil
			}
			all = append(all, found...)
		}
		return all
	}
	return nil
}

func shortest(texts []string) int {
	return len(slices.MinFunc(texts, func(a, b string) int { return len(a) - len(b) }))
}

func (p *phrase) mayMatch(lower string) bool {
	return p.needs == nil || slices.ContainsFunc(p.needs, func(text string) bool {
		return strings.Contains(lower, text)
	})
}

// unidiomaticIn returns the phrases of a paragraph.
func unidiomaticIn(paragraph string) []string {
	var found []string
	for sentence := range strings.SplitSeq(sentences.ReplaceAllString(paragraph, "$1\x00"), "\x00") {
		lower := strings.ToLower(sentence)
		for _, p := range unidiomatic {
			if !p.mayMatch(lower) {
				continue
			}
			for _, at := range p.form.FindAllStringIndex(sentence, -1) {
				around := sentence[max(0, at[0]-16):min(len(sentence), at[1]+24)]
				if p.unless == nil || !p.unless.MatchString(around) {
					found = append(found, sentence[at[0]:min(at[1], at[0]+60)])
				}
			}
		}
	}
	return found
}

var (
	sentences = regexp.MustCompile(`([.;:?!]) +`)
	codeSpan  = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|“[^”]*”|\\[[A-Z][A-Za-z.]*\\]")
	fence     = regexp.MustCompile("(?s)\n```.*?\n```")
	link      = regexp.MustCompile(`\]\([^)]*\)`)
	html      = regexp.MustCompile(`(?s)<!--.*?-->`)
)

// prose is the text of a package, or of a page, paragraph by paragraph.
type prose struct {
	place string
	text  string
}

func wordsIn(texts []prose) int {
	n := 0
	for _, p := range texts {
		n += len(strings.Fields(p.text))
	}
	return n
}

// commentsOf returns the paragraphs of a file's comments without directives, preformatted
// lines and quoted code.
func commentsOf(s source) []prose {
	var all []prose
	for _, group := range s.file.Comments {
		var paragraph []string
		flush := func() {
			if text := codeSpan.ReplaceAllString(strings.Join(paragraph, " "), "X"); text != "" {
				all = append(all, prose{fmt.Sprintf("%s:%d", s.path, s.line(group)), text})
			}
			paragraph = nil
		}
		for line := range strings.SplitSeq(group.Text(), "\n") {
			switch {
			case line == "":
				flush()
			case !strings.HasPrefix(line, "\t"):
				paragraph = append(paragraph, line)
			}
		}
		flush()
	}
	return all
}

// stringsOf returns the string literals of a file that hold prose: three words or more.
func stringsOf(s source) []prose {
	var all []prose
	ast.Inspect(s.file, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			return false
		}
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err == nil && len(strings.Fields(text)) >= 3 {
			text = codeSpan.ReplaceAllString(text, "X")
			for paragraph := range strings.SplitSeq(text, "\n") {
				all = append(all, prose{fmt.Sprintf("%s:%d", s.path, s.line(lit)), paragraph})
			}
		}
		return true
	})
	return all
}

// testNamesOf returns the names of a file's tests as sentences.
func testNamesOf(s source) []prose {
	var all []prose
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil {
			continue
		}
		if name, ok := strings.CutPrefix(f.Name.Name, "Test"); ok && s.isTest() {
			all = append(all, prose{s.path, strings.Join(camelWords(name), " ")})
		}
	}
	return all
}

// camelWords splits an identifier into its words, in lower case: HTTPServerError is http,
// server, error.
func camelWords(name string) []string {
	var words []string
	runes := []rune(name)
	start := 0
	for i := 1; i <= len(runes); i++ {
		boundary := i == len(runes) || runes[i] == '_' || unicode.IsUpper(runes[i]) &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if boundary {
			if word := strings.Trim(string(runes[start:i]), "_"); word != "" {
				words = append(words, strings.ToLower(word))
			}
			start = i
		}
	}
	return words
}

// pageProse returns the paragraphs of a page without code and addresses.
func pageProse(t *testing.T, name string) []prose {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	plain := html.ReplaceAllString(fence.ReplaceAllString("\n"+string(text), "\n"), "")
	plain = codeSpan.ReplaceAllString(link.ReplaceAllString(plain, "]"), "X")
	var all []prose
	for paragraph := range strings.SplitSeq(plain, "\n\n") {
		rows := strings.Split(paragraph, "\n")
		if !strings.HasPrefix(strings.TrimSpace(paragraph), "|") && !strings.Contains(paragraph, "\n|") {
			rows = []string{strings.Join(rows, " ")}
		}
		for _, row := range rows {
			if row = strings.TrimSpace(row); row != "" && !strings.HasPrefix(row, "#") {
				all = append(all, prose{name, strings.TrimLeft(row, "-* |")})
			}
		}
	}
	return all
}

// allProse returns the prose of every package (with its tests) and every page.
func allProse(t *testing.T) map[string][]prose {
	t.Helper()
	all := map[string][]prose{}
	for _, s := range sources(t) {
		if s.path == "language_test.go" { // it holds the phrases
			continue
		}
		all[s.dir] = append(all[s.dir], commentsOf(s)...)
		if s.isTest() {
			all[s.dir] = append(all[s.dir], testNamesOf(s)...)
		} else {
			all[s.dir] = append(all[s.dir], stringsOf(s)...)
		}
	}
	err := walk(".md", func(name string) error {
		all[name] = pageProse(t, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestProseIsIdiomatic(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	words, found := 0, 0
	for name, texts := range allProse(t) {
		n := 0
		for _, p := range texts {
			for _, form := range unidiomaticIn(p.text) {
				n++
				if *phrases {
					t.Logf("%s: %q", p.place, form)
				}
			}
		}
		total := wordsIn(texts)
		words, found = words+total, found+n
		if n > max(1, total*maxPhrases/1000) {
			counts[name] = n
			t.Logf("%s: %d unidiomatic phrases in %d words", name, n, total)
		}
	}
	t.Logf("%d unidiomatic phrases in %d words, %.1f per 1,000", found, words, 1000*float64(found)/float64(words))
	ratchet(t, "phrases", counts)
}

// TestThePhrasesAreFound keeps the list from going blind: it must find the forms of comments
// that were written before there was a list.
func TestThePhrasesAreFound(t *testing.T) {
	t.Parallel()
	texts := pageProse(t, "testdata/style/old-comments.txt")
	n := 0
	for _, p := range texts {
		n += len(unidiomaticIn(p.text))
	}
	rate := 1000 * float64(n) / float64(wordsIn(texts))
	t.Logf("%.1f phrases per 1,000 words", rate)
	if rate < 8 {
		t.Errorf("found %.1f phrases per 1,000 words of the old comments, want 8 or more", rate)
	}
}

// retired are words that no identifier may hold any more, with the term of the field.
var retired = map[string]string{
	"crowd": "limiter", "guest": "permit", "stranger": "unknown peer", "door": "inFlight", "book": "registry",
	"chore": "bulkAction", "fate": "result", "veil": "redact", "twin": "fileVariant",
	"happening": "tailEntry", "agenda": "taskqueue", "hasten": "runNow", "hastener": "expediter", "loose": "malleable",
	"judge": "classify", "spelling": "syntax", "spelled": "writtenAs", "told": "reported", "tells": "reports",
	"nobody": "the negation", "somebody": "another process", "whoever": "the client", "unsound": "corrupt",
	"harmed": "damaged", "house": "layout", "rooms": "packages", "overrule": "override", "peace": "noCrashers",
	"flight": "pending",
}

// retiredNames are whole identifiers that may not come back.
var retiredNames = []string{
	"Aside", "Asides", "ErrNoWait", "tellOff", "untilTold", "onlyThese", "inFiles", "keepHouse", "askAgain", "handOver",
	"giveBack", "giveUp", "wayHere", "judgeTime", "saysHTTP", "storeIsThere", "outliveReaders",
}

// allowedPairs are uses of retired words that are terms.
var allowedPairs = []string{"in flight", "loose binary", "test house"}

func TestRetiredNamesStayRetired(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	for _, s := range sources(t) {
		for _, id := range declared(s.file) {
			if better := replacement(id.Name); better != "" && s.path != "language_test.go" {
				counts[s.dir]++
				if *phrases {
					t.Logf("%s:%d: %s is retired: %s", s.path, s.line(id), id.Name, better)
				}
			}
		}
	}
	ratchet(t, "retired", counts)
}

// replacement returns the term of the field for a retired name, or "".
func replacement(name string) string {
	if slices.Contains(retiredNames, name) {
		return "say what it does"
	}
	words := " " + strings.Join(camelWords(name), " ") + " "
	for _, pair := range allowedPairs {
		words = strings.ReplaceAll(words, " "+pair+" ", " ")
	}
	for word := range strings.FieldsSeq(words) {
		if better, ok := retired[word]; ok {
			return better
		}
	}
	return ""
}

// declared returns the identifiers that a file declares.
func declared(f *ast.File) []*ast.Ident {
	var all []*ast.Ident
	add := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok {
				all = append(all, id)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			all = append(all, n.Names...)
		case *ast.Field:
			all = append(all, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key, n.Value)
			}
		}
		return true
	})
	return all
}
