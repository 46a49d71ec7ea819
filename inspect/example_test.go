package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/inspect"
)

func ExampleAPI() {
	store := memstore.New(memstore.Options{})
	defer store.Close()
	_, err := store.Claim(context.Background(), dedup.Claim{
		Key:     dedup.Key{Principal: "shop", Endpoint: "shop", ID: "order-1"},
		Payload: dedup.Payload{Producer: "shop", Endpoint: "shop", Type: "order.paid"},
		Tasks:   []dedup.NewTask{{Handler: "ship"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	inspect.API(store).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events?state=pending", nil))
	var line inspect.Event
	if err := json.Unmarshal(w.Body.Bytes(), &line); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(line.ID, line.Type, line.State, line.Tasks[0].Handler)
	// Output: order-1 order.paid pending ship
}
