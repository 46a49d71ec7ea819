package interop_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/conform"
)

const reportPage = "../docs/dev/implementation-report.md"

const reportHead = `# Implementation report

In the form of RFC 7942, for draft-ietf-httpapi-idempotency-key-header-07 and
draft-mayankpanke-event-delivery-semantics-01, written by ` + "`go test -C interop -run EyeletConforms . -update`" + `.

- **Implementation**: Eyelet, as consumer and intermediary, by its authors. **Licence**: Apache-2.0.
- **Maturity**: tested, with kills and power cuts; not released.
- **Coverage**: numbers are those of [requirements](requirements.md) and of ` + "`eyelet conform`" + `.

Document | Holds | Fails | Not judged
---|---|---|---
`

const reportEnd = `
## Experience, for the authors of the Idempotency-Key draft

**Issue 46, a marker of repeated responses**: ` + "`Idempotency-Replayed: true`" + ` with each. Status and body are those of the
first time: only this field says that the request did not run twice. A status of its own would change what
clients do.

**Issue 51, what is stored**: responses of success, and failures that no retry mends. After 408, 425, 429, 5xx or a handler
that was stopped the key is free again: otherwise a retry gets the old failure for the whole window. A 422 for another
payload changes nothing that is stored.

**Issue 51, a request in flight**: a duplicate waits for the first response, by default two seconds, and then gets 409
with Retry-After. Clients that take any 4xx for final stop there, as section 9.2.3 of the other draft does: 409
should be called transient.

**Also**: the scope of a key should be the authenticated client and the endpoint, or anyone can ask for responses.
Receivers differ most on keys without quotes.
`

// checkReport compares the implementation report with a run, or writes it.
func checkReport(t *testing.T, all []*conform.Report) {
	t.Helper()
	text := reportHead
	for _, document := range []string{"idempotency-key", "event-delivery"} {
		text += fmt.Sprintf("%s | %s\n", document, strings.Join(coverage(all, document), " | "))
	}
	text += reportEnd
	if *update {
		if err := os.WriteFile(reportPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	written, err := os.ReadFile(reportPage)
	if err != nil || string(written) != text {
		t.Errorf("%s is not that of this run, which -update writes: %v\n%s", reportPage, err, text)
	}
}

// coverage returns the numbers of a document's requirements that hold, fail, and are not judged.
func coverage(all []*conform.Report, document string) []string {
	verdicts := map[string]conform.Verdict{}
	weight := map[conform.Verdict]int{conform.NotJudged: 1, conform.Holds: 2, conform.Fails: 3}
	for _, r := range all {
		for _, one := range r.Results {
			for _, row := range one.Rows {
				if row.Document == document && weight[one.Verdict] > weight[verdicts[row.Number]] {
					verdicts[row.Number] = one.Verdict
				}
			}
		}
	}
	var columns []string
	for _, v := range []conform.Verdict{conform.Holds, conform.Fails, conform.NotJudged} {
		var numbers []string
		for number, got := range verdicts {
			if got == v {
				numbers = append(numbers, number)
			}
		}
		slices.Sort(numbers)
		columns = append(columns, strings.Join(numbers, ", "))
	}
	return columns
}
