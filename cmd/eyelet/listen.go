package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/atomicfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

type listenCmd struct {
	*program
	listen, public, format string
	secrets                []string
	relay                  bool

	target  *url.URL
	vendors []preset.Preset
	given   map[string]string // secrets by preset
	folder  string            // of [listenFolder]
	screen  *listenScreen
}

func listenCommand(p *program) *cobra.Command {
	f := &listenCmd{program: p}
	c := &cobra.Command{
		Use: "listen TARGET [PRESET...]", Short: "Forward deliveries to an application on this machine",
		Args: cobra.MinimumNArgs(1),
		Long: "Serves an endpoint for each PRESET (default: github, stripe and standard-webhooks), without a file,\n" +
			"and forwards what it accepts to TARGET: a port, HOST:PORT or a URL. Without a path in TARGET, an\n" +
			"event goes to the path of its endpoint, as in http://localhost:3000/webhooks/stripe. Each delivery\n" +
			"is one line.\n\n" +
			"`eyelet send PRESET TYPE` in another terminal then signs a sample and sends it here, without flags.\n" +
			"Secrets are made once and kept in eyelet/listen below the user's configuration folder, as they are.\n" +
			"--secret uses the one that the application has, so that the signature is valid there too; in single\n" +
			"quotes, 'stripe=${STRIPE_SECRET}' reads a variable of the environment.\n\n" +
			"An event is accepted, and forwarded until the application takes it. With --relay the application's\n" +
			"response is that of the delivery. On a terminal, t sends a sample of the next PRESET here, r the last\n" +
			"event to the application again, e explains the last refused delivery, o opens the page of eyelet\n" +
			"open, / shows only lines with a text, and q ends.",
		Example: "  eyelet listen 3000 github stripe\n  eyelet listen localhost:3000/hooks stripe --secret " +
			"'stripe=${STRIPE_SECRET}'",
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 { // TARGET
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completePresets(c, args, word)
	}
	flags := c.Flags()
	flags.StringVar(&f.listen, "listen", "", "address for deliveries (default "+config.DefaultListen+
		", or a free port)")
	flags.StringVar(&f.public, "url", "", "public base of a tunnel, as vendors call it (default: the address)")
	flags.StringArrayVar(&f.secrets, "secret", nil, "secret of a preset, as PRESET=VALUE, instead of the kept one")
	flags.BoolVar(&f.relay, "relay", false, "answer deliveries with the response of the application")
	format := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		ignoreSIGPIPE()
		f.format = *format
		if err := f.parse(args); err != nil {
			return err
		}
		return f.run(c.Context())
	}
	return c
}

// parse reads the arguments.
func (f *listenCmd) parse(args []string) error {
	text := args[0]
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		text = "localhost:" + text
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	var err error
	if f.target, err = url.Parse(text); err != nil || f.target.Host == "" || f.target.Port() == "" {
		return usage.Errorf("write a port, HOST:PORT, or a URL with a port", "%q is not a target", args[0])
	}
	names := args[1:]
	if len(names) == 0 {
		names = []string{"github", "stripe", "standard-webhooks"}
	}
	for i, name := range names {
		vendor, ok := preset.Find(name)
		if !ok {
			return usage.Errorf(usage.DidYouMean(name, presetNames()), "unknown preset %q", name)
		}
		if slices.Contains(names[:i], name) {
			return usage.Errorf("", "preset %q is there twice", name)
		}
		f.vendors = append(f.vendors, vendor)
	}
	if f.folder, err = listenFolder(f.Environ); err != nil {
		return usage.Errorf("set HOME or XDG_CONFIG_HOME", "no folder for secrets: %v", err)
	}
	return nil
}

// run serves until ctx ends, or a person presses q.
func (f *listenCmd) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listen, err := freeAddress(ctx, f.listen, config.DefaultListen)
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "eyelet-listen-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state) //nolint:errcheck // it is in the folder for temporary files
	text, shown, err := f.configuration(listen, state)
	if err != nil {
		return err
	}
	s, err := config.Source{Environ: f.Environ}.Parse("listen.yaml", []byte(text))
	if err != nil {
		return err
	}
	_, o, err := f.serverOptions(ctx, s)
	if err != nil {
		return err
	}
	screen := newListenScreen(f)
	f.screen, screen.settings = screen, s
	keys := newKeyboard(f.program)
	open := o.OpenStore
	o.OpenStore = func(ctx context.Context, log *slog.Logger) (dedup.Store, error) {
		store, err := open(ctx, log)
		screen.store = store
		return store, err
	}
	o.OnObserve = screen.observe
	srv, err := server.New(ctx, o)
	if err != nil {
		return err
	}
	for _, line := range shown {
		f.eprintf("%s\n", line)
	}
	f.eprintf("from another terminal: %s send %s\n", goRun(), f.vendors[0].Name+" "+f.vendors[0].Types()[0])
	defer f.forgetGiven()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		screen.run(ctx)
	}()
	const help = "t sends a sample, r the last event again, e explains the last refused delivery, o opens the page, " +
		"/ filters"
	err = keys.during(ctx, help, screen.press, srv.Run)
	cancel()
	<-ended
	return err
}

