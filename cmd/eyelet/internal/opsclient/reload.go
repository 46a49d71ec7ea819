package opsclient

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
)

// Reload lets the server read its configuration again. A refused reload is not an error: the
// result has what is wrong.
func (c *Client) Reload(ctx context.Context, orphan bool) (result opsapi.Reload, err error) {
	res, err := c.do(ctx, http.MethodPost, "/reload?orphan="+strconv.FormatBool(orphan), nil)
	if err != nil {
		return result, err
	}
	defer drain(res)
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusUnprocessableEntity {
		return result, &Refusal{res.StatusCode, problemTitle(res)}
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 4<<20)).Decode(&result); err != nil {
		return result, fmt.Errorf("the response of the server cannot be read: %w", err)
	}
	return result, nil
}
