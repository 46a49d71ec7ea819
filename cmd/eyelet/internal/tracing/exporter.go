package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// exporter sends spans to a collector. One call of ExportSpans runs at a time; meanwhile the SDK
// keeps as many spans as fit its queue, and drops the others.
type exporter struct {
	to      *destination
	client  *http.Client
	log     *slog.Logger
	failing bool
	wait    time.Duration   // before the first repetition
	ctx     context.Context // of all requests
	cancel  context.CancelFunc
}

func newExporter(to *destination, log *slog.Logger) *exporter {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	e := &exporter{to: to, log: log, wait: time.Second, client: &http.Client{
		Transport: transport, Timeout: to.timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

func (d *destination) host() string {
	u, err := url.Parse(d.url)
	if err != nil {
		return ""
	}
	return u.Host
}

// ExportSpans implements [sdk.SpanExporter]. Spans that cannot be sent are dropped, which is logged
// when it begins and when it ends.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body, err := encode(spans)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)() //nolint:contextcheck // it ends both
	for wait := e.wait; ; wait *= 2 {
		again, after, err := e.send(ctx, body)
		if err == nil {
			break
		}
		wait = max(wait, after)
		if again && e.pause(ctx, wait) {
			continue
		}
		if !e.failing {
			e.log.Warn("spans are dropped: the collector does not take them", "collector", e.to.host(), "error", err)
		}
		e.failing = true
		return nil
	}
	if e.failing {
		e.log.Info("the collector takes spans again", "collector", e.to.host())
	}
	e.failing = false
	return nil
}

// pause waits, and reports whether there is time left then.
func (e *exporter) pause(ctx context.Context, wait time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// maxAnswer is the number of bytes of a response that are read.
const maxAnswer = 64 << 10

// send sends a request once. again says that it may be repeated, and after how long at least (OTLP
// specification, OTLP/HTTP response).
func (e *exporter) send(ctx context.Context, body []byte) (again bool, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.to.url, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	req.Header = e.to.header.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "eyelet")
	res, err := e.client.Do(req)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // without the URL, which may have a key
		}
		return true, 0, err
	}
	defer res.Body.Close()                                     //nolint:errcheck // it was read
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // the status decides
	switch {
	case res.StatusCode/100 == 2:
		e.notePartial(text)
		return false, 0, nil
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusBadGateway ||
		res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusGatewayTimeout:
		seconds, _ := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16) // dates are ignored
		return true, time.Duration(seconds) * time.Second, fmt.Errorf("status %d", res.StatusCode)
	default:
		return false, 0, fmt.Errorf("status %d", res.StatusCode)
	}
}

// notePartial logs that the collector refused some of the spans.
func (e *exporter) notePartial(text []byte) {
	var answer struct {
		PartialSuccess struct {
			RejectedSpans json.RawMessage `json:"rejectedSpans"` // text, or a number
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(text, &answer) != nil {
		return // not the JSON of OTLP
	}
	if n, _ := strconv.ParseInt(strings.Trim(string(answer.PartialSuccess.RejectedSpans), `"`), 10, 64); n > 0 {
		e.log.Warn("the collector refused spans", "collector", e.to.host(), "spans", n)
	}
}

// Shutdown implements [sdk.SpanExporter].
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}
