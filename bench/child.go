package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
)

// The numbers of workers and connections of the hand-written receiver are the best that were found:
// more of them are not faster, and with fewer workers it falls further behind its acceptances.
const (
	redisWorkers     = 64
	redisConnections = 512
)

// handledTotal is the metric of handled events.
const handledTotal = "bench_handled_total"

// maxBody is the largest body of the receivers written here.
const maxBody = 1 << 20

// child serves one of the receivers written here: "bare", "hand" or "hand+worker".
func child(ctx context.Context, s settings, out io.Writer) error {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.GET("/metrics", echo.WrapHandler(promhttp.Handler()))
	path := "/webhooks/:producer"
	if s.child == "bare" {
		e.POST(path, bare)
	} else {
		h := handWritten{redis.NewClient(&redis.Options{Network: "unix", Addr: s.redis, PoolSize: redisConnections})}
		e.POST(path, h.receive)
		if s.child == "hand+worker" {
			handled := promauto.NewCounter(prometheus.CounterOpts{Name: handledTotal, Help: "Handled events."})
			for range redisWorkers {
				go h.work(ctx, out, handled)
			}
		}
	}
	server := &http.Server{Addr: s.listen, Handler: e, ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

// verified returns the body of a delivery with a valid signature.
func verified(c echo.Context) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(c.Request().Body, maxBody))
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	sent, err := hex.DecodeString(strings.TrimPrefix(c.Request().Header.Get("X-Hub-Signature-256"), "sha256="))
	if err != nil || !hmac.Equal(sent, mac.Sum(nil)) {
		return nil, echo.ErrUnauthorized
	}
	return body, nil
}

// bare checks the signature and answers.
func bare(c echo.Context) error {
	if _, err := verified(c); err != nil {
		return err
	}
	return c.NoContent(http.StatusOK)
}

// handWritten is a receiver with Redis, as its users write it in an afternoon.
type handWritten struct{ redis *redis.Client }

func (h handWritten) receive(c echo.Context) error {
	body, err := verified(c)
	if err != nil {
		return err
	}
	ctx, key := c.Request().Context(), "seen:"+c.Request().Header.Get("X-GitHub-Delivery")
	fresh, err := h.redis.SetNX(ctx, key, 1, 24*time.Hour).Result()
	if err != nil {
		return echo.ErrServiceUnavailable.WithInternal(err)
	}
	if fresh {
		if err := h.redis.LPush(ctx, "events", body).Err(); err != nil {
			h.redis.Del(ctx, key)
			return echo.ErrServiceUnavailable.WithInternal(err)
		}
	}
	return c.NoContent(http.StatusOK)
}

// work handles events until ctx ends: it moves one to the list of running events, prints it, and
// removes it there.
func (h handWritten) work(ctx context.Context, out io.Writer, handled prometheus.Counter) {
	for ctx.Err() == nil {
		body, err := h.redis.BLMove(ctx, "events", "running", "RIGHT", "LEFT", time.Minute).Result()
		if err == redis.Nil { //nolint:errorlint // the client returns it unwrapped
			continue
		}
		if err == nil {
			_, _ = io.WriteString(out, body+"\n")
			err = h.redis.LRem(ctx, "running", 1, body).Err()
		}
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "worker:", err)
			time.Sleep(time.Second)
			continue
		}
		handled.Inc()
	}
}
