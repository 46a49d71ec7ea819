package producer

import (
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

func TestPingMistakes(t *testing.T) {
	t.Parallel()
	for ping, want := range map[string]string{
		"GET": "", "HEAD": "", "form:webhook_id": "", "header:X-Event-Key=diagnostics:ping": "", "json:a=b=c": "",
		"POST": `"POST" is neither`, "ping": `"ping" is neither`, "const:a": `"const:a" is neither`,
		"digest:body": `"digest:body" is neither`, "": `"" is neither`, "header:a b=c": "is neither",
	} {
		p := Producer{Name: "x", Scheme: verify.BearerToken("kettle"), Key: BodyDigest(), Pings: []string{ping}}
		got := ""
		if errs := p.Check(); len(errs) > 0 {
			got = errs[0].Error()
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", ping, got, want)
		}
		p.Methods = []string{"POST", "GET"}
		if errs := p.Check(); ping == "GET" && len(errs) != 1 {
			t.Errorf("GET as both: %v", errs)
		}
	}
}
