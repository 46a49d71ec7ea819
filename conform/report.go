package conform

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Report is what a run found.
type Report struct {
	// Kit is the version of the checks.
	Kit      string        `json:"kit"`
	Role     Role          `json:"role"`
	Target   string        `json:"target"`
	Profile  string        `json:"profile"`
	Claims   []string      `json:"claims"`
	Seed     uint64        `json:"seed"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took"` // nanoseconds
	Requests int           `json:"requests"`
	Results  []Result      `json:"results"`
}

// Count returns how many checks of a strength had a verdict. An empty strength is any.
func (r *Report) Count(v Verdict, strength string) (n int) {
	for i := range r.Results {
		if r.Results[i].Verdict == v && (strength == "" || r.Results[i].Strength == strength) {
			n++
		}
	}
	return n
}

// Conforms reports whether every MUST that was tested holds.
func (r *Report) Conforms() bool { return r.Count(Fails, "MUST") == 0 && r.Count(Holds, "") > 0 }

// Summary is the outcome in a line.
func (r *Report) Summary() string {
	text := fmt.Sprintf("%d hold, %d fail", r.Count(Holds, ""), r.Count(Fails, ""))
	if n := r.Count(Fails, "MUST"); n > 0 {
		text += fmt.Sprintf(" (%d of them a MUST)", n)
	}
	return text + fmt.Sprintf(", %d not judged, %d not applicable",
		r.Count(NotJudged, ""), r.Count(NotApplicable, ""))
}

// WriteText writes the report for a terminal. Checks that do not apply are only counted.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for i := range r.Results {
		if r.Results[i].Verdict != NotApplicable {
			r.Results[i].writeText(&b)
		}
	}
	fmt.Fprintf(&b, "\n%s\n%s %s, profile %s, kit %s, seed %d: %d requests in %s\n", r.Summary(), r.Role, r.Target,
		r.Profile, r.Kit, r.Seed, r.Requests, r.Took.Round(time.Second/10))
	_, err := io.WriteString(w, strings.Map(printable, b.String()))
	return err
}

// printable replaces control characters, which a terminal obeys, of what came.
func printable(r rune) rune {
	if unicode.IsControl(r) && r != '\n' {
		return '?'
	}
	return r
}

func (r *Result) writeText(b *strings.Builder) {
	fmt.Fprintf(b, "%-14s  %s  %s\n", r.Verdict, r.Check, r.Title)
	if r.Verdict != Fails && r.Reason != "" {
		fmt.Fprintf(b, "%16s%s\n", "", r.Reason)
	}
	if r.Verdict != Fails {
		return
	}
	came := strings.ReplaceAll(r.Reason, "\n", fmt.Sprintf("\n%27s", ""))
	fmt.Fprintf(b, "%16s%s: %s\n%16swhat came: %s\n%16sright:     %s\n%16scure:      %s\n",
		"", r.Strength, source(r.Rows), "", came, "", r.Right, "", r.Cure)
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     float64     `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Time    float64    `xml:"time,attr"`
	Failure *junitText `xml:"failure"`
	Skipped *junitText `xml:"skipped"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report as XML of JUnit: a failed check of any strength is a failure.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{
		Name: "conform " + string(r.Role), Tests: len(r.Results), Failures: r.Count(Fails, ""),
		Skipped: r.Count(NotJudged, "") + r.Count(NotApplicable, ""), Time: r.Took.Seconds(),
	}
	for _, one := range r.Results {
		c := junitCase{Class: r.Profile, Name: one.Check + " " + one.Title, Time: one.Took.Seconds()}
		switch text := (&junitText{Message: one.Reason}); one.Verdict {
		case Fails:
			text.Text = fmt.Sprintf("%s: %s\nright: %s\ncure: %s", one.Strength, source(one.Rows), one.Right, one.Cure)
			c.Failure = text
		case NotJudged, NotApplicable:
			c.Skipped = text
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	return cmp.Or(e.Encode(suite), e.Close())
}

//go:embed report.html
var reportText string

var reportTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"source": source}).Parse(reportText))
})

// WriteHTML writes the report as a page of its own, with what was sent and what came.
func (r *Report) WriteHTML(w io.Writer) error { return reportTemplate().Execute(w, r) }

// badgeColors are those of the verdict.
var badgeColors = map[bool]string{true: "#2f7d4f", false: "#b3403a"}

// Badge returns an SVG image that names the profile, the number of checks that hold of those that
// were decided, and the version of the kit.
func (r *Report) Badge() string {
	holds := r.Count(Holds, "")
	left := "conform " + string(r.Role)
	right := fmt.Sprintf("%s: %d of %d, kit %s", r.Profile, holds, holds+r.Count(Fails, ""), r.Kit)
	const char, pad = 6.6, 10
	escape := template.HTMLEscapeString
	w1, w2 := pad*2+char*float64(len(left)), pad*2+char*float64(len(right))
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="20" role="img" aria-label="%s">`+
		`<title>%s</title><rect width="%.0f" height="20" rx="3" fill="#444"/>`+
		`<rect x="%.0f" width="%.0f" height="20" rx="3" fill="%s"/>`+
		`<g fill="#fff" font-family="Verdana,sans-serif" font-size="11"><text x="%d" y="14">%s</text>`+
		`<text x="%.0f" y="14">%s</text></g></svg>`+"\n",
		w1+w2, escape(left+", "+right), escape(left+", "+right), w1+4, w1, w2, badgeColors[r.Conforms()],
		pad, escape(left), w1+pad, escape(right))
}
