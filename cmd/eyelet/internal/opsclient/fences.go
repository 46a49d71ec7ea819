package opsclient

import (
	"context"
	"net/http"
	"net/url"

	"github.com/eyelet-dev/eyelet/inspect"
)

// EachFence calls a function for each fence of a producer, or for all if it is empty.
func (c *Client) EachFence(ctx context.Context, producer string, do func(inspect.Fence) error) error {
	_, err := each(ctx, c, "/fences?"+url.Values{"producer": {producer}}.Encode(),
		func(_ []byte, f inspect.Fence) error { return do(f) })
	return err
}

// ResetFences removes the fences with these ids, or those of a producer, and returns them.
func (c *Client) ResetFences(ctx context.Context, producer string, ids []string) ([]inspect.Fence, error) {
	q := url.Values{"id": ids}
	if producer != "" {
		q.Set("producer", producer)
	}
	removed, _, err := one[[]inspect.Fence](ctx, c, http.MethodDelete, "/fences?"+q.Encode())
	return removed, err
}
