package library

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestParcelsWaitWhileTheCarrierIsDown(t *testing.T) {
	calls := 0
	rx := opened(t, "shop", shipped(func(context.Context, parcel) error {
		calls++
		return errors.New("the carrier is down")
	}))
	for i := range 5 {
		rx.Deliver("shop", "parcel", parcel{fmt.Sprint("customer ", i)})
		for len(rx.Dead()) > 0 || calls <= i {
			time.Sleep(time.Millisecond)
		}
	}
	for !rx.Controls()[0].Paused {
		time.Sleep(time.Millisecond)
	}
	if h := rx.Controls()[0]; h.Handler != "carrier" || h.By != "breaker" {
		t.Errorf("%+v", h)
	}
}
