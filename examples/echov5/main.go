// Command echov5 is a webhook endpoint in an Echo v5 program: middleware verifies each event and
// stores it in front of an ordinary handler.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/eyelet-dev/eyelet"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov5"
)

// Push is the part of GitHub's push event that the handler needs.
type Push struct{ Ref string }

// onPush runs once for each push. Its response is stored, and repeated when GitHub sends again.
func onPush(c *echo.Context) error {
	ev, err := echov5.EventOf[Push](c)
	if err != nil {
		return err
	}
	log.Printf("%s: push to %s", ev.VendorID, ev.Data.Ref)
	return c.JSON(http.StatusOK, map[string]any{"deployed": ev.Data.Ref})
}

func routes(rx *receiver.Receiver) *echo.Echo {
	e := echo.New()
	e.POST("/hooks/github", onPush, echov5.Verified(rx, "github"))
	e.GET("/policy", echo.WrapHandler(rx.Policy()))
	return e
}

func main() {
	rx, err := eyelet.Open("data",
		eyelet.GitHub(os.Getenv("GITHUB_SECRET")),
		eyelet.Handle(receiver.Inline("github", "push")),
	)
	if err == nil {
		srv := &http.Server{Addr: "127.0.0.1:8080", Handler: routes(rx.Receiver), ReadHeaderTimeout: 10 * time.Second}
		err = eyelet.Serve(context.Background(), srv, rx)
	}
	if err != nil {
		log.Fatal(err)
	}
}
