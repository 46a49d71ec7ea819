package inspect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
)

// refusedList is a source with fixed deliveries, the newest first.
type refusedList []RefusedDetail

// Refused implements [RefusedSource].
func (l refusedList) Refused() (all []Refused) {
	for _, d := range l {
		all = append(all, d.Refused)
	}
	return all
}

// RefusedDetail implements [RefusedSource].
func (l refusedList) RefusedDetail(number uint64) (RefusedDetail, bool) {
	for _, d := range l {
		if d.Number == number {
			return d, true
		}
	}
	return RefusedDetail{}, false
}

func refusedDeliveries() refusedList {
	at := time.Now().UTC()
	return refusedList{
		{Refused: Refused{
			Number: 9, Time: at, Endpoint: "shop", Status: 401, Code: "signature_mismatch", Method: "POST",
			Target: "/webhooks/shop?a=b", Size: 3, More: 7, Why: "a\nb",
		},
			URL: "https://hooks.example/webhooks/shop?a=b", Host: "hooks.example", BodyRead: "whole", Declared: 3,
			Kept: 3, Header: http.Header{"X-A": {"1", "2"}, "Content-Type": {"text/plain"}},
			Base64: []byte("a\x00\xff"), Response: &Response{Status: 401}},
		{Refused: Refused{Number: 8, Time: at.Add(-2 * time.Hour), Status: 404, Code: "not_found", Method: "POST",
			Target: "/shop", Size: -1}, BodyRead: "unread", Declared: -1, Response: &Response{Status: 404}},
		{Refused: Refused{Number: 3, Time: at, Endpoint: "shop", Status: 400, Code: "key_missing", Method: "PO ST",
			Target: "/webhooks/shop"}, Response: &Response{Status: 400}},
	}
}

func get(t *testing.T, target string) (status int, body string, header http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	RefusedAPI(refusedDeliveries()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, http.NoBody))
	return w.Code, w.Body.String(), w.Header()
}

func TestRefusedDeliveriesAreListed(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"": "9 8 3 ", "?endpoint=shop": "9 3 ", "?code=not_found": "8 ", "?since=1h": "9 3 ", "?before=9": "8 3 ",
		"?since=1d": "9 8 3 ", "?limit=1": "9 ", "?limit=0": "9 8 3 ", "?endpoint=x": "",
		"?endpoint=shop&before=9": "3 ",
	} {
		status, body, header := get(t, "/refused"+query)
		numbers := ""
		for line := range strings.Lines(body) {
			var d struct{ Number json.Number }
			if err := json.Unmarshal([]byte(line), &d); err != nil {
				t.Fatal(err)
			}
			numbers += d.Number.String() + " "
		}
		if status != 200 || numbers != want || header.Get("Content-Type") != NDJSON {
			t.Errorf("%s: %d, %q, want %q", query, status, numbers, want)
		}
	}
}

func TestRefusedDeliveriesThatAreNotThere(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]int{
		"/refused/-1": 400, "/refused/x": 400, "/refused/1e3": 400, "/refused/18446744073709551616": 400,
		"/refused/9.htm": 400, "/refused/.http": 400, "/refused/-1.http": 400,
		"/refused/7": 404, "/refused/0": 404, "/refused/10.http": 404, "/refused/9/raw": 404,
		"/refused/3.http": 409, // not a request of HTTP/1.1
		"/refused?x=1":    400, "/refused?limit=-1": 400, "/refused?before=-1": 400, "/refused?since=1": 400,
		"/refused?since=-1h": 400, "/refused?limit=1&limit=2": 400,
	} {
		status, body, header := get(t, target)
		problem := struct{ Status int }{want} // the last path is the router's
		_ = json.Unmarshal([]byte(body), &problem)
		if status != want || problem.Status != want || header.Get("Content-Type") == "application/json" {
			t.Errorf("%s: %d, %s", target, status, body)
		}
	}
}

func TestARefusedDeliveryBecomesAFile(t *testing.T) {
	t.Parallel()
	status, body, header := get(t, "/refused/9.http")
	if status != 200 || header.Get("Content-Disposition") != "attachment; filename=refused-9.http" ||
		header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d, %v", status, header)
	}
	rec, err := httpfile.Parse("x", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if rec.Method != "POST" || rec.Target != "/webhooks/shop?a=b" || string(rec.Body) != "a\x00\xff" ||
		rec.Host() != "hooks.example" || len(rec.Header()["X-A"]) != 2 {
		t.Errorf("%+v", rec)
	}
	for note, want := range map[string]string{
		"producer": "shop", "refused": "9", "code": "signature_mismatch", "why": "a b", "status": "401",
		"body": "whole", "url": "https://hooks.example/webhooks/shop?a=b", "read": "3", "kept": "3",
		"peer": "", "sha256": "",
	} {
		if got := rec.Note(note); got != want {
			t.Errorf("note %s: %q, want %q", note, got, want)
		}
	}
	// A file that was cut is another request or an error, never a panic.
	for n := range len(body) {
		cut, err := httpfile.Parse("x", []byte(body[:n]))
		if err == nil && !strings.HasPrefix(string(rec.Body), string(cut.Body)) {
			t.Errorf("cut after %d bytes: the body is %q", n, cut.Body)
		}
	}
}
