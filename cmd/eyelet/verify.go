package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"errors"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

func verifyCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "verify FILE.http", Short: "Verify a recorded delivery offline", Args: cobra.ExactArgs(1),
		Long: "Verifies a recorded delivery as the configured receiver would at the given time, without sending or\n" +
			"storing anything. Exits 0 when it is valid and 1 when it is not.",
	}
	file := configFlag(c)
	name := c.Flags().String("producer", "", "producer (default: the note of the file)")
	now := c.Flags().String("now", "", "unix time of arrival (default: the note of the file, else the present)")
	format := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		rec, err := readRecording(args[0])
		if err != nil {
			return err
		}
		at, err := arrival(rec, *now)
		if err != nil {
			return err
		}
		_, plan, err := buildPlan(c.Context(), p.source(c, *file), true)
		if err != nil {
			return err
		}
		defer plan.Close() //nolint:errcheck // only key sets that fetch are closed
		v, err := verifyRecording(plan, rec, cmp.Or(*name, rec.Note("producer")), at)
		if err != nil {
			return err
		}
		return printVerdict(p, v, *format)
	}
	return c
}

// verdict is the result of a verification.
type verdict struct {
	Valid bool   `json:"valid"`
	Code  string `json:"code"` // "ok", or the failed check
	ID    string `json:"id"`
	Type  string `json:"type"`
	// Events are those of a batch.
	Events []verdictEvent `json:"events,omitempty"`
	why    string
}

type verdictEvent struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// verifyRecording verifies what the endpoint can without a store: the signature, the identifier
// and the time.
func verifyRecording(p *config.Plan, rec *httpfile.File, name string, now time.Time) (verdict, error) {
	var from *producer.Producer
	var names []string
	for i := range p.Producers {
		if p.Producers[i].Name == name {
			from = &p.Producers[i]
		}
		names = append(names, p.Producers[i].Name)
	}
	if name == "" {
		return verdict{}, usage.Errorf(`write --producer, or a note "# producer: shop"`, "%s names no producer",
			rec.Name)
	}
	if from == nil {
		return verdict{}, usage.Errorf(usage.DidYouMean(name, names), "unknown producer %q", name)
	}
	d, err := deliveryOf(p, rec, from)
	if err != nil {
		return verdict{}, err
	}
	items, err := authenticate(from, d, now)
	if err != nil {
		return verdict{Code: cmp.Or(string(verify.CodeOf(err)), "invalid"), why: err.Error()}, nil
	}
	v := verdict{Valid: true, Code: "ok"}
	if from.Split == nil && len(items) == 1 {
		v.ID, v.Type = items[0].ID, items[0].Type
		return v, nil
	}
	for _, it := range items {
		v.Events = append(v.Events, verdictEvent{it.ID, it.Type})
	}
	return v, nil
}

// deliveryOf turns the recording into a delivery for extractors.
func deliveryOf(p *config.Plan, rec *httpfile.File, from *producer.Producer) (*producer.Delivery, error) {
	r, err := rec.Request()
	var parseErr *httpfile.Error
	if errors.As(err, &parseErr) {
		return nil, badRecording(parseErr)
	}
	base := cmp.Or(p.URL, "http://"+r.Host)
	if from.URL != "" {
		u, err := url.Parse(from.URL)
		if err != nil {
			return nil, usage.Errorf("", "producer %q: its url is not a URL", from.Name)
		}
		u.RawQuery = r.URL.RawQuery
		r.URL = u
	} else if r.URL, err = url.Parse(strings.TrimSuffix(base, "/") + rec.Target); err != nil {
		return nil, usage.Errorf("", "%s: the request target is not a URL", rec.Name)
	}
	r.Body = http.NoBody
	return &producer.Delivery{Request: verify.Normalize(r), Body: rec.Body}, nil
}

// authenticate runs the checks of the endpoint before the store.
func authenticate(from *producer.Producer, d *producer.Delivery, now time.Time) ([]producer.Item, error) {
	var err error
	whole := from.WithDefaults()
	if whole.Scheme != nil {
		d.Identity, err = whole.Scheme.Verify(d.Request, func() ([]byte, error) { return d.Body, nil })
		if err != nil {
			return nil, err
		}
	}
	items, err := whole.Items(d)
	if err != nil {
		return nil, err
	}
	return items, whole.Tolerance.Check(d.Identity, now)
}

func printVerdict(p *program, v verdict, format string) error {
	if format == "json" {
		if err := json.NewEncoder(p.Out).Encode(v); err != nil {
			return err
		}
	} else if v.Valid {
		p.printf("valid: id %s, type %s\n", sanitize(v.ID), sanitize(v.Type))
		for _, e := range v.Events {
			p.printf("  event: id %s, type %s\n", sanitize(e.ID), sanitize(e.Type))
		}
	} else {
		p.printf("not valid: %s\n", sanitize(v.why))
	}
	if !v.Valid {
		return &failure{}
	}
	return nil
}
