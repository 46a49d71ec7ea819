package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxPage = 32 << 20 // bytes
	maxHeld = 8        // refusals by a limit in a row
)

// sendError is a request without an answer. Its text leaves out what is quoted of a malformed one.
type sendError struct {
	host string
	err  error
}

// Error implements error.
func (e *sendError) Error() string {
	text, _, _ := strings.Cut(e.err.Error(), ` "`)
	return e.host + ": " + strings.ToValidUTF8(text[:min(len(text), maxNext/4)], "")
}

// Unwrap returns the cause.
func (e *sendError) Unwrap() error { return e.err }

// statusError is an answer of the vendor that is not 2xx.
type statusError struct {
	host   string
	status int
}

// Error implements error.
func (e *statusError) Error() string {
	text := fmt.Sprintf("%s answers %d", e.host, e.status)
	if e.status/100 == 3 {
		text += ": redirects are not followed"
	} else if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
		text += ": the token is not valid there, or lacks a permission"
	}
	return text
}

// final reports whether the answer is about one page or sending, which is gone or cannot be sent.
func (e *statusError) final() bool {
	return slices.Contains([]int{400, 404, 409, 410, 422}, e.status)
}

// request sends a request with the token, and waits where the vendor limits them. Its errors quote
// neither the token nor what the vendor answered.
func (w *walk) request(ctx context.Context, method, address string) ([]byte, http.Header, error) {
	for held := 0; ; held++ {
		resp, page, err := w.send(ctx, method, address) //nolint:bodyclose // send has read and closed it
		if err != nil {
			return nil, nil, err
		}
		host := resp.Request.URL.Host
		if resp.StatusCode >= 200 && resp.StatusCode < 300 {
			return page, resp.Header, nil
		}
		wait := limit(resp, w.Clock())
		switch {
		case wait == 0:
			return nil, nil, &statusError{host, resp.StatusCode}
		case wait > maxPause || held == maxHeld:
			return nil, nil, &limitedError{host, wait}
		}
		if err := w.pause(ctx, wait); err != nil {
			return nil, nil, err
		}
	}
}

func (w *walk) send(ctx context.Context, method, address string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, nil, errors.New("the list has no usable address")
	}
	token, placed := string(w.source.Token), false
	for name, value := range w.source.Header {
		placed = placed || strings.Contains(value, "{token}")
		req.Header.Set(name, strings.ReplaceAll(value, "{token}", token))
	}
	if !placed {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "eyelet")
	}
	resp, err := w.Client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return nil, nil, &sendError{req.URL.Host, err}
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	page, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	switch {
	case err != nil:
		return nil, nil, &sendError{req.URL.Host, err}
	case len(page) > maxPage:
		return nil, nil, fmt.Errorf("%s: a page of more than %d bytes", req.URL.Host, maxPage)
	}
	resp.Request = req
	return resp, page, nil
}

// limit returns how long the vendor wants no request, 0 if the answer sets no limit. Retry-After is
// that of RFC 9110 section 10.2.3, X-RateLimit-Reset GitHub's, in seconds since 1970.
func limit(resp *http.Response, now time.Time) time.Duration {
	after, status := resp.Header.Get("Retry-After"), resp.StatusCode
	spent := resp.Header.Get("X-RateLimit-Remaining") == "0"
	limits := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable && after != "" ||
		status == http.StatusForbidden && (after != "" || spent)
	if !limits {
		return 0
	}
	wait := 30 * time.Second
	if seconds, err := strconv.Atoi(after); err == nil {
		wait = time.Duration(min(seconds, 24*60*60)) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		wait = at.Sub(now)
	} else if reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil && spent {
		wait = time.Unix(reset, 0).Sub(now)
	}
	return min(max(wait, time.Second), 24*time.Hour)
}

// pause waits, and keeps the comparison meanwhile.
func (w *walk) pause(ctx context.Context, d time.Duration) error {
	if err := w.save(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
