package producer_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer/preset"
)

const (
	testHex    = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00"
	testWhsec  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	testSecret = "the-kettle-is-on-17"
	testToken  = "callback-token-17"
	testHook   = "https://hooks.example/webhooks/in"
)

var testNow = time.Unix(1_790_000_000, 0)

// presetSettings open each preset with shared secrets. The last of each list is another secret,
// for rotation.
func presetSettings() map[string]preset.Settings {
	text, err := os.ReadFile("preset/testdata/settings.json")
	var byNames map[string]preset.Settings
	if err := errors.Join(err, json.Unmarshal(text, &byNames)); err != nil {
		panic(err)
	}
	all := map[string]preset.Settings{}
	for names, s := range byNames {
		for name := range strings.FieldsSeq(names) {
			all[name] = s
		}
	}
	return all
}
