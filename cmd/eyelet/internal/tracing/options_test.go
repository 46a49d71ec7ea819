package tracing

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestTheEnvironmentSaysWhereSpansGo also looks for values, which may be secrets, in errors.
func TestTheEnvironmentSaysWhereSpansGo(t *testing.T) {
	const base, own = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	type vars map[string]string
	at := Options{Endpoint: "http://o"}
	for name, c := range map[string]struct {
		env       vars
		options   Options
		url, fail string
		header    string
		timeout   time.Duration
	}{
		"nothing":  {},
		"base":     {env: vars{base + "ENDPOINT": "http://c:4318/x/"}, url: "http://c:4318/x/v1/traces"},
		"own":      {env: vars{base + "ENDPOINT": "http://c", own + "ENDPOINT": "http://d/t"}, url: "http://d/t"},
		"options":  {env: vars{own + "ENDPOINT": "http://d/t"}, options: at, url: "http://o/v1/traces"},
		"disabled": {env: vars{"OTEL_SDK_DISABLED": "TRUE"}, options: at},
		"none":     {env: vars{"OTEL_TRACES_EXPORTER": "none"}, options: at},
		"console":  {env: vars{"OTEL_TRACES_EXPORTER": "console"}, options: at, fail: "console"},
		"headers": {
			env:     vars{base + "HEADERS": "a=x", own + "HEADERS": "X-Key=s%20t , ,b=c", own + "TIMEOUT": "250"},
			options: Options{Endpoint: "http://o", Bearer: "tok"}, url: "http://o/v1/traces",
			header:  "s t,c,Bearer tok",
			timeout: 250 * time.Millisecond,
		},
		"no value":  {env: vars{base + "HEADERS": "a=x,s3cret"}, options: at, fail: "number 2"},
		"two lines": {env: vars{base + "HEADERS": "a=s3cret%0d%0ab"}, options: at, fail: "number 1"},
		"timeout":   {env: vars{base + "TIMEOUT": "10s"}, options: at, fail: "milliseconds"},
		"grpc":      {env: vars{base + "PROTOCOL": "grpc"}, options: at, fail: "4318"},
		"no URL":    {env: vars{base + "ENDPOINT": "s3cret"}, fail: "not an http or https URL"},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			to, err := c.options.destination()
			if err != nil || c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("%v, want %q", err, c.fail)
				}
				return
			}
			if to == nil {
				to = &destination{url: &url.URL{}}
			}
			header := []string{to.header.Get("X-Key"), to.header.Get("b"), to.header.Get("Authorization")}
			if to.url.String() != c.url || c.header != "" && strings.Join(header, ",") != c.header ||
				c.timeout != 0 && to.timeout != c.timeout {
				t.Errorf("%+v", to)
			}
		})
	}
}
