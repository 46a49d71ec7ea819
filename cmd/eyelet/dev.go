package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/testdata"
)

type devCmd struct {
	*program
	config, listen, format string
	once                   bool
}

func devCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "dev [FILE.http ...]", Short: "Try Eyelet without any configuration",
		Long: "Starts a receiver with a store of its own, sends it recorded deliveries over HTTP, each at the time\n" +
			"of its recording, and prints the result of each. Exits 1 when a result is not the expected one.\n" +
			"Without --once it then continues to serve, with new keys.",
		Example: "  eyelet dev --once\n  eyelet dev --once testdata/shop/*.http\n  eyelet dev --config eyelet.yaml " +
			"my/*.http",
	}
	f := &devCmd{program: p}
	c.Flags().StringVar(&f.config, "config", "", "configuration for recordings of your own (default: that of the "+
		"bundled ones)")
	c.Flags().BoolVar(&f.once, "once", false, "end after the deliveries")
	c.Flags().StringVar(&f.listen, "serve-at", "",
		"address to serve at afterwards (default "+config.DefaultListen+", or a free port)")
	format := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		f.format = *format
		return f.run(c.Context(), args)
	}
	return c
}

func (f *devCmd) run(ctx context.Context, files []string) (err error) {
	dir, err := os.MkdirTemp("", "eyelet-dev-")
	if err != nil {
		return usage.Errorf("set TMPDIR to a folder that is writable", "no folder for the store: %s", usage.Cause(err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	recs, err := devRecordings(files)
	if err != nil {
		return err
	}
	s, err := f.settings(dir)
	if err != nil {
		return err
	}
	if err := f.sendRecordings(ctx, s, recs); err != nil || f.once || ctx.Err() != nil {
		return err
	}
	return f.serve(ctx, dir)
}

// devRecording is a recording that dev sends.
type devRecording struct {
	*httpfile.File
	expect   expectation
	tampered string // how the file differs from its sha256 note
}

// devRecordings reads the named recordings, or the bundled ones, and returns the errors of all.
func devRecordings(files []string) ([]devRecording, error) {
	bundled := len(files) == 0
	if bundled {
		files = testdata.Deliveries()
	}
	var found usage.Errors
	var recs []devRecording
	for _, name := range files {
		rec, err := devRecordingFrom(name, bundled)
		if ms, ok := usage.Find(err); ok {
			found = append(found, ms...)
		} else if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	return recs, found.Err()
}

// devRecordingFrom reads one recording. Its errors are usage errors, unless the file was changed
// since it was recorded: then it fails like any other recording with an unexpected result.
func devRecordingFrom(name string, bundled bool) (rec devRecording, err error) {
	data, err := os.ReadFile(name)
	if bundled {
		data, err = fs.ReadFile(testdata.Files(), name)
		name = "testdata/" + name
	}
	if err != nil {
		return rec, usage.Errorf("", "%s: %s", name, usage.Cause(err))
	}
	rec.tampered = tampered(data, bundled)
	rec.File, err = httpfile.Parse(name, data)
	var parseError *httpfile.Error
	if errors.As(err, &parseError) {
		err = badRecording(parseError)
	} else if err == nil {
		rec.expect, err = expectationOf(rec.File)
	}
	if err != nil && rec.tampered != "" {
		return rec, failf("%v: %s", err, rec.tampered)
	}
	return rec, err
}

// settings returns the settings for the recordings, with a store in dir.
func (f *devCmd) settings(dir string) (*config.Settings, error) {
	src := config.Source{File: f.config, Environ: f.Environ}
	if f.config == "" {
		keys := filepath.Join(dir, "bundled")
		if err := os.CopyFS(keys, testdata.Files()); err != nil {
			return nil, usage.Errorf("set TMPDIR to a folder with some space",
				"the bundled deliveries cannot be unpacked: %s", usage.Cause(err))
		}
		// the environment does not change the bundled settings
		src = config.Source{File: filepath.Join(keys, "eyelet.yaml")}
	}
	s, err := src.Load()
	if err != nil {
		return nil, err
	}
	s.Store = "badger:" + filepath.Join(dir, "store")
	return s, nil
}

// goRun returns the command that runs this binary again.
func goRun() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/eyelet"
	}
	return filepath.Base(os.Args[0])
}
