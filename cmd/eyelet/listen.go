package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/atomicfile"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/replay"
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

	screen   *screen
	settings *config.Settings
	store    dedup.Store
	seen     chan receiver.Observation
	last     atomic.Pointer[string] // the event that r sends again
	typing   bool                   // a filter
	typed    string
	samples  int // that were sent
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
		names = tryPresets
	}
	if f.vendors, err = findPresets(names); err != nil {
		return err
	}
	if f.folder, err = listenFolder(f.Environ); err != nil {
		return usage.Errorf("set HOME or XDG_CONFIG_HOME", "no folder for secrets: %v", err)
	}
	return f.readSecrets()
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
	defer f.forgetGiven()
	made, err := f.scaffold(listen)
	if err != nil {
		return err
	}
	f.settings, err = made.parse(config.Source{Environ: f.Environ}, filepath.Join(f.folder, "listen.yaml"))
	if err != nil {
		return err
	}
	f.settings.State, f.settings.Log.Level = state, "error"
	f.screen, f.seen = newScreen(f.program, f.format), make(chan receiver.Observation, 1024)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.showSeen(ctx)
	}()
	err = serveWithKeys(ctx, f.program, f.settings, "t sends a sample, r the last event again, / filters, ", f.press,
		func(o *server.Options) {
			open := o.OpenStore
			o.OpenStore = func(ctx context.Context, log *slog.Logger) (_ dedup.Store, err error) {
				f.store, err = open(ctx, log)
				return f.store, err
			}
			o.OnObserve = func(o receiver.Observation) {
				select {
				case f.seen <- o:
				default: // it must not wait: the line is dropped
				}
			}
			f.eprintf("forwarding to %s; Ctrl-C ends\n%sfrom another terminal: %s send %s %s\n", f.target.Redacted(),
				made.about, goRun(), f.vendors[0].Name, f.vendors[0].Types()[0])
		})
	cancel()
	<-ended
	return err
}

// scaffold returns the configuration. It writes the settings of each preset for send.
func (f *listenCmd) scaffold(listen string) (*scaffold, error) {
	unwritable := "set XDG_CONFIG_HOME to a folder that is writable"
	if err := os.MkdirAll(f.folder, 0o700); err != nil {
		return nil, usage.Errorf(unwritable, "%s: %s", f.folder, usage.Cause(err))
	}
	made := &scaffold{Listen: listen, URL: cmp.Or(f.public, "http://"+listen), Operations: "127.0.0.1:0",
		Store: "memory:", folder: f.folder}
	for _, vendor := range f.vendors {
		name := vendor.Name
		action := mapping{"forward": f.targetOf(name), "mode": "store"}
		if f.relay {
			action["mode"] = "relay"
		}
		if secret := f.given[name]; secret != "" {
			made.add(name, mapping{"preset": name, "secret": secret}, action, "the secret of --secret")
		} else if err := made.addPreset(vendor, action); err != nil {
			return nil, err
		}
		sends := scaffold{Listen: listen, URL: made.URL, Producers: map[string]mapping{name: made.Producers[name]}}
		if err := atomicfile.WriteText(f.sendsFrom(name), sends.yaml("")); err != nil {
			return nil, usage.Errorf(unwritable, "%v", err)
		}
	}
	return made, nil
}

// readSecrets reads --secret.
func (f *listenCmd) readSecrets() error {
	f.given = map[string]string{}
	for _, pair := range f.secrets {
		name, value, ok := strings.Cut(pair, "=")
		i := slices.IndexFunc(f.vendors, func(v preset.Preset) bool { return v.Name == name })
		switch {
		case !ok || value == "":
			return usage.Errorf("write --secret 'stripe=${STRIPE_SECRET}'", "--secret is not PRESET=VALUE")
		case i < 0:
			return usage.Errorf("add it after the target", "--secret %s: that preset is not served", name)
		case !slices.Contains(f.vendors[i].Uses, "secret"):
			return usage.Errorf("use serve with a configuration; the preset has the settings "+
				strings.Join(f.vendors[i].Uses, ", "), "--secret %s: the preset has no setting secret", name)
		}
		f.given[name] = value
	}
	return nil
}

// targetOf returns the URL for the events of a producer.
func (f *listenCmd) targetOf(name string) string {
	to := *f.target
	if to.Path == "" || to.Path == "/" {
		to.Path = "/webhooks/" + name
	}
	return to.String()
}

// sendsFrom is the file with the settings of a preset for send.
func (f *listenCmd) sendsFrom(name string) string { return filepath.Join(f.folder, name+".yaml") }

// forgetGiven removes the settings that have the secrets of --secret.
func (f *listenCmd) forgetGiven() {
	for name := range f.given {
		_ = os.Remove(f.sendsFrom(name)) // best effort: only the user can read it
	}
}

