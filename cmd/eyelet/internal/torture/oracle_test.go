package torture

import (
	"path/filepath"
	"testing"
)

func TestACutLineOfEffectsIsIgnored(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "effects.log")
	for _, text := range []string{"first e1 id1 aa" + lineEnd + "\nsecond e1 id1 a", "second e1 id1 aa" + lineEnd +
		"\n"} {
		file, err := openEffects(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	log, err := readEffects(path)
	if err != nil || log.lines != 2 || len(log.of["first id1"]) != 1 || len(log.of["second id1"]) != 1 {
		t.Errorf("%+v, %v", log, err)
	}
}
