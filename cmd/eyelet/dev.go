package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
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
			inputHelp + "\n\n" +
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
	dir += string(filepath.Separator)
	if err := os.CopyFS(dir+"testdata", testdata.Files()); err != nil {
		return usage.Errorf("set TMPDIR to a folder with some space",
			"the bundled deliveries cannot be unpacked: %s", usage.Cause(err))
	}
	if len(paths) == 0 {
		for _, name := range testdata.Deliveries() {
			paths = append(paths, filepath.Join(dir, "testdata", name))
		}
	}
	before := fileStates(paths)
	s, err := f.settings(dir, paths)
	if err != nil {
		return err
	}
	trials, err := readTrials(paths, s.ProducerNames(), dir)
	if err != nil {
		return err
	}
	err = f.try(ctx, s, trials, func(send func([]trial) error) {
		if !f.watch || f.once {
			return
		}
		f.eprintf("watching %s; Ctrl-C ends it\n", strings.Join(paths, " "))
		watchFiles(ctx, paths, before, func(files []string) {
			again, err := readTrials(files, s.ProducerNames(), dir)
			if err == nil {
				err = send(again)
			}
			f.explain(err)
		})
	})
	if err != nil || f.once || ctx.Err() != nil {
		return err
	}
	return f.serve(ctx, dir, s)
}

// try sends the deliveries, prints the results, and checks the content of the store. Then it calls
// watch, with a function that sends some again.
func (f *devCmd) try(ctx context.Context, s *config.Settings, trials []trial, watch func(func([]trial) error)) (
	err error) {
	run, err := newDevRun(ctx, f.program, s, f.senderFlags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.close()) }() //nolint:contextcheck // closing takes its own time
	screen := newScreen(f.program, f.format)
	for _, t := range trials {
		screen.width = max(screen.width, len(t.name))
	}
	results, err := run.send(ctx, trials, screen)
	if err == nil {
		err = run.check(ctx, results, screen)
	}
	watch(func(again []trial) error {
		_, err := run.send(ctx, again, screen)
		return err
	})
	return err
}

// settings returns the settings for the deliveries of files, with a store in dir.
func (f *devCmd) settings(dir string, paths []string) (s *config.Settings, err error) {
	if f.config != "" {
		s, err = config.Source{File: f.config, Environ: f.Environ}.Load()
	} else {
		s, err = f.bundledSettings(dir, paths)
	}
	if err != nil {
		return nil, err
	}
	s.Store = "badger:" + filepath.Join(dir, "store")
	// What is about the configured store, or written for its receiver, is not of the temporary one.
	s.Schema, s.State, s.Limits.MinFree = "", "", 0
	return s, nil
}

// bundledSettings returns the settings of the bundled recordings, which the environment does not
// change. Presets that only payloads need are added with new secrets.
func (f *devCmd) bundledSettings(dir string, paths []string) (*config.Settings, error) {
	var made scaffold
	file := filepath.Join(dir, "testdata", "eyelet.yaml")
	text, err := os.ReadFile(file)
	if err := errors.Join(err, yaml.Unmarshal(text, &made)); err != nil {
		return nil, err
	}
	files, err := expandFolders(paths)
	if err != nil {
		return nil, err
	}
	known := slices.Concat(presetNames(), slices.Collect(maps.Keys(made.Producers)))
	for _, path := range files {
		name, _ := input{path: path}.origin(f.producer, known)
		if !strings.HasSuffix(path, "json") || name == "" || made.Producers[name] != nil {
			continue // a recording, an error when it is signed, or known
		}
		vendor, ok := preset.Find(name)
		if !ok {
			return nil, usage.Errorf("write --config FILE, with your producers", "%s: %q is not a preset", path, name)
		}
		if err := made.addPreset(vendor, mapping{"stdout": true}); err != nil {
			return nil, err
		}
	}
	return made.parse(config.Source{}, file)
}

