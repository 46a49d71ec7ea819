// Package tracing sends the spans of a receiver to a collector: OTLP over HTTP.
package tracing

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/httpserver"
	"github.com/eyelet-dev/eyelet/verify"
)

// Options say where spans go.
type Options struct {
	// Endpoint is the base URL of the collector, to which /v1/traces is added. The environment
	// decides if it is empty.
	Endpoint string
	// Bearer is the token for Endpoint. May be empty.
	Bearer verify.Secret
	// Sample is the share of deliveries with spans, over 0 and up to 1. 0 lets the environment
	// decide, which defaults to 1.
	Sample float64
}

// defaultTimeout is that of one request (OpenTelemetry, OTLP exporter configuration).
const defaultTimeout = 10 * time.Second

// destination is the collector with what the environment says about it.
type destination struct {
	url     *url.URL
	header  http.Header
	timeout time.Duration
}

// Check returns what is wrong with the options or the environment.
func (o Options) Check() error {
	_, err := o.destination()
	return err
}

// destination returns nil if tracing is off. It reads the variables OTEL_SDK_DISABLED,
// OTEL_TRACES_EXPORTER, and OTEL_EXPORTER_OTLP_ followed by ENDPOINT, HEADERS, TIMEOUT and
// PROTOCOL, and these for traces only (OpenTelemetry specification, environment variables). The SDK
// reads those of the sampler, the resource and the batches.
func (o Options) destination() (*destination, error) {
	if o.Bearer != "" && o.Endpoint == "" {
		return nil, errors.New("bearer without endpoint: write both, or use OTEL_EXPORTER_OTLP_HEADERS")
	}
	exporter := cmp.Or(os.Getenv("OTEL_TRACES_EXPORTER"), "otlp")
	at := cmp.Or(o.Endpoint, os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if at == "" || exporter == "none" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil //nolint:nilnil // off
	}
	if exporter != "otlp" {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q, and there is only otlp", exporter)
	}
	protocol, name := variable("PROTOCOL")
	if protocol != "" && protocol != "http/protobuf" && protocol != "http/json" {
		return nil, fmt.Errorf("%s is %q, and spans are sent over HTTP: write http/protobuf, and the collector's "+
			"port for HTTP, usually 4318, in the endpoint", name, protocol)
	}
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the collector is not an http or https URL, such as http://localhost:4318")
	}
	if o.Bearer != "" && u.Scheme == "http" && !httpserver.IsLoopback(net.JoinHostPort(u.Hostname(), "1")) {
		return nil, errors.New("bearer would be sent without TLS: write an https endpoint")
	}
	if o.Endpoint != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		u = u.JoinPath("v1/traces")
	}
	to := &destination{url: u, timeout: defaultTimeout}
	text, name := variable("TIMEOUT")
	if text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil || ms == 0 {
			return nil, fmt.Errorf("%s is %q, want milliseconds", name, text)
		}
		to.timeout = time.Duration(ms) * time.Millisecond
	}
	text, name = variable("HEADERS")
	if to.header, err = parseHeaders(text); err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	if o.Bearer != "" {
		to.header.Set("Authorization", "Bearer "+string(o.Bearer))
	}
	return to, nil
}

// variable returns a setting of the exporter and the name of its variable.
func variable(setting string) (value, name string) {
	for _, name = range []string{"OTEL_EXPORTER_OTLP_TRACES_" + setting, "OTEL_EXPORTER_OTLP_" + setting} {
		if value = os.Getenv(name); value != "" {
			break
		}
	}
	return value, name
}

// parseHeaders parses name=value,name=value, where values are percent-encoded. Its errors have no
// value, which may be a secret.
func parseHeaders(text string) (http.Header, error) {
	h := http.Header{}
	for i, pair := range strings.Split(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || err != nil || !verify.IsToken(name) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("has a malformed field, number %d: write name=value,name=value", i+1)
		}
		h.Set(name, value)
	}
	return h, nil
}
