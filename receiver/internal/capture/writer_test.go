package capture

import (
	"net/http"
	"strings"
	"testing"
)

func TestTheFirstHeaderCounts(t *testing.T) {
	t.Parallel()
	w := New(10)
	w.Header().Set("A", "1")
	w.WriteHeader(http.StatusEarlyHints)
	w.WriteHeader(http.StatusTeapot)
	w.WriteHeader(http.StatusOK)
	w.Header().Set("A", "2")
	status, header, body, err := w.Result()
	if status != 418 || header.Get("A") != "1" || len(body) != 0 || err != nil {
		t.Errorf("%d %v %q %v", status, header, body, err)
	}
}

func TestNothingWrittenHasNoStatus(t *testing.T) {
	t.Parallel()
	w := New(10)
	w.Header().Set("A", "1")
	status, header, _, err := w.Result()
	if status != 0 || header.Get("A") != "1" || header.Get("Content-Type") != "" || err != nil {
		t.Errorf("%d %v %v", status, header, err)
	}
}

func TestABodyBeyondTheLimitFails(t *testing.T) {
	t.Parallel()
	for size, fails := range map[int]bool{9: false, 10: false, 11: true} {
		w := New(10)
		_, _ = w.Write([]byte("a"))
		n, err := w.Write([]byte(strings.Repeat("b", size-1)))
		if (err != nil) != fails || (n == 0) != fails {
			t.Errorf("%d bytes: %d, %v", size, n, err)
		}
		if _, again := w.Write(nil); (again != nil) != fails {
			t.Errorf("%d bytes, then nothing: %v", size, again)
		}
		if _, _, body, err := w.Result(); (err != nil) != fails || !fails && len(body) != size {
			t.Errorf("%d bytes: %d, %v", size, len(body), err)
		}
	}
}