// listenLine is the line of a delivery in JSON.
type listenLine struct {
	Time     time.Time `json:"time"`
	Producer string    `json:"producer"`
	Type     string    `json:"type"`
	ID       string    `json:"id"`
	Event    string    `json:"event,omitempty"`
	Status   int       `json:"status"` // of the response to the delivery
	Code     string    `json:"code"`
	// State is that of forwarding: done, dead, or pending if it is tried again.
	State string `json:"state,omitempty"`
	Error string `json:"error,omitempty"`
	// Took is in seconds, of the attempt or else of the delivery.
	Took float64 `json:"took"`
}

// showSeen prints lines until ctx ends. An event that is stored gets its line after each attempt,
// any other delivery after its response.
func (f *listenCmd) showSeen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-f.seen:
			forwarded := o.Kind == receiver.KindDelivery && o.Code == "accepted" && !f.relay
			if o.Kind == receiver.KindDelivery && !forwarded || o.Kind == receiver.KindAttempt && !f.relay {
				f.screen.show(f.lineOf(ctx, o))
			}
		}
	}
}

func (f *listenCmd) lineOf(ctx context.Context, o receiver.Observation) listenLine {
	line := listenLine{Time: time.Now(), Producer: o.Endpoint, Type: o.Type, ID: o.ID, Event: o.Event, Status: o.Status,
		Code: string(o.Code), Took: o.Took.Seconds()}
	if o.Kind == receiver.KindAttempt {
		line.Status, line.Code, line.State = 200, "accepted", o.State.String()
		if rec, err := f.store.Get(ctx, o.Event); err == nil {
			for _, task := range rec.Tasks {
				line.Error = task.Err
			}
			line.ID, line.Type = cmp.Or(rec.Payload.VendorID, line.ID), rec.Payload.Type
		}
	} else if o.Err != nil {
		line.Error = o.Err.Error()
	}
	if o.Event != "" {
		f.last.Store(&o.Event)
	}
	return line
}

func (l listenLine) text(on *screen) string {
	text := fmt.Sprintf("%s  %-18s %-28s %d %s", l.Time.Format(time.TimeOnly), sanitize(l.Producer), sanitize(l.Type),
		l.Status, strings.ReplaceAll(l.Code, "_", " "))
	switch {
	case l.State == "done":
		text += ", forwarded"
	case l.State == "dead":
		text += ", refused by the application"
	case l.State != "":
		text += ", is forwarded again later"
	}
	if l.Error != "" {
		text += ": " + sanitize(l.Error)
	}
	took := duration.Rough(time.Duration(l.Took * float64(time.Second)))
	text = fmt.Sprintf("%s  %s  %s", text, took, sanitize(l.ID))
	if l.Status >= 400 || l.State == "dead" || l.Error != "" {
		return on.paint("31", text)
	}
	return text
}

// again sends the last event to the application, as it was accepted.
func (f *listenCmd) again(ctx context.Context) error {
	event := f.last.Load()
	if event == nil {
		return errors.New("there is no event yet")
	}
	stored, err := f.store.Get(ctx, *event)
	if err != nil {
		return err
	}
	rec, err := replay.Export(stored)
	if err != nil {
		return err
	}
	to := f.targetOf(stored.Payload.Endpoint)
	r, err := replay.Send(ctx, rec, replay.Options{URL: to, Header: replay.Original(rec)})
	if err == nil {
		f.eprintf("sent again: %d in %s\n", r.Status, duration.Rough(r.Took))
	}
	return err
}

// sample sends a sample of the next preset, as send does.
func (f *listenCmd) sample(ctx context.Context) {
	name := f.vendors[f.samples%len(f.vendors)].Name
	f.samples++
	var text bytes.Buffer
	quiet := *f.program
	quiet.Out, quiet.Err = &text, &text
	if quiet.Run(ctx, "send", name, "--config", f.sendsFrom(name), "--producer", name) != exitOK {
		f.eprintf("%s", text.String())
	}
}

// press does what a key means, and reports whether there are more.
func (f *listenCmd) press(ctx context.Context, key byte) (more bool) {
	switch {
	case f.typing && (key == '\r' || key == '\n' || key == keyEscape):
		f.typing = false
		f.screen.setFilter(f.typed)
		f.eprintf("showing lines with %q\n", f.typed)
	case f.typing && key == keyDelete:
		f.typed = f.typed[:max(0, len(f.typed)-1)]
	case f.typing && key >= ' ':
		f.typed += string(rune(key))
	case f.typing:
	case key == 'r':
		if err := f.again(ctx); err != nil {
			f.eprintf("%v\n", err)
		}
	case key == 't':
		f.sample(ctx)
	case key == '/':
		f.typing, f.typed = true, ""
		f.eprintf("show only lines with (Enter ends, empty shows all):\n")
	default:
		return pressed(ctx, f.program, f.settings, key)
	}
	return true
}
