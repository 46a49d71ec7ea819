package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/testdata"
	"github.com/eyelet-dev/eyelet/verify"
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

func (f *devCmd) run(ctx context.Context, paths []string) (err error) {
	dir, err := os.MkdirTemp("", "eyelet-dev-")
	if err != nil {
		return usage.Errorf("set TMPDIR to a folder that is writable", "no folder for the store: %s", usage.Cause(err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	before := fileStates(paths)
	files, err := expandFolders(paths)
	if err != nil {
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
	err = f.try(ctx, s, recs, func(again func(files []string)) {
		if f.watch && !f.once {
			f.eprintf("watching %s; Ctrl-C ends it\n", strings.Join(paths, " "))
			watchFiles(ctx, paths, before, again)
		}
	})
	if err != nil || f.once || ctx.Err() != nil {
		return err
	}
	return f.serve(ctx, dir, s)
}

// try sends the recordings, prints the results, and checks the content of the store. Then it calls
// watch, with a function that sends files again.
func (f *devCmd) try(ctx context.Context, s *config.Settings, recs []devRecording,
	watch func(again func(files []string))) (err error) {
	var out *printed
	if f.config != "" {
		out = &printed{}
	}
	run, err := newDevRun(ctx, f.program, s, out)
	if err != nil {
		return err
	}
	run.flags = f.senderFlags
	defer func() { err = errors.Join(err, run.close()) }() //nolint:contextcheck // closing takes its own time
	if err := run.checkProducers(recs); err != nil {
		return err
	}
	screen := newScreen(f.program, f.format)
	for _, rec := range recs {
		screen.width = max(screen.width, len(rec.Name))
	}
	err = run.sendAll(ctx, recs, screen)
	watch(func(files []string) {
		again, err := devRecordings(files)
		if err == nil {
			_, err = run.send(ctx, again, screen)
		}
		if err != nil {
			f.explain(err)
		}
	})
	return err
}

// settings returns the settings for the recordings, with a store in dir.
func (f *devCmd) settings(dir string, recs []devRecording) (s *config.Settings, err error) {
	if f.config != "" {
		s, err = config.Source{File: f.config, Environ: f.Environ}.Load()
	} else {
		s, err = f.bundledSettings(filepath.Join(dir, "bundled"), recs)
	}
	if err != nil {
		return nil, err
	}
	s.Store = "badger:" + filepath.Join(dir, "store")
	// What is about the configured store, or written for its receiver, is not of the temporary one.
	s.Schema, s.State, s.AcceptLoss, s.AcceptClock, s.Limits.MinFree = "", "", false, false, 0
	return s, nil
}

// bundledSettings returns the settings of the bundled recordings, which the environment does not
// change. Presets that only payloads need are added with new secrets.
func (f *devCmd) bundledSettings(dir string, recs []devRecording) (*config.Settings, error) {
	if err := os.CopyFS(dir, testdata.Files()); err != nil {
		return nil, usage.Errorf("set TMPDIR to a folder with some space",
			"the bundled deliveries cannot be unpacked: %s", usage.Cause(err))
	}
	var made scaffold
	text, err := fs.ReadFile(testdata.Files(), "eyelet.yaml")
	if err := errors.Join(err, yaml.Unmarshal(text, &made)); err != nil {
		return nil, err
	}
	known := slices.Concat(presetNames(), slices.Collect(maps.Keys(made.Producers)))
	for _, rec := range recs {
		if rec.payload == nil {
			continue
		}
		name, _ := rec.payload.origin(f.producer, known)
		if name == "" || made.Producers[name] != nil {
			continue // an error when it is signed, or known
		}
		vendor, ok := preset.Find(name)
		if !ok {
			return nil, usage.Errorf("write --config FILE, with your producers", "%s: %q is not a preset", rec.Name,
				name)
		}
		settings, err := settingsOf(vendor, freshSecret(vendor), "")
		if err != nil {
			return nil, err
		}
		made.addPreset(vendor, settings, mapping{"stdout": true})
	}
	whole, err := made.yaml("")
	if err != nil {
		return nil, err
	}
	return config.Source{}.Parse(filepath.Join(dir, "eyelet.yaml"), []byte(whole))
}

// serve serves until ctx ends, with the store of the deliveries before: the endpoints of --config,
// else some with new keys.
func (f *devCmd) serve(ctx context.Context, dir string, s *config.Settings) error {
	text, err := "", error(nil)
	if f.config == "" {
		s, text, err = f.newEndpoints(ctx, filepath.Join(dir, "serve"))
	} else {
		s.Listen = cmp.Or(f.listen, s.Listen)
		made := scaffold{URL: "http://" + s.Listen}
		if s.HasTLS() {
			made.URL = "https://" + s.Listen
		}
		text = fmt.Sprintf("serving as configured in %s; the store is removed at Ctrl-C\n\n", s.File)
		for _, name := range s.ProducerNames() {
			text += made.endpoint(name, "")
		}
	}
	if err != nil {
		return err
	}
	s.Log.Level, s.Explain = "warn", config.ExplainLog
	return serveWithKeys(ctx, f.program, s, "", nil, func(*server.Options) { f.printf("\n%s\n", text) })
}

// newEndpoints returns settings with new keys in a folder, and the text about them.
func (f *devCmd) newEndpoints(ctx context.Context, folder string) (s *config.Settings, text string, err error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, "", usage.Errorf("", "%s: %s", folder, usage.Cause(err))
	}
	made := scaffold{Store: "badger:../store"}
	if made.Listen, err = freeAddress(ctx, f.listen, config.DefaultListen); err != nil {
		return nil, "", err
	}
	if made.Operations, err = freeAddress(ctx, "", config.DefaultOperations); err != nil {
		return nil, "", err
	}
	made.URL = "http://" + made.Listen
	key, file, prints := filepath.Join(folder, "shop"), filepath.Join(folder, "eyelet.yaml"), mapping{"stdout": true}
	if err := writeKeyPair(verify.Ed25519, key); err != nil {
		return nil, "", err
	}
	made.add("shop", mapping{"scheme": "rfc9421", "keys": []mapping{{"id": "shop", "alg": verify.Ed25519,
		"public_key_file": "shop.pub.pem"}}}, prints)
	text = "serving with new keys; they and the store are removed at Ctrl-C\n\n" +
		made.endpoint("shop", "RFC 9421, key "+key+".pem")
	vendors, _ := findPresets(tryPresets)
	for _, vendor := range vendors {
		settings, known, _, err := keptSettings(folder, vendor)
		if err != nil {
			return nil, "", err
		}
		made.addPreset(vendor, settings, prints)
		text += made.endpoint(vendor.Name, known)
	}
	text += fmt.Sprintf("  policy                %s/policy\n\n", made.URL) +
		fmt.Sprintf("  echo '{\"type\":\"order.paid\",\"total\":\"129.00\"}' | %s send - --config %s --producer shop "+
			"--key %s.pem\n", goRun(), file, key) +
		fmt.Sprintf("  %s send github push --config %s --producer github\n", goRun(), file) +
		fmt.Sprintf("  %s events list --config %s\n", goRun(), file)
	whole, err := made.yaml("")
	if err == nil {
		err = writeNewFile(file, []byte(whole))
	}
	if err != nil {
		return nil, "", err
	}
	s, err = config.Source{File: file}.Load()
	return s, text, err
}
