package opsclient

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/inspect"
)

// maxRaw bounds an exported delivery, in bytes: the largest body of a preset, and the head.
const maxRaw = 64 << 20

func eventPath(event string) string { return "/events/" + url.PathEscape(event) }

// Each calls a function for each event of a list, with its line of JSON.
func (c *Client) Each(ctx context.Context, q url.Values, do func(line []byte, e inspect.Event) error) error {
	res, err := c.get(ctx, "/events?"+q.Encode())
	if err != nil {
		return err
	}
	defer drain(res)
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			inspect.Event
			Error string `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return errors.New("the response of the server is not a list of events")
		}
		if line.Error != "" {
			return fmt.Errorf("the list is not complete: %s", line.Error)
		}
		if err := do(lines.Bytes(), line.Event); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the list is not complete: %w", err)
	}
	return nil
}

// Event returns an event, and its JSON as received.
func (c *Client) Event(ctx context.Context, event string) (d inspect.Detail, text []byte, err error) {
	res, err := c.get(ctx, eventPath(event))
	if err != nil {
		return d, nil, err
	}
	defer drain(res)
	if text, err = io.ReadAll(res.Body); err != nil {
		return d, nil, fmt.Errorf("the response was cut: %w", err)
	}
	if json.Unmarshal(text, &d) != nil {
		return d, nil, errors.New("the response of the server is not an event")
	}
	return d, text, nil
}

// Change requests a change of one event. path follows /events/EVENT; body is JSON or empty.
func (c *Client) Change(ctx context.Context, event, method, path string, body []byte) error {
	return c.send(ctx, method, eventPath(event)+path, body)
}

// Raw returns the delivery of an event as an *.http file.
func (c *Client) Raw(ctx context.Context, event string) ([]byte, error) {
	res, err := c.get(ctx, eventPath(event)+"/raw")
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
