package receiver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestStartingReceiverAnswers503(t *testing.T) {
	t.Parallel()
	h := Starting(Config{URL: "https://hooks.example", RetryAfter: 10 * time.Second})
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodPost, "/webhooks/shop", strings.NewReader("{}")),
		httptest.NewRequest(http.MethodGet, "/policy", http.NoBody),
		httptest.NewRequest(http.MethodDelete, "/nowhere", http.NoBody),
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		after, err := strconv.Atoi(w.Header().Get("Retry-After"))
		if w.Code != http.StatusServiceUnavailable || err != nil || after < 5 || after > 15 {
			t.Errorf("%s %s: status %d, Retry-After %q", r.Method, r.URL, w.Code, w.Header().Get("Retry-After"))
		}
		var problem struct{ Type, Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || problem.Code != "starting" ||
			problem.Type != "https://hooks.example/policy#starting" {
			t.Errorf("%s %s: %v, %s", r.Method, r.URL, err, w.Body)
		}
		if rest, err := r.Body.Read(make([]byte, 9)); r.Method == http.MethodPost && rest != 2 {
			t.Errorf("the body was read: %d bytes are left, %v", rest, err)
		}
	}
}
