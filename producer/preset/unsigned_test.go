package preset

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
)

// A payload that was recorded has the time and the signature of its delivery in it.
func TestARecordedPayloadIsSignedAfresh(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from producer.Producer
		body string
		keep []string // texts of the payload that stay
	}{
		{With("linear", "lin_wh_a_long_secret"), `{"type":"Issue","webhookId":"w","webhookTimestamp":1700000000000,` +
			`"n": 1.50}`,
			[]string{`"n":1.50`, `"webhookId":"w"`}},
		{With("linear", "lin_wh_a_long_secret"), `{ "type": "Issue", "webhookId": "w" }`,
			[]string{`"type": "Issue", "webhookId": "w" }`}},
		{With("linear", "lin_wh_a_long_secret"), ` {}`, nil},
		{With("mailgun", "a long enough key"), `{"signature":{"timestamp":"1700000000","token":"t","signature":"s"},` +
			`"event-data":{"id":"e","event":"opened"}}`,
			[]string{`"event-data":{"id":"e","event":"opened"}`}},
		{With("mailgun", "a long enough key"), `{"event-data":{"id":"e","event":"opened"}}`, nil},
		{With("adyen", testHex), `{"notificationItems":[{"NotificationRequestItem":{` +
			`"additionalData":{"issuer":"b","hmacSignature":"old"},` +
			`"pspReference":"p","amount":{"value":1,"currency":"EUR"},"eventCode":"CAPTURE","success":"true"}}]}`,
			[]string{`"issuer":"b"`}},
	} {
		r, body, err := Unsigned{URL: testHook, Body: []byte(tt.body)}.SignedBy(tt.from, testNow)
		if err != nil {
			t.Errorf("%s %s: %v", tt.from.Name, tt.body, err)
			continue
		}
		if _, _, err := receive(tt.from, r, body, testNow); err != nil || !json.Valid(body) {
			t.Errorf("%s: %s is refused: %v", tt.from.Name, body, err)
		}
		for _, text := range tt.keep {
			if !strings.Contains(string(body), text) {
				t.Errorf("%s: %s has no %s", tt.from.Name, body, text)
			}
		}
	}
	r, _ := http.NewRequest(http.MethodPost, testHook, nil)
	for _, body := range []string{"", "[1]", `{"id":"there"}`, `{"id"`} {
		if got := Place(r, []byte(body), producer.JSON("id"), "new"); string(got) != body {
			t.Errorf("%s became %s", body, got)
		}
	}
}
