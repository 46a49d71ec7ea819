package opsclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/inspect"
)

// maxRaw bounds an exported delivery, in bytes: the largest body of a preset, and the head.
const maxRaw = 64 << 20

func eventPath(event string) string { return "/events/" + url.PathEscape(event) }

// Each calls a function for each event of a list, with its line of JSON. It returns how far a list
// with text looked; nil without text.
func (c *Client) Each(ctx context.Context, q url.Values, do func(line []byte, e inspect.Event) error) (
	*inspect.Searched, error) {
	return each(ctx, c, "/events?"+q.Encode(), do)
}

// EachRefused calls a function for each refused delivery of a list, with its line of JSON.
func (c *Client) EachRefused(ctx context.Context, q url.Values,
	do func(line []byte, d inspect.Refused) error) error {
	_, err := each(ctx, c, "/refused?"+q.Encode(), do)
	return err
}

// each calls a function for each line of a list, as JSON and decoded. It returns how far a list
// with text looked.
func each[T any](ctx context.Context, c *Client, path string, do func(line []byte, v T) error) (
	*inspect.Searched, error) {
	res, err := c.get(ctx, path)
	if err != nil {
		return nil, err
	}
	defer drain(res)
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if end, ok := endOf(lines.Bytes()); ok {
			if end.Searched == nil {
				return nil, fmt.Errorf("the list is not complete: %s", end.Error)
			}
			return end.Searched, nil
		}
		var v T
		if json.Unmarshal(lines.Bytes(), &v) != nil {
			return nil, errors.New("the response of the server is not a list")
		}
		if err := do(lines.Bytes(), v); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("the list is not complete: %w", err)
	}
	return nil, nil
}

// listEnd is the last line of some lists.
type listEnd struct {
	Error    string            `json:"error"`
	Searched *inspect.Searched `json:"searched"`
}

// endOf returns the end of a list, and whether the line is one.
func endOf(line []byte) (end listEnd, ok bool) {
	ok = bytes.HasPrefix(line, []byte(`{"error":`)) || bytes.HasPrefix(line, []byte(`{"searched":`))
	if ok {
		ok = json.Unmarshal(line, &end) == nil
	}
	return end, ok
}

// Event returns an event, and its JSON as received.
func (c *Client) Event(ctx context.Context, event string) (d inspect.Detail, text []byte, err error) {
	return one[inspect.Detail](ctx, c, http.MethodGet, eventPath(event))
}

// Refused returns a refused delivery, and its JSON as received.
func (c *Client) Refused(ctx context.Context, number uint64) (d inspect.RefusedDetail, text []byte, err error) {
	return one[inspect.RefusedDetail](ctx, c, http.MethodGet, refusedPath(number))
}

// ExplainRefused returns why a delivery was refused, as the server finds out.
func (c *Client) ExplainRefused(ctx context.Context, number uint64) (explain.Report, error) {
	return fetch[explain.Report](ctx, c, http.MethodGet, refusedPath(number)+"/explain")
}

func refusedPath(number uint64) string { return "/refused/" + strconv.FormatUint(number, 10) }

// one returns a response, decoded and as received.
func one[T any](ctx context.Context, c *Client, method, path string) (v T, text []byte, err error) {
	res, err := c.call(ctx, method, path, nil)
	if err != nil {
		return v, nil, err
	}
	defer drain(res)
	if text, err = io.ReadAll(res.Body); err != nil {
		return v, nil, fmt.Errorf("the response was cut: %w", err)
	}
	if json.Unmarshal(text, &v) != nil {
		return v, nil, errors.New("the response of the server cannot be read")
	}
	return v, text, nil
}

// Job lets the server change events, or list them in a dry run, and calls do for each line until
// the job ends. An error of do ends the job.
func (c *Client) Job(ctx context.Context, order inspect.JobRequest, do func(inspect.JobLine) error) error {
	body, err := json.Marshal(order)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	res, err := c.call(ctx, http.MethodPost, "/jobs", body)
	if err != nil {
		cancel()
		return err
	}
	defer drain(res)
	defer cancel() // before that: a job that is left ends
	lines := json.NewDecoder(res.Body)
	for {
		var line inspect.JobLine
		switch err := lines.Decode(&line); {
		case err != nil:
			return fmt.Errorf("the job was cut off: %w", err)
		case line.Ended == nil:
			if err := do(line); err != nil {
				return err
			}
		case line.Ended.Error != "":
			return errors.New(line.Ended.Error)
		default:
			return nil
		}
	}
}

// Raw returns the delivery of an event as an *.http file.
func (c *Client) Raw(ctx context.Context, event string) ([]byte, error) {
	return c.file(ctx, eventPath(event)+"/raw")
}

// RawRefused returns a refused delivery as an *.http file.
func (c *Client) RawRefused(ctx context.Context, number uint64) ([]byte, error) {
	return c.file(ctx, refusedPath(number)+".http")
}

// Text returns what the server answers at a path.
func (c *Client) Text(ctx context.Context, path string) (string, error) {
	text, err := c.file(ctx, path)
	return string(text), err
}

func (c *Client) file(ctx context.Context, path string) ([]byte, error) {
	res, err := c.get(ctx, path)
	if err != nil {
		return nil, err
	}
	defer drain(res)
	data, err := io.ReadAll(io.LimitReader(res.Body, maxRaw+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the response was cut: %w", err)
	case len(data) > maxRaw:
		return nil, &Refusal{http.StatusOK, "it is larger than 64 MiB"}
	}
	return data, nil
}

// Tail calls do for each entry, with its line of JSON, until do returns false or the server ends.
func (c *Client) Tail(ctx context.Context, do func(line []byte, e opsapi.TailEntry) (more bool, err error)) error {
	res, err := c.get(ctx, "/tail")
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // the stream has no end to read to
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue // a heartbeat
		}
		var e opsapi.TailEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return errors.New("the response of the server is not a tail")
		}
		if more, err := do(lines.Bytes(), e); err != nil || !more {
			return err
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the server is gone: %w", err)
	}
	return nil
}
