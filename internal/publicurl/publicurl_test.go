package publicurl

import (
	"net/url"
	"testing"
)

func TestThePublicURLHasTheOctetsOfBoth(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ base, called, want string }{
		{"https://hooks.example", "http://127.0.0.1:1/in?a=%2F", "https://hooks.example/in?a=%2F"},
		{"https://hooks.example/pre/", "http://127.0.0.1:1/in", "https://hooks.example/pre/in"},
		{"https://hooks.example/a%2Fb", "http://127.0.0.1:1/%2e%2E/c%20d", "https://hooks.example/a%2Fb/%2e%2E/c%20d"},
		{"https://hooks.example/a%2F", "http://127.0.0.1:1/b", "https://hooks.example/a%2F/b"},
		{"https://hooks.example/a b", "http://127.0.0.1:1/c%2Fd", "https://hooks.example/a%20b/c%2Fd"},
	} {
		base, err1 := url.Parse(tt.base)
		called, err2 := url.Parse(tt.called)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got := Of(base, called).String(); got != tt.want {
			t.Errorf("%s of %s is %s, want %s", tt.called, tt.base, got, tt.want)
		}
	}
}
