package wire

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
)

// TestEqualResponsesHaveEqualBytes: a store writes a response again when its bytes change.
func TestEqualResponsesHaveEqualBytes(t *testing.T) {
	t.Parallel()
	r := dedup.Response{Status: 201, Header: http.Header{}, Body: []byte("created")}
	for _, name := range []string{"A", "B", "C", "D", "E", "F"} {
		r.Header[name] = []string{name, "", name}
	}
	first := string(AppendResponse(nil, &r))
	for range 20 {
		if string(AppendResponse(nil, &r)) != first {
			t.Fatal("a response has different bytes")
		}
	}
	d := Decoder{S: first}
	if back := d.Response(); !d.Whole() || !reflect.DeepEqual(back, r) {
		t.Errorf("%+v, want %+v", back, r)
	}
}
