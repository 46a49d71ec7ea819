package opsclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/reconcile"
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

// Reconcile lets the server compare the list of a producer, calls each with the progress and with
// the result, and returns that. Its Error is why the comparison stopped.
func (c *Client) Reconcile(
	ctx context.Context, producer, since, adoptBefore string, dryRun bool, each func(reconcile.Progress) error,
) (last reconcile.Progress, err error) {
	query := url.Values{"dry_run": {strconv.FormatBool(dryRun)}}
	for name, value := range map[string]string{"since": since, "adopt_before": adoptBefore} {
		if value != "" {
			query.Set(name, value)
		}
	}
	res, err := c.do(ctx, http.MethodPost, "/reconcile/"+url.PathEscape(producer)+"?"+query.Encode(), nil)
	if err != nil {
		return last, err
	}
	defer drain(res)
	if res.StatusCode != http.StatusOK {
		return last, &Refusal{res.StatusCode, problemTitle(res)}
	}
	lines := json.NewDecoder(res.Body)
	for {
		var p reconcile.Progress
		if err := lines.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return last, fmt.Errorf("the server is gone: %w", err)
		}
		last = p
		if err := each(p); err != nil {
			return last, err
		}
	}
	if last.Ended.IsZero() {
		return last, errors.New("the server is gone; the next comparison continues where it was")
	}
	return last, nil
}
