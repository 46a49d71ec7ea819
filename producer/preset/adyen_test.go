package preset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

const adyenKey = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00"

// adyenNotice is a notification with an item for each reference, with all signed members.
func adyenNotice(references ...string) string {
	var items []string
	for _, ref := range references {
		items = append(items,
			fmt.Sprintf(`{"NotificationRequestItem":{"pspReference":%q,"originalReference":"o1",`+
				`"merchantAccountCode":"acc",`+
				`"merchantReference":"m1","amount":{"value":1000,"currency":"EUR"},"eventCode":"CAPTURE","success":`+
				`"true","reason":"r1"}}`, ref))
	}
	return `{"live":"false","notificationItems":[` + strings.Join(items, ",") + `]}`
}

func TestAdyenRefusesAmbiguousNotifications(t *testing.T) {
	t.Parallel()
	scheme := newAdyenScheme(adyenKey)
	signed, err := scheme.SignBody(nil, []byte(adyenNotice("p1")), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	good := string(signed)
	_, item, _ := strings.Cut(good[:len(good)-2], "[")
	full, err := scheme.SignBody(nil, []byte(adyenNotice(slices.Repeat([]string{"p1"}, maxItems)...)), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	thousand := string(full)
	if _, err := scheme.Verify(nil, body(thousand)); err != nil {
		t.Errorf("a thousand items: %v", err)
	}
	for _, c := range []struct {
		name, body string
		want       verify.Code
	}{
		{"member twice", strings.Replace(good, `"success":`, `"success":"false","success":`, 1), verify.AmbiguousField},
		{"member twice in another case", strings.Replace(good, `"success":`, `"SUCCESS":"false","success":`, 1),
			verify.AmbiguousField},
		{"amount twice", strings.Replace(good, `"amount":`, `"amount":{},"amount":`, 1), verify.AmbiguousField},
		{"items twice", strings.Replace(good, `"notificationItems":`, `"notificationItems":[],"notificationItems":`, 1),
			verify.AmbiguousField},
		{"other members may differ in case", strings.Replace(good, `"reason":`, `"REASON":"x","reason":`, 1), ""},
		{"text after it", good + "{}", verify.EventMalformed},
		{"not an object", `[]`, verify.SignatureMissing},
		{"item that is not an object", `{"notificationItems":[17]}`, verify.SignatureMissing},
		{"item without its content", `{"notificationItems":[{}]}`, verify.SignatureMissing},
		{"object for text", strings.Replace(good, `"p1"`, `{"a":1}`, 1), verify.EventMalformed},
		{"not UTF-8", strings.Replace(good, `"p1"`, "\"p\xff\"", 1), verify.EventMalformed},
		{"a thousand and one items", thousand[:len(thousand)-2] + "," + item + "]}", verify.EventMalformed},
		{"member twice, once all in escapes", strings.Replace(good, `"pspReference":`,
			`"`+escaped("pspReference")+`":"x","pspReference":`, 1), verify.AmbiguousField},
		{"member in escapes", strings.Replace(good, `"pspReference":`, `"`+escaped("pspReference")+`":`, 1), ""},
		{"an empty name", strings.Replace(good, `"pspReference":`, `"":"x","pspReference":`, 1), ""},
		{"a long signed member", strings.Replace(good, `"p1"`, `"`+strings.Repeat("p", 1<<10)+`"`, 1),
			verify.EventMalformed},
		{"too many values", strings.Replace(good, `"r1"`, `[`+strings.Repeat("1,", maxItems*maxItemParts)+`1]`, 1),
			verify.EventMalformed},
		{"nested very deep", strings.Replace(good, `"r1"`, strings.Repeat("[", 70)+strings.Repeat("]", 70), 1),
			verify.EventMalformed},
		{"line break in the signature", strings.Replace(good, `="`, `=\n"`, 1), verify.SignatureMalformed},
	} {
		if _, err := scheme.Verify(nil, body(c.body)); verify.CodeOf(err) != c.want || err != nil && c.want == "" {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// The signed text is eight members joined by colons. If any member but merchantReference could
// contain a colon, one signature would fit several items.
func TestAdyenColonsCannotMoveBetweenMembers(t *testing.T) {
	t.Parallel()
	scheme := newAdyenScheme(adyenKey)
	item := func(psp, original, account, reference, event string) string {
		return fmt.Sprintf(`{"live":"false","notificationItems":[{"NotificationRequestItem":{"pspReference":%q,`+
			`"originalReference":%q,`+
			`"merchantAccountCode":%q,"merchantReference":%q,"amount":{"value":1000,"currency":"EUR"},"eventCode":`+
			`%q,"success":"true"}}]}`,
			psp, original, account, reference, event)
	}
	signed, err := scheme.SignBody(nil, []byte(item("PSP1", "", "Shop", "order:17", "CAPTURE")), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scheme.Verify(nil, body(string(signed))); err != nil {
		t.Errorf("a colon in merchantReference: %v", err)
	}
	_, sig, _ := strings.Cut(string(signed), `"hmacSignature":"`)
	sig, _, _ = strings.Cut(sig, `"`)
	for _, moved := range []string{
		item("PSP1:", "Shop", "order", "17", "CAPTURE"), item("PSP1", ":Shop", "order", "17", "CAPTURE"),
		item("PSP1", "", "Shop:order", "17", "CAPTURE"),
	} {
		moved = strings.Replace(moved, `"success"`, `"additionalData":{"hmacSignature":"`+sig+`"},"success"`, 1)
		if _, err := scheme.Verify(nil, body(moved)); verify.CodeOf(err) != verify.EventMalformed {
			t.Errorf("%s: got %v", moved, err)
		}
	}
}

func TestAdyenNamesTheKeyByPosition(t *testing.T) {
	t.Parallel()
	signed, err := newAdyenScheme(adyenKey).SignBody(nil, []byte(adyenNotice("p1", "p2")), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := newAdyenScheme("00ff", adyenKey).Verify(nil, body(string(signed)))
	if err != nil || id.Secret != 2 {
		t.Errorf("key %d, %v; want 2", id.Secret, err)
	}
}

func FuzzAdyen(f *testing.F) {
	scheme := newAdyenScheme(adyenKey)
	signed, err := scheme.SignBody(nil, []byte(adyenNotice("p1", "p2")), time.Time{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(signed))
	f.Add(adyenNotice("p1"))
	f.Add(`{"notificationItems":[{"NotificationRequestItem":{"amount":null,"additionalData":{"hmacSignature":` +
		`"AAAA"}}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := scheme.Verify(nil, body(text)); err != nil && verify.CodeOf(err) == "" {
			t.Fatalf("untyped error %v", err)
		}
	})
}

// escaped writes every letter of a name as an escape.
func escaped(name string) string {
	var b strings.Builder
	for i := range len(name) {
		fmt.Fprintf(&b, `\u%04x`, name[i])
	}
	return b.String()
}
