package main

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

// maxRaw bounds an exported delivery, in bytes: the largest body that a preset takes, and its head.
const maxRaw = 64 << 20

func (p *program) eventsRawCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "raw EVENT", Short: "Export recorded deliveries as *.http files", Args: cobra.ArbitraryArgs,
		Long: "Writes the delivery of an event to standard output, or with --dir the deliveries of the events that are\n" +
			"named or selected, each as EVENT.http. Body, method and target are byte for byte what was kept. The\n" +
			"fields Authorization and Cookie, and those that hold a producer's credentials, are never kept. The files\n" +
			"hold payloads: only their owner can read them.",
		Example: "  eyelet events raw 1-51iaa0tnruenounm2nthmo0uqst8qan3 > order.http\n" +
			"  eyelet events raw --dir deliveries --producer gh --since 1d",
	}
	file, format := p.configFlag(c), outputFlag(c)
	f := filterFlags(c, "")
	c.Flags().BoolVar(&f.all, "all", false, "all of them")
	dir := c.Flags().String("dir", "", "folder for the files; it is made where it is missing")
	told := c.Flags().Bool("progress", false, "tell how it gets on, even if nobody looks at a terminal")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkOutput(*format); err != nil {
			return err
		}
		named, err := p.named(args)
		if err != nil {
			return err
		}
		if err := f.choose(named, args); err != nil {
			return err
		}
		if *dir == "" && len(named) != 1 {
			return usage.Errorf("write --dir FOLDER", "more than one delivery needs a folder")
		}
		return p.withEvents(c, *file, func(api eventsAPI) error {
			if *dir == "" {
				return p.printRaw(c.Context(), api, named[0])
			}
			return p.exportTo(c.Context(), api, *dir, f, named, &job{done: "exported", format: *format, asked: *told})
		})
	}
	return c
}

// raw returns the delivery of an event as a file; refused says why there is none.
func (a eventsAPI) raw(ctx context.Context, event string) (data []byte, refused string, err error) {
	res, err := a.get(ctx, "/events/"+url.PathEscape(event)+"/raw")
	if err != nil {
		return nil, "", failed("the server did not answer: %v", err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read to its end
	switch {
	case res.StatusCode >= http.StatusInternalServerError:
		return nil, "", failed("%s", problemTitle(res))
	case res.StatusCode != http.StatusOK:
		return nil, problemTitle(res), nil
	}
	data, err = io.ReadAll(io.LimitReader(res.Body, maxRaw+1))
	switch {
	case err != nil:
		return nil, "", failed("the answer was cut: %v", err)
	case len(data) > maxRaw:
		return nil, "it is larger than 64 MiB", nil
	}
	return data, "", nil
}

func (p *program) printRaw(ctx context.Context, api eventsAPI, event string) error {
	data, refused, err := api.raw(ctx, event)
	if err != nil {
		return err
	}
	if refused != "" {
		return failed("%s: %s", refused, shown(event))
	}
	_, err = p.Out.Write(data)
	return err
}

func (p *program) exportTo(ctx context.Context, api eventsAPI, dir string, f *filters, named []string, j *job) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return usage.Errorf("", "folder %s: %s", dir, usage.Cause(err))
	}
	found, err := f.selection(ctx, api, named)
	if err != nil {
		return err
	}
	j.lenient = len(named) == 0
	j.act = func(ctx context.Context, e selected) (fate, error) {
		data, refused, err := api.raw(ctx, e.event)
		if err != nil || refused != "" {
			return fate{Event: e.event, Error: refused}, err
		}
		name := filepath.Join(dir, filepath.Base(e.event)+".http")
		if err := writeWhole(name, content(string(data))); err != nil {
			return fate{}, failed("%s: %s", name, usage.Cause(err))
		}
		return fate{Event: e.event, File: name}, nil
	}
	return p.work(ctx, found, j)
}
