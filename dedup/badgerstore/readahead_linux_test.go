package badgerstore

import (
	"os"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
)

func TestReadaheadOfTheLogsIsDisabled(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	mustClaim(t, s, claimOf("a"), dedup.New)
	badgerfile.NewReadahead(s.dir).DisableNew()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	inLog, advised := false, 0
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.Contains(line, s.dir):
			inLog = strings.Contains(line, ".mem") || strings.Contains(line, ".vlog")
		case inLog && strings.HasPrefix(line, "VmFlags:"):
			if inLog = false; strings.Contains(line, " rr") {
				advised++
			} else {
				t.Errorf("a log is mapped with %s", line)
			}
		}
	}
	if advised < 2 {
		t.Errorf("%d logs are advised on, want that of the memory table and the value log", advised)
	}
}
