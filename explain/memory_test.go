//go:build !race

package explain

import (
	"runtime"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// TestARunMakesLittle gives a search of bodies with many values all the time it wants. It is not
// parallel, because it counts what is allocated.
func TestARunMakesLittle(t *testing.T) {
	p := preset.Stripe("whsec_live_live_live")
	for _, body := range []string{
		"{" + strings.Repeat(`"a":1,`, 80_000) + `"a":1}`, "[" + strings.Repeat("[],", 90_000) + "1]",
		`"` + strings.Repeat(`\"`, 1<<19) + `"`, "a=1&" + strings.Repeat("b=%20&", 1<<17),
	} {
		d := signedDelivery(t, p.Scheme, "stripe", "{}", body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := newSearch(t.Context(), []producer.Producer{p.WithDefaults()}, d)
		report := s.run()
		runtime.ReadMemStats(&after)
		made := after.TotalAlloc - before.TotalAlloc
		if most := uint64(2 * MaxHashed); made > most || s.hashed > MaxHashed+maxGrown*len(body) {
			t.Errorf("%.10s: %d MiB made and %d MiB counted in %d trials", body, made>>20, s.hashed>>20, report.Trials)
		}
	}
}
