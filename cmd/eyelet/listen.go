package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/exchange"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/tunnel"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/atomicfile"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

type listenCmd struct {
	*program
	listen, public, format string
	secrets                []string
	relay                  bool
	events, header         []string
	path, tunnel           string
	status                 int

	target  *url.URL
	vendors []preset.Preset
	given   map[string]string // secrets by preset
	folder  string            // of [listenFolder]
	about   string            // where deliveries go, and how they are signed

	screen   *screen
	settings *config.Settings
	store    dedup.Store
	seen     chan receiver.Observation
	sent     exchange.Log // what the application was sent
	list     *tea.Program // on a terminal; else nil
	samples  atomic.Int32 // that were sent
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
			"response is that of the delivery; --status chooses one, to see how the sender retries.\n" +
			"--tunnel starts cloudflared, ngrok or tailscale, the first that is installed, and takes its URL.\n\n" +
			"On a terminal the deliveries are a list: d shows the selected one and the application's response, r\n" +
			"sends it there again, e explains why it was refused, c copies it as curl, t sends a sample of the next\n" +
			"PRESET here, / filters, i shows addresses and secrets, o opens the page of eyelet open, and q ends.",
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
	flags.StringSliceVar(&f.events, "events", nil, "forward only these types, as TYPE,TYPE; also \"prefix*\"")
	flags.StringArrayVarP(&f.header, "header", "H", nil, "further field for the application, as \"NAME: VALUE\"")
	flags.StringVar(&f.path, "path", "", "path at the application, instead of that in TARGET")
	flags.IntVar(&f.status, "status", 0, "answer accepted deliveries with this status")
	flags.StringVar(&f.tunnel, "tunnel", "", "start a tunnel: the first installed of "+
		strings.Join(tunnel.Names(), ", ")+", or the one named with =")
	flags.Lookup("tunnel").NoOptDefVal = anyTunnel
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

// anyTunnel is --tunnel without a name.
const anyTunnel = "any"

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
	if err := f.parseFlags(); err != nil {
		return err
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

// parseFlags reads what the flags say about requests and responses.
func (f *listenCmd) parseFlags() error {
	if f.path != "" {
		f.target.Path = "/" + strings.TrimPrefix(f.path, "/")
	}
	f.sent.Header = http.Header{}
	for _, field := range f.header {
		name, value, ok := strings.Cut(field, ":")
		if !ok || !verify.IsToken(name) || strings.ContainsFunc(value, unicode.IsControl) {
			return usage.Errorf(`write -H "X-Name: value"`, "--header is not NAME: VALUE")
		}
		f.sent.Header.Add(name, strings.TrimSpace(value))
	}
	switch {
	case f.status != 0 && (f.status < 200 || f.status > 599):
		return usage.Errorf("write --status 500", "--status %d is not a status of a response", f.status)
	case f.status != 0 && f.relay:
		return usage.Errorf("leave one out", "--status and --relay choose the response twice")
	case f.tunnel != "" && f.public != "":
		return usage.Errorf("leave one out", "--tunnel and --url name the public base twice")
	}
	return nil
}

// startTunnel starts the tunnel of --tunnel, if it is given, and returns what ends it.
func (f *listenCmd) startTunnel(ctx context.Context, listen string) (end func(), err error) {
	if f.tunnel == "" {
		return func() {}, nil
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}
	name := f.tunnel
	if name == anyTunnel {
		name = ""
	}
	f.eprintf("starting a tunnel to %s\n", listen)
	t, err := tunnel.Start(ctx, name, host, port)
	if err != nil {
		return nil, usage.Errorf("start one yourself, and write --url with its address", "%v", err)
	}
	f.public = t.URL
	return t.Stop, nil
}

// run serves until ctx ends, or a person presses q.
func (f *listenCmd) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listen, err := freeAddress(ctx, f.listen, config.DefaultListen)
	if err != nil {
		return err
	}
	end, err := f.startTunnel(ctx, listen)
	if err != nil {
		return err
	}
	defer end()
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
	f.about = fmt.Sprintf("forwarding to %s; Ctrl-C ends\n%sfrom another terminal: %s send %s %s\n",
		f.target.Redacted(), made.about, goRun(), f.vendors[0].Name, f.vendors[0].Types()[0])
	serve := serveWithKeys
	if f.format != "json" && f.hasCursor(f.Out) && isTerminal(f.In) {
		f.list, serve = f.newList(ctx), f.serveWithList
	} else {
		f.eprintf("%s", f.about)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.showSeen(ctx)
	}()
	err = serve(ctx, f.program, f.settings, f.begin)
	cancel()
	<-ended
	return err
}

// begin changes the options of the server.
func (f *listenCmd) begin(o *server.Options) {
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
	o.Targets.Wrap = f.sent.Wrap
	if f.status != 0 {
		o.Wrap = func(next http.Handler) http.Handler { return answering(f.status, next) }
	}
}

// answering answers with a status, without a body, what next accepts.
func answering(status int, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&chosenStatus{ResponseWriter: w, status: status}, r)
	})
}

type chosenStatus struct {
	http.ResponseWriter
	status        int
	begun, chosen bool
}

func (c *chosenStatus) WriteHeader(status int) {
	if status >= 200 && !c.begun {
		c.begun, c.chosen = true, status < 300
	}
	if c.chosen {
		status = c.status
		c.Header().Del("Content-Length")
		c.Header().Del("Content-Type")
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *chosenStatus) Write(body []byte) (int, error) {
	if !c.begun {
		c.WriteHeader(http.StatusOK)
	}
	if c.chosen {
		return len(body), nil
	}
	return c.ResponseWriter.Write(body)
}

// Unwrap is for [http.ResponseController].
func (c *chosenStatus) Unwrap() http.ResponseWriter { return c.ResponseWriter }

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
	if len(f.events) > 0 {
		var chosen []mapping
		for _, handler := range made.Handlers {
			for _, typ := range f.events {
				one := maps.Clone(handler)
				one["type"], one["name"] = typ, fmt.Sprintf("%s/%s/forward", handler["producer"], typ)
				chosen = append(chosen, one)
			}
		}
		made.Handlers = chosen
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
				f.show(f.lineOf(ctx, o))
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
	if line.Status < 300 {
		line.Status = cmp.Or(f.status, line.Status)
	}
	return line
}

// bad reports that a person should look at the delivery.
func (l listenLine) bad() bool {
	return l.Code != "accepted" && l.Status >= 400 || l.State == "dead" || l.Error != ""
}

// outcome says what became of the delivery.
func (l listenLine) outcome() string {
	text := strings.ReplaceAll(l.Code, "_", " ")
	switch {
	case l.State == "done":
		text += ", forwarded"
	case l.State == "dead":
		text += ", refused by the application"
	case l.State != "":
		text += ", is forwarded again later"
	}
	why := sanitize(l.Error)
	switch {
	case l.Error == "":
		return text
	case strings.HasPrefix(why, text):
		return why
	}
	return text + ": " + why
}

func (l listenLine) took() string {
	return duration.Rough(time.Duration(l.Took * float64(time.Second)))
}

func (l listenLine) text(on *screen) string {
	text := fmt.Sprintf("%s  %-18s %-28s %d %s  %s  %s", l.Time.Format(time.TimeOnly), sanitize(l.Producer),
		sanitize(l.Type), l.Status, l.outcome(), l.took(), sanitize(l.ID))
	if l.bad() {
		return on.paint("31", text)
	}
	return text
}
