package preset

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

// kettle is a vendor in the form of presets.yaml.
const kettle = `
kettle:
  docs: https://kettle.example/webhooks
  auth: HMAC-SHA256 of time and body
  id: body id
  key: json:id
  type: json:type
  window: 2d
  header: X-Kettle-Signature
  separator: ","
  pattern: ["t={timestamp}", "v1={sig}"]
  template: "{timestamp}.{body}"
  encoding: hex
`

func TestAVendorIsDescribedWithoutCode(t *testing.T) {
	t.Parallel()
	all, err := readPresets("kettle.yaml", []byte(kettle))
	if err != nil {
		t.Fatal(err)
	}
	made := all[0].Open(Settings{Secrets: []string{"spout-and-handle"}})
	if found := made.Check(); len(found) > 0 || made.Window != 2*day {
		t.Fatal(found, made.Window)
	}
	const body, at = `{"id":"1","type":"boiled"}`, "1764000000"
	mac := hmac.New(sha256.New, []byte("spout-and-handle"))
	mac.Write([]byte(at + "." + body))
	signed := hex.EncodeToString(mac.Sum(nil))
	for signature, good := range map[string]bool{signed: true, strings.Repeat("00", 32): false} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header.Set("X-Kettle-Signature", "t="+at+",v1="+signature)
		_, err := made.Scheme.Verify(r, func() ([]byte, error) { return []byte(body), nil })
		if (err == nil) != good {
			t.Errorf("%s: %v", signature, err)
		}
	}
}

// The code of a row is in the file that it names, and there is none without a row.
func TestTheCodeOfARowIsWhereItSays(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for row := range strings.SplitSeq(string(presetsText), "\n\n") {
		name := regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):$`).FindStringSubmatch(row)
		code := regexp.MustCompile(`(?m)^  code: (\S+)$`).FindStringSubmatch(row)
		if name == nil || code == nil {
			continue
		}
		files[name[1]] = code[1]
		text, err := os.ReadFile(code[1])
		if err != nil || !strings.Contains(string(text), `Name: "`+name[1]+`"`) {
			t.Errorf("%s: %s does not have it (%v)", name[1], code[1], err)
		}
	}
	for _, p := range coded() {
		if (p.Docs == "") != (files[p.Name] != "") {
			t.Errorf("%s has a row, or code that no row names", p.Name)
		}
	}
}

func TestMistakesInDescriptionsHaveTheirLine(t *testing.T) {
	t.Parallel()
	for mistake, want := range map[string]string{
		"  hedaer: X-Kettle":      `kettle.yaml:14: unknown setting "hedaer" in kettle`,
		"  event_time: at":        `kettle.yaml:14: kettle.event_time: extractor "at"`,
		"  timestamp_unit: weeks": "kettle.yaml:14: kettle.timestamp_unit is \"weeks\"",
		"  code: kettle.go":       "kettle.yaml:14: kettle.code: there is no such preset in Go",
		"  fingerprint: id":       `kettle.yaml:14: kettle.fingerprint: extractor "id"`,
		"  keyed_by_type: (":      "kettle.yaml:14: kettle.keyed_by_type: error parsing regexp",
		"  scheme: rfc9421":       "kettle.yaml:14: kettle has scheme rfc9421 and no alg",
		"  scheme: jwt":           "kettle.yaml:14: kettle.scheme is hmac, rfc9421, credential or bearer",
		"bowl: tea":               "kettle.yaml:14: bowl is a single value, want a mapping",
	} {
		_, err := readPresets("kettle.yaml", []byte(kettle+mistake+"\n"))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", mistake, err, want)
		}
	}
}

// A row of a user with the name of a bundled preset would have its code, which expects its row.
func TestACodeIsOfItsRowOnly(t *testing.T) {
	t.Parallel()
	own := strings.Replace(kettle, "kettle:", "zoom:", 1) + "  scheme: credential\n  code: zoom.go\n"
	if _, err := Read("own.yaml", []byte(own)); err == nil || !strings.Contains(err.Error(), "of a bundled preset") {
		t.Error(err)
	}
}
