package verify

import (
	"errors"
	"net/http"
	"testing"
)

// brokenEngine fails on every request.
type brokenEngine struct{}

func (brokenEngine) verify(string, *http.Request) error { return errBroken }

func TestEngineFailureIsMalformed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	s.scheme = &RFC9421{Keys: StaticKeys(Key{ID: "k", Alg: HMACSHA256, material: &material{
		alg: HMACSHA256, check: func(_, _ []byte) bool { return true }, engine: brokenEngine{},
	}})}
	_, err := s.verify()
	wantCode(t, err, SignatureMalformed)
	if err := (httpsignEngine{}).verify("x", &http.Request{}); !errors.Is(err, errBroken) { // panics inside
		t.Errorf("got %v", err)
	}
}
