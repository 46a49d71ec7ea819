package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/testdata"
)

type devCmd struct {
	*program
	senderFlags
	listen, format string
	once, watch    bool
}

func devCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "dev [FILE|DIR...]", Short: "Try Eyelet without any configuration",
		Long: "Starts a receiver with a store of its own, sends it recorded deliveries over HTTP, each at the time\n" +
			"of its recording, and prints the result of each. Exits 1 when a result is not the expected one, no\n" +
			"endpoint received a delivery, or a handler of --config failed. Without --once it then continues\n" +
			"to serve, with new keys. On a terminal, e then explains the last refused delivery, o opens the page\n" +
			"of eyelet open, and q ends.\n\n" +
			payloadHelp + "\n\n" +
			"With --config the producers and handlers are those of the file: the handlers run, and their output\n" +
			"and outcome are shown. Afterwards its endpoints are served, with the temporary store; the store and\n" +
			"the state directory of the file are neither read nor written.",
		Example: "  eyelet dev --once\n  eyelet dev --once testdata/shop/*.http\n  eyelet dev fixtures/\n" +
			"  eyelet dev --config eyelet.yaml --watch fixtures/",
	}
	f := &devCmd{program: p}
	c.Flags().StringVar(&f.config, "config", "", "configuration for recordings of your own (default: that of the "+
		"bundled ones)")
	c.Flags().BoolVar(&f.once, "once", false, "end after the deliveries")
	c.Flags().BoolVar(&f.watch, "watch", false, "then send each file again that changes, until Ctrl-C")
	c.Flags().StringVar(&f.producer, "producer", "", "producer of payloads (default: from the file's path)")
	c.Flags().StringVar(&f.key, "key", "", "file with the private key to sign payloads with")
	c.Flags().StringVar(&f.keyID, "keyid", "", "id of the key")
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
	paths := files
	before := fileStates(paths)
	if files, err = expandFolders(paths); err != nil {
		return err
	}
	recs, err := devRecordings(files)
	if err != nil {
		return err
	}
	s, err := f.settings(dir, recs)
	if err != nil {
		return err
	}
	err = f.sendRecordings(ctx, s, recs, func(again func(files []string)) {
		if f.watch && !f.once {
			f.eprintf("watching %s; Ctrl-C ends it\n", strings.Join(paths, " "))
			watchFiles(ctx, paths, before, again)
		}
	})
	if err != nil || f.once || ctx.Err() != nil {
		return err
	}
	if f.config != "" {
		return f.serveConfigured(ctx, s)
	}
	return f.serve(ctx, dir)
}

// devRecording is a recording that dev sends.
type devRecording struct {
	*httpfile.File // with the name only if it is a payload
	payload        *payload
	expect         expectation
	tampered       string // how the file differs from its sha256 note
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
		if !bundled && isPayload(name) {
			some, err := readPayloads(name)
			if ms, ok := usage.Find(err); ok {
				found = append(found, ms...)
			}
			for _, one := range some {
				recs = append(recs, devRecording{File: &httpfile.File{Name: one.name}, payload: &one})
			}
			continue
		}
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
// Without --config, presets that only payloads need get new secrets.
func (f *devCmd) settings(dir string, recs []devRecording) (*config.Settings, error) {
	src := config.Source{File: f.config, Environ: f.Environ}
	if f.config == "" {
		keys := filepath.Join(dir, "bundled")
		if err := os.CopyFS(keys, testdata.Files()); err != nil {
			return nil, usage.Errorf("set TMPDIR to a folder with some space",
				"the bundled deliveries cannot be unpacked: %s", usage.Cause(err))
		}
		// the environment does not change the bundled settings
		src = config.Source{File: filepath.Join(keys, "eyelet.yaml")}
		if err := f.addPresets(src.File, recs); err != nil {
			return nil, err
		}
	}
	s, err := src.Load()
	if err != nil {
		return nil, err
	}
	s.Store = "badger:" + filepath.Join(dir, "store")
	// What is about the configured store, or written for its receiver, is not of the temporary one.
	s.Schema, s.State, s.AcceptLoss, s.AcceptClock, s.Limits.MinFree = "", "", false, false, 0
	return s, nil
}

// addPresets adds the presets of payloads to the configuration, with new secrets.
func (f *devCmd) addPresets(file string, recs []devRecording) error {
	s, err := config.Source{File: file}.Load()
	if err != nil {
		return err
	}
	have := s.ProducerNames()
	var producers, handlers strings.Builder
	for _, rec := range recs {
		if rec.payload == nil {
			continue
		}
		name, _ := rec.payload.origin(f.producer, append(presetNames(), have...))
		if name == "" || slices.Contains(have, name) {
			continue
		}
		vendor, ok := preset.Find(name)
		if !ok {
			return usage.Errorf("write --config FILE, with your producers", "%s: %q is not a preset", rec.Name, name)
		}
		settings, err := freshSettings(vendor)
		if err != nil {
			return err
		}
		have = append(have, name)
		producers.WriteString("  " + name + ": {preset: " + name + ", " + settings.yaml() + "}\n")
		handlers.WriteString("  - {producer: " + name + ", type: \"*\", stdout: true}\n")
	}
	text, err := os.ReadFile(file)
	if err != nil || producers.Len() == 0 {
		return err
	}
	whole := strings.Replace(string(text), "\nhandlers:\n", producers.String()+"\nhandlers:\n"+handlers.String(), 1)
	return os.WriteFile(file, []byte(whole), 0o600)
}

// goRun returns the command that runs this binary again.
func goRun() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/eyelet"
	}
	return filepath.Base(os.Args[0])
}