// configuration returns the settings in YAML, and what a person must know.
func (f *listenCmd) configuration(listen, state string) (text string, shown []string, err error) {
	given := map[string]string{}
	for _, pair := range f.secrets {
		name, value, ok := strings.Cut(pair, "=")
		used := slices.ContainsFunc(f.vendors, func(v preset.Preset) bool { return v.Name == name })
		switch vendor, _ := preset.Find(name); {
		case !ok || value == "":
			return "", nil, usage.Errorf("write --secret 'stripe=${STRIPE_SECRET}'", "--secret is not PRESET=VALUE")
		case !used:
			return "", nil, usage.Errorf("add it after the target", "--secret %s: that preset is not served", name)
		case !slices.Contains(vendor.Uses, "secret"):
			return "", nil, usage.Errorf("use serve with a configuration; the preset has the settings "+
				strings.Join(vendor.Uses, ", "), "--secret %s: the preset has no setting secret", name)
		}
		given[name] = value
	}
	f.given = given
	if err := os.MkdirAll(f.folder, 0o700); err != nil {
		return "", nil, usage.Errorf("set XDG_CONFIG_HOME to a folder that is writable", "%s: %s", f.folder,
			usage.Cause(err))
	}
	public := cmp.Or(f.public, "http://"+listen)
	producers, handlers := "", ""
	mode := "store"
	if f.relay {
		mode = "relay"
	}
	shown = append(shown, fmt.Sprintf("forwarding to %s; Ctrl-C ends", f.target.Redacted()))
	for _, vendor := range f.vendors {
		settings := settingList{{"secret", strconv.Quote(given[vendor.Name])}}
		known := "the secret of --secret"
		if given[vendor.Name] == "" {
			if settings, err = f.kept(vendor); err != nil {
				return "", nil, err
			}
			known = settings.text()
		}
		own := fmt.Sprintf("  %s: {preset: %s, %s}\n", vendor.Name, vendor.Name, settings.yaml())
		sends := fmt.Sprintf("listen: %s\nurl: %q\nproducers:\n%s", listen, public, own)
		if err := atomicfile.WriteText(f.sendsFrom(vendor.Name), sends); err != nil {
			return "", nil, usage.Errorf("set XDG_CONFIG_HOME to a folder that is writable", "%v", err)
		}
		producers += own
		handlers += fmt.Sprintf("  - {producer: %s, type: \"*\", forward: %q, mode: %s}\n", vendor.Name,
			f.targetOf(vendor.Name), mode)
		shown = append(shown, fmt.Sprintf("  %-20s  %s/webhooks/%s  %s", vendor.Name, public, vendor.Name, known))
	}
	return fmt.Sprintf("listen: %s\noperations: 127.0.0.1:0\nstate: %q\nurl: %q\nstore: \"memory:\"\n"+
		"log: {level: error}\ninspector: {send: true}\nproducers:\n%shandlers:\n%s", listen, state, public, producers,
		handlers), shown, nil
}

// targetOf returns the URL for the events of a producer.
func (f *listenCmd) targetOf(name string) string {
	to := *f.target
	if to.Path == "" || to.Path == "/" {
		to.Path = "/webhooks/" + name
	}
	return to.String()
}

// kept returns the settings of a preset with the secret that was made for it at the first call.
func (f *listenCmd) kept(vendor preset.Preset) (settingList, error) {
	file := filepath.Join(f.folder, vendor.Name+".txt")
	text, err := os.ReadFile(file)
	secret := strings.TrimSpace(string(text))
	if err != nil {
		secret = freshSecret(vendor)
	}
	settings, invalid := settingsWith(vendor, secret)
	if invalid != nil || err == nil {
		return settings, invalid
	}
	return settings, writeNewFile(file, []byte(secret+"\n"))
}

// sendsFrom is the file with the settings of a preset for send.
func (f *listenCmd) sendsFrom(name string) string { return filepath.Join(f.folder, name+".yaml") }

// forgetGiven removes the settings that have the secrets of --secret.
func (f *listenCmd) forgetGiven() {
	for name := range f.given {
		_ = os.Remove(f.sendsFrom(name)) // best effort: only the user can read it
	}
}
