package opsclient

import (
	"context"
	"net/http"

	"github.com/eyelet-dev/eyelet/inspect"
)

// Health returns the state of the receiver and its store.
func (c *Client) Health(ctx context.Context) (inspect.Health, error) {
	return fetch[inspect.Health](ctx, c, http.MethodGet, "/health")
}

// Producers returns the producers with what came from them since the server started.
func (c *Client) Producers(ctx context.Context) ([]inspect.ProducerState, error) {
	return fetch[[]inspect.ProducerState](ctx, c, http.MethodGet, "/producers")
}

// Series returns the time series of a step: 1m, 15m, 1h or 6h. The last point is of the present
// step, if the list is not empty.
func (c *Client) Series(ctx context.Context, step string) ([]inspect.Point, error) {
	return fetch[[]inspect.Point](ctx, c, http.MethodGet, "/series?step="+step)
}
