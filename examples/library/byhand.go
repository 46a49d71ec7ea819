package library

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
)

// routeByHand is what programs write without a receiver: it runs again for each repeated delivery,
// and an event is lost if deploy fails too often.
func routeByHand(e *echo.Echo, secret []byte, deploy func(ref string) error) {
	e.POST("/hooks/github", func(c echo.Context) error {
		body, err := io.ReadAll(c.Request().Body)
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		want := "sha256=" + hex.EncodeToString(mac.Sum(nil))
		if !hmac.Equal([]byte(want), []byte(c.Request().Header.Get("X-Hub-Signature-256"))) {
			return echo.ErrUnauthorized
		}
		var data struct{ Ref string }
		if json.Unmarshal(body, &data) != nil {
			return echo.ErrBadRequest
		}
		if err := deploy(data.Ref); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	})
}

// routeVerified is the same route behind a receiver.
func routeVerified(e *echo.Echo, rx *receiver.Receiver, deploy func(ref string) error) error {
	e.POST("/hooks/github", func(c echo.Context) error {
		ev, err := echov4.EventOf[struct{ Ref string }](c)
		if err != nil {
			return err
		}
		if err := deploy(ev.Data.Ref); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	}, echov4.Verified(rx, "github"))
	return rx.Bind(e)
}