// serve serves until ctx ends, with the store of the deliveries before: the endpoints of --config,
// else some with new keys.
func (f *devCmd) serve(ctx context.Context, dir string, s *config.Settings) error {
	text, err := "", error(nil)
	if f.config == "" {
		s, text, err = f.newEndpoints(ctx, dir)
	} else {
		s.Listen = cmp.Or(f.listen, s.Listen)
		base := "http://" + s.Listen
		if s.HasTLS() {
			base = "https://" + s.Listen
		}
		text = fmt.Sprintf("serving as configured in %s; the store is removed at Ctrl-C\n\n", s.File)
		for _, name := range s.ProducerNames() {
			text += endpointLine(base, name, "")
		}
	}
	if err != nil {
		return err
	}
	s.Log.Level, s.Explain = "warn", config.ExplainLog
	return serveWithKeys(ctx, f.program, s, func(*server.Options) { f.printf("\n%s\n", text) })
}

// newEndpoints returns settings with new keys in a folder, and the text about them.
func (f *devCmd) newEndpoints(ctx context.Context, dir string) (s *config.Settings, text string, err error) {
	made := scaffold{Store: "badger:store", folder: dir}
	if made.Listen, err = freeAddress(ctx, f.listen, config.DefaultListen); err != nil {
		return nil, "", err
	}
	if made.Operations, err = freeAddress(ctx, "", config.DefaultOperations); err != nil {
		return nil, "", err
	}
	made.URL = "http://" + made.Listen
	key, file, prints := filepath.Join(dir, "shop"), filepath.Join(dir, "eyelet.yaml"), mapping{"stdout": true}
	if err := writeKeyPair(verify.Ed25519, key); err != nil {
		return nil, "", err
	}
	made.add("shop", mapping{"scheme": "rfc9421", "keys": []mapping{{"id": "shop", "alg": verify.Ed25519,
		"public_key_file": "shop.pub.pem"}}}, prints, "RFC 9421, key "+key+".pem")
	vendors, _ := findPresets(tryPresets)
	for _, vendor := range vendors {
		if err := made.addPreset(vendor, prints); err != nil {
			return nil, "", err
		}
	}
	if err := writeNewFile(file, []byte(made.yaml(""))); err != nil {
		return nil, "", err
	}
	text = fmt.Sprintf(`serving with new keys; they and the store are removed at Ctrl-C

%s  policy                %s/policy

  echo '{"type":"order.paid","total":"129.00"}' | %s send - --config %s --producer shop --key %s.pem
  %s send github push --config %s --producer github
  %s events list --config %s
`, made.about, made.URL, goRun(), file, key, goRun(), file, goRun(), file)
	s, err = made.parse(config.Source{}, file)
	return s, text, err
}

// demoCommand makes a static copy of the inspector for websites. It runs a test, because only tests
// have a clock of their own: a day passes in a second, and two copies are equal.
func demoCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "demo", Short: "Make a static copy of the inspector, in a clone of Eyelet", Hidden: true,
		Long: "Receives recorded deliveries and samples of a day, and writes each view of the inspector to a file.\n" +
			"A clone of Eyelet and Go are needed.",
		Example: "  eyelet demo --out demo", Args: cobra.NoArgs,
	}
	out := c.Flags().String("out", "demo", "folder for the files")
	c.RunE = func(c *cobra.Command, _ []string) error {
		dir, err := filepath.Abs(*out)
		if err != nil {
			return err
		}
		test := exec.CommandContext(c.Context(), "go", "test", "-count=1",
			"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server", "-run", "^TestTheDemo", "-args", "-demo", dir)
		if text, err := test.CombinedOutput(); err != nil {
			return usage.Errorf("run it in a clone of Eyelet, with Go", "no demo: %s%v", text, err)
		}
		p.printf("wrote %s\n", filepath.Join(dir, "index.html"))
		return nil
	}
	return c
}
