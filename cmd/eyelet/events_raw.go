package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/internal/atomicfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

func eventsRawCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "raw EVENT", Short: "Export recorded deliveries as *.http files", Args: cobra.ArbitraryArgs,
		Long: "Writes the delivery of an event to standard output, or with --dir the deliveries of events that are\n" +
			"named or selected, each as EVENT.http. Body, method and target are byte for byte as they were kept.\n" +
			"The fields Authorization and Cookie, and those that hold a producer's credentials, are never kept.\n" +
			"The files hold payloads: only their owner can read them.\n\n" + refHelp,
		Example: "  eyelet events raw 1-51iaa0tnruenounm2nthmo0uqst8qan3 > order.http\n" +
			"  eyelet events raw --dir deliveries --producer gh --since 1d",
	}
	file, format := configFlag(c), outputFlag(c)
	f := addFilterFlags(c, "")
	c.Flags().BoolVar(&f.all, "all", false, "all events")
	dir := c.Flags().String("dir", "", "folder for the files, created if missing")
	progress := c.Flags().Bool("progress", false, "print progress even without a terminal")
	c.RunE = func(c *cobra.Command, args []string) error {
		named, err := readEvents(p.In, args)
		if err != nil {
			return err
		}
		if err := f.check(named, args); err != nil {
			return err
		}
		if *dir == "" && len(named) != 1 {
			return usage.Errorf("write --dir FOLDER", "several deliveries need a folder")
		}
		return p.withEvents(c, *file, func(client *opsclient.Client) error {
			if *dir == "" {
				event, err := resolve(c.Context(), p, client, named[0], "")
				if err != nil {
					return err
				}
				return printRaw(c.Context(), p.Out, client, event)
			}
			return exportTo(c, client, *dir, f, named, &bulkRun{program: p, done: "exported", format: *format,
				progress: *progress})
		})
	}
	return c
}

func printRaw(ctx context.Context, w io.Writer, client *opsclient.Client, event string) error {
	data, err := client.Raw(ctx, event)
	if refusal, ok := errors.AsType[*opsclient.Refusal](err); ok {
		return failf("%s: %s", refusal.Title, sanitize(event))
	} else if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// exportTo writes the deliveries of events to files in a folder.
func exportTo(c *cobra.Command, client *opsclient.Client, dir string, f *filters, named []string, r *bulkRun) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return usage.Errorf("", "folder %s: %s", dir, usage.Cause(err))
	}
	found, err := f.selection(c, r.program, client, named)
	if err != nil {
		return err
	}
	r.lenient = len(named) == 0
	r.apply = func(ctx context.Context, e selected) (file string, err error) {
		data, err := client.Raw(ctx, e.event)
		if err != nil {
			return "", err
		}
		file = filepath.Join(dir, filepath.Base(e.event)+".http")
		if err := atomicfile.WriteText(file, string(data)); err != nil {
			return "", failf("%s: %s", file, usage.Cause(err))
		}
		return file, nil
	}
	return r.run(c.Context(), found)
}
