package preset

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/producer"
)

// numbers are those that a sample makes.
var numbers = regexp.MustCompile(`\d{9,}`)

// TestSummariesOfSamples compares the lines of all samples with testdata/summaries.txt, which
// -update writes.
func TestSummariesOfSamples(t *testing.T) {
	t.Parallel()
	all := sampleSettings(t)
	var b strings.Builder
	for _, p := range All() {
		made := p.Open(all[p.Name])
		if len(made.Summary) == 0 {
			continue
		}
		for _, kind := range p.Types() {
			r, body, err := p.Sample(all[p.Name], testHook, kind, "", testNow)
			if err != nil {
				t.Fatal(err)
			}
			items, _, err := receive(made, r, body, testNow.Add(time.Second))
			if err != nil || len(items) != 1 {
				t.Fatalf("%s %s: %v, %v", p.Name, kind, items, err)
			}
			line := numbers.ReplaceAllString(producer.Summarize(&made, r.Header, items[0].Body), "N")
			b.WriteString(strings.TrimRight(fmt.Sprintf("%s %s: %s", p.Name, kind, line), " ") + "\n")
		}
	}
	const file = "testdata/summaries.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if diff := cmp.Diff(string(want), b.String()); err != nil || diff != "" {
		t.Errorf("-want +got: %s (%v)", diff, err)
	}
}
