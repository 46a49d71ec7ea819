package campaign

import (
	"testing"
)

func TestACutLineOfEffectsIsIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, err := openRuns(dir)
	if err != nil {
		t.Fatal(err)
	}
	first := run{kind: kindEnd, handler: "first", event: "e1", vendor: "id 1", detail: "aa"}
	if err := log.write(first); err != nil {
		t.Fatal(err)
	}
	if _, err := log.file.WriteString("\nend second e1 \"id"); err != nil {
		t.Fatal(err)
	}
	second := first
	second.handler = "second"
	if err := log.write(second); err != nil {
		t.Fatal(err)
	}
	if err := log.file.Close(); err != nil {
		t.Fatal(err)
	}
	h := &Harness{Dir: dir}
	effects, err := h.readEffects(t.Context(), nil, func(run) {})
	if err != nil || effects.lines != 2 || len(effects.of["first id 1"]) != 1 || len(effects.of["second id 1"]) != 1 {
		t.Errorf("%+v, %v", effects, err)
	}
}
