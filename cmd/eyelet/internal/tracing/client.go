package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// client sends spans to a collector, as otlptracehttp does, which would add gRPC to the program.
// One call of UploadTraces runs at a time; meanwhile the SDK keeps as many spans as fit its queue,
// and drops the others.
type client struct {
	to      *destination
	http    *http.Client
	log     *slog.Logger
	failing bool
	ctx     context.Context // of all requests
	cancel  context.CancelFunc
}

func newClient(to *destination, log *slog.Logger) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	c := &client{to: to, log: log.With("collector", to.url.Host), http: &http.Client{
		Transport: transport, Timeout: to.timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Start implements [otlptrace.Client].
func (c *client) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements [otlptrace.Client]. Spans that cannot be sent are dropped, which is
// logged when it begins and when it ends.
func (c *client) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	// The same bytes as those of the request of OTLP, whose package needs gRPC.
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)() //nolint:contextcheck // it ends both
	for wait := time.Second; ; wait *= 2 {
		again, after, err := c.send(ctx, body)
		if err == nil {
			break
		}
		wait = max(wait, after)
		if again && pause(ctx, wait) {
			continue
		}
		if !c.failing {
			c.log.Warn("spans are dropped: the collector does not take them", "error", err)
		}
		c.failing = true
		return nil
	}
	if c.failing {
		c.log.Info("the collector takes spans again")
	}
	c.failing = false
	return nil
}

// pause waits, and reports whether there is time left then.
func pause(ctx context.Context, wait time.Duration) bool {
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
func (c *client) send(ctx context.Context, body []byte) (again bool, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.to.url.String(), bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	req.Header = c.to.header.Clone()
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "eyelet")
	res, err := c.http.Do(req)
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
		c.notePartial(text)
		return false, 0, nil
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusBadGateway ||
		res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusGatewayTimeout:
		seconds, _ := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16) // dates are ignored
		return true, time.Duration(seconds) * time.Second, fmt.Errorf("status %d", res.StatusCode)
	default:
		return false, 0, fmt.Errorf("status %d", res.StatusCode)
	}
}

// notePartial logs that the collector refused some of the spans: field 1 of field 1 of the response
// (OTLP, ExportTraceServiceResponse).
func (c *client) notePartial(response []byte) {
	partial, _ := protowire.ConsumeBytes(field1(response, protowire.BytesType))
	if n, _ := protowire.ConsumeVarint(field1(partial, protowire.VarintType)); n > 0 {
		c.log.Warn("the collector refused spans", "spans", n)
	}
}

// field1 returns a message from the value of its field 1 on, nil without one.
func field1(message []byte, want protowire.Type) []byte {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		if message = message[n:]; number == 1 && kind == want {
			return message
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil
		}
		message = message[n:]
	}
	return nil
}
