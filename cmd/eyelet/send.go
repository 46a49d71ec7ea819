package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/replay"
)

// sendCmd reads its arguments into [outgoing] deliveries, makes them [prepared], and sends them.
type sendCmd struct {
	*program
	senderFlags
	bodyEdits
	id, kind, output string
	fresh, form      bool
	watch            bool
	plain, progress  bool
	header, set      []string
	own              []preset.Preset    // of the configuration
	senders          map[string]*sender // by the producer or the preset
}

func sendCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "send FILE... | DIR... | PRESET [TYPE] [FILE]", Aliases: []string{"replay", "trigger"},
		Short: "Send a recording, a payload or a sample", Args: cobra.MinimumNArgs(1),
		Long: "Sends the deliveries of files (\"-\" is standard input): recordings as they are, or signed afresh if\n" +
			"there is a key, a --producer or --sign; payloads signed. The name of a PRESET sends a sample of that\n" +
			"vendor, of the given or a usual TYPE, to any URL; every sample is a new event, unless --id and --now\n" +
			"say otherwise. A FILE after it is the body of the sample. `eyelet producers PRESET` lists types.\n\n" +
			inputHelp + "\n\n" +
			"The key is that of --key (a private key in PEM), --secret-file, or a producer in --config; without\n" +
			"one, `eyelet listen` has it, and gets the delivery. --set gives further settings of a preset, as in\n" +
			"eyelet.yaml. What `eyelet events show --raw` wrote carries " + replay.FieldOriginalEvent + ",\n" +
			replay.FieldOriginalAccepted + " and " + replay.FieldOriginalAttempt + ", which no signature\n" +
			"covers.\n\n" +
			"Exits 0 when all were accepted (duplicates are), 75 when one may be accepted later (transient: 503,\n" +
			"409 to an Idempotency-Key, no answer, ...), and 1 when one never will be as it is (terminal).",
		Example: "  eyelet send order.json --key shop.pem --keyid shop --url http://127.0.0.1:8080/webhooks/shop\n" +
			"  eyelet send order.json --config eyelet.yaml --producer gh\n" +
			"  eyelet send stripe charge.refunded --secret-file stripe.secret --url http://127.0.0.1:9000/hooks\n" +
			"  eyelet send chargebee --set username=kettle --set password_file=p.txt --url http://127.0.0.1:9000/\n" +
			"  eyelet send github push body.json --secret-file github.secret\n" +
			"  eyelet send stripe invoice.paid --override data.object.amount_paid=5 --secret-file stripe.secret\n" +
			"  eyelet send fixtures/ --watch --config eyelet.yaml\n" +
			"  eyelet send deliveries/*.http --url http://127.0.0.1:9000\n" +
			"  eyelet send capture.har --url http://127.0.0.1:9000\n" +
			"  pbpaste | eyelet send - --config eyelet.yaml --producer gh   # a curl command",
	}
	c.ValidArgsFunction = completeSend
	f := &sendCmd{program: p}
	flags := c.Flags()
	flags.StringVar(&f.config, "config", "", "configuration file with the producer's keys, and its url")
	flags.StringVar(&f.producer, "producer", "", "producer of the configuration to sign as (default: that of each "+
		"file)")
	flags.StringVar(&f.tenant, "tenant", "", "tenant of the producer to sign as")
	flags.StringVar(&f.url, "url", "", "where to send to (default: the configuration's listen, else "+
		"http://127.0.0.1:8080); without a path that of a recording is used")
	flags.StringVar(&f.url, "to", "", "")
	_ = flags.MarkHidden("to") // of replay
	flags.StringVar(&f.signedURL, "signed-url", "",
		"public base that is signed, if it is not --url (default: the configuration's url)")
	flags.StringVar(&f.key, "key", "", "file with the private key")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the secret of hmac-sha256")
	flags.StringVar(&f.keyID, "keyid", "", "id of the key")
	flags.StringVar(&f.label, "label", "", "label of the signature (default: the producer's, else sig1)")
	flags.BoolVar(&f.fresh, "sign", false, "sign a recording afresh")
	flags.BoolVar(&f.plain, "plain", false, "leave the Eyelet-Original fields out")
	flags.BoolVar(&f.progress, "progress", false, "print progress even without a terminal")
	flags.StringVarP(&f.output, "output", "o", "text", "text or json")
	flags.StringVar(&f.id, "id", "", "idempotency identifier of a payload that has none (default: a new one)")
	flags.StringVar(&f.kind, "type", "", "event type of a payload, where its producer reads it")
	flags.StringVar(&f.at, "now", "", "unix time of the signature (default: the present)")
	flags.StringArrayVar(&f.set, "set", nil, "setting of the preset of a sample, as NAME=VALUE; lists and mappings "+
		"in YAML")
	flags.BoolVar(&f.form, "form", false, "send the JSON of a sample in a form, as GitHub does by default")
	flags.StringArrayVarP(&f.header, "header", "H", nil, `header field of a payload, as "Name: value"`)
	flags.BoolVar(&f.watch, "watch", false, "then send each file again that changes, until Ctrl-C")
	f.addFlags(flags)
	c.RunE = f.run
	return c
}

// completeSend completes presets, and the types of one.
func completeSend(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return presetNames(), cobra.ShellCompDirectiveDefault
	}
	if vendor, ok := preset.Find(args[0]); ok && len(args) == 1 {
		return vendor.Types(), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// run sends the deliveries of the arguments, and with --watch each file again when it changes.
func (f *sendCmd) run(c *cobra.Command, args []string) error {
	before := fileStates(args)
	err := f.send(c, args)
	if !f.watch {
		return err
	}
	if err != nil {
		f.explain(err)
	}
	f.eprintf("watching %s; Ctrl-C ends it\n", strings.Join(args, " "))
	watchFiles(c.Context(), args, before, func(files []string) {
		if err := f.send(c, files); err != nil {
			f.explain(err)
		}
	})
	return nil
}

// send reads and signs all deliveries before it sends the first.
func (f *sendCmd) send(c *cobra.Command, args []string) error {
	src := f.source(c, f.config)
	src.Outline = true
	if s, err := src.Load(); err == nil { // there may be no configuration
		f.own = s.OwnPresets
	}
	all, err := f.read(args)
	if err != nil {
		return err
	}
	known := presetNames()
	if f.config != "" {
		s, err := f.source(c, f.config).Load()
		if err != nil {
			return err
		}
		known = s.ProducerNames()
	}
	f.senders = map[string]*sender{}
	var signed []prepared
	for _, d := range all {
		one, err := f.sign(c, d, known)
		if err != nil {
			return err
		}
		for _, doubt := range one.doubts {
			if len(all) > 1 {
				doubt = one.rec.Name + ": " + doubt
			}
			f.eprintf("warning: %s\n", doubt)
		}
		signed = append(signed, one)
	}
	return f.transmit(c, signed)
}

// outgoing is what the arguments say about a delivery: what a file holds, or a sample of a preset,
// whose body a file may have.
type outgoing struct {
	input
	sample *preset.Preset
	kind   string // of the sample; empty for a usual one
}

// read reads FILE... or PRESET [TYPE] [FILE].
func (f *sendCmd) read(args []string) (all []outgoing, err error) {
	if vendor, ok := config.FindPreset(args[0], f.own); ok && !exists(args[0]) {
		one, err := f.readSample(vendor, args[1:])
		return []outgoing{one}, err
	}
	inputs, err := readFiles(f.In, args)
	if len(inputs) > 1 && err == nil && (f.id != "" || !f.none() || len(f.header) > 0) {
		err = usage.Errorf("send one delivery with them", "--id, -H, --override, --add and --edit change one delivery")
	}
	for _, one := range inputs {
		all = append(all, outgoing{input: one})
	}
	return all, err
}

// readSample reads [TYPE] [FILE] after a preset.
func (f *sendCmd) readSample(vendor preset.Preset, args []string) (one outgoing, err error) {
	one.sample = &vendor
	file := ""
	if n := len(args) - 1; n >= 0 && (n > 0 || args[n] == "-" || exists(args[n])) {
		file, args = args[n], args[:n]
	}
	one.kind = cmp.Or(append(args, f.kind)...)
	switch {
	case len(args) > 1:
		return one, usage.Errorf("write eyelet send PRESET [TYPE] [FILE]", "%q is one argument too many", args[1])
	case len(args) == 1 && f.kind != "":
		return one, usage.Errorf("leave out one", "TYPE and --type are both given")
	case file == "":
		return one, nil
	case one.kind == "":
		one.kind = typeIn(vendor, afterNumber(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))))
		if field, ok := strings.CutPrefix(vendor.TypeFrom(), "header:"); ok && !vendor.Lists(one.kind) {
			return one, usage.Errorf("write eyelet send "+vendor.Name+" TYPE "+file, "%s has its type in %s, and %s "+
				"names none", vendor.Name, field, file)
		}
	}
	some, err := readInputs(f.In, file)
	if err != nil {
		return one, err
	}
	if len(some) != 1 || some[0].rec != nil {
		return one, usage.Errorf("send it without a preset", "%s is not the body of one delivery", file)
	}
	one.input = some[0]
	return one, nil
}

// prepared is a delivery that can be sent.
type prepared struct {
	rec    *replay.Recording
	o      replay.Options
	doubts []string
}

// sign makes a delivery, signed by the producer that --producer, its note or its path names.
func (f *sendCmd) sign(c *cobra.Command, d outgoing, known []string) (one prepared, err error) {
	fresh := f.fresh || f.keyFlag() != "" || f.producer != ""
	if d.rec != nil && len(f.header) > 0 {
		return one, usage.Errorf("write the field into the recording", "-H is for payloads and samples")
	}
	name, stem := f.producer, ""
	switch {
	case d.sample != nil:
	case d.rec == nil:
		name, stem = d.origin(f.producer, known)
		_, ok := config.FindPreset(name, f.own)
		if len(f.set) > 0 && !ok {
			return one, usage.Errorf("`eyelet producers` lists them", "--set and --form are for samples of presets")
		} else if name == "" && f.keyFlag() == "" {
			return one, noOrigin(d.input, known)
		}
	case fresh:
		name = cmp.Or(f.producer, d.rec.Note("producer"))
	case !f.none():
		return one, usage.Errorf("add --sign, and a key", "another body needs another signature")
	}
	from, err := f.sender(c, d, name)
	if err != nil {
		return one, err
	}
	one.o = replay.Options{URL: from.url, SignedURL: from.signedURL, Now: from.now}
	edit := func(body []byte) ([]byte, error) { return f.apply(c.Context(), f.program, body) }
	if d.rec == nil {
		err = f.draft(&one, d, stem, from, edit)
	} else {
		err = f.again(&one, d.rec, fresh, from, edit)
	}
	if err == nil {
		vendor, _ := from.config.Vendor()
		one.doubts = doubts(one.rec, vendor, from.config.PresetSettings)
	}
	return one, err
}

// again prepares a recording.
func (f *sendCmd) again(one *prepared, rec *replay.Recording, fresh bool, from *sender,
	edit func([]byte) ([]byte, error)) (err error) {
	one.rec = rec
	if !f.plain {
		one.o.Header = replay.Original(rec)
	}
	if code := rec.Note("unverified"); fresh && code != "" {
		return failf("%s did not verify when it was received (%s): any client may have sent it, so it is not signed",
			rec.Name, sanitize(code))
	}
	if fresh && from.sign == nil {
		return usage.Errorf("give --key, --secret-file, or --config with --producer",
			"there is no key to sign %s with", rec.Name)
	}
	if fresh {
		one.o.Sign = from.sign
	}
	rec.Body, err = edit(rec.Body)
	return err
}

// draft makes the delivery of a payload or a sample.
func (f *sendCmd) draft(one *prepared, d outgoing, stem string, from *sender, edit func([]byte) ([]byte, error)) error {
	made := d.draft(from, stem)
	made.kind, made.id, made.form, made.edit = cmp.Or(d.kind, f.kind, made.kind), f.id, f.form, edit
	if d.sample != nil {
		made.name = d.sample.Name
	}
	vendor, _ := from.config.Vendor()
	if slices.Contains(vendor.Uses, "roots") { // of the vendor's certificates
		f.eprintf("a receiver refuses this sample unless it trusts your key in place of the certificate of %s, "+
			"which Eyelet reads only from the vendor's hosts\n", vendor.Name)
	}
	var err error
	if made.header, err = f.fields(); err != nil {
		return err
	}
	one.rec, one.o.URL, one.o.Sign, err = from.deliver(made)
	return err
}

// fields returns the fields of -H.
func (f *sendCmd) fields() (http.Header, error) {
	header := http.Header{}
	for _, line := range f.header {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usage.Errorf(`write -H "X-GitHub-Event: push"`, "%q is not a header field", line)
		}
		header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return header, nil
}

// sender returns the sender of a delivery that the named producer signs. Where no flag has a key,
// that of the configuration is taken, or without one that of listen.
func (f *sendCmd) sender(c *cobra.Command, d outgoing, name string) (*sender, error) {
	if from, ok := f.senders[name]; ok {
		return from, nil
	}
	flags := f.senderFlags
	vendor, ok := config.FindPreset(name, f.own)
	withKey := f.keyFlag() != "" || len(f.set) > 0
	switch file := exists(cmp.Or(f.source(c, f.config).File, config.DefaultFile)); {
	case d.sample != nil:
		vendor, ok = *d.sample, true
		if len(f.set) == 0 {
			flags = flags.orListening(f.Environ, vendor.Name)
		}
	case !file && !withKey:
		flags.producer = ""
		if flags = flags.orListening(f.Environ, name); flags.producer == "" {
			flags.producer = name
		}
	case f.config != "" || !withKey || f.producer != "" && file:
		flags.producer = name
	default:
		flags.producer = ""
	}
	from, err := flags.open(c.Context(), f.source(c, flags.config))
	if err == nil && ok && (d.sample != nil || d.rec == nil && from.producer == nil) {
		err = from.use(vendor, f.set, f.Environ)
	}
	f.senders[name] = from
	return from, err
}

// transmit sends one delivery after the other, with a line for each. Of a single one it prints all
// that is known about the response.
func (f *sendCmd) transmit(c *cobra.Command, all []prepared) error {
	client := replay.NewClient()
	defer client.CloseIdleConnections()
	single := len(all) == 1 && !f.watch
	var bar *progress
	if !single {
		bar = newProgress(f.program, f.progress, "sent", len(all))
	}
	failures := bar.hides()
	var outcomes []forward.Outcome
	what := ""
	for i, d := range all {
		d.o.Client = client
		if d.o.Sign != nil && f.at == "" {
			d.o.Now = time.Now()
		}
		r, err := replay.Send(c.Context(), d.rec, d.o)
		if c.Context().Err() != nil {
			return failf("stopped after %d of %d", i, len(all))
		}
		s := sent{d.rec, d.o.Now, r, err, outcomeOf(d.rec, r, err)}
		outcomes = append(outcomes, s.outcome)
		if single && err != nil {
			what = usage.OneLine(fmt.Sprintf("%s: %v", serverOf(d.o.URL), err))
		}
		switch {
		case f.output == "json":
			if err := f.encode(s.object()); err != nil {
				return err
			}
		case single && err == nil:
			s.print(f.program)
		case !single:
			s.printLine(f.program, failures)
		}
		bar.at(i + 1)
	}
	bar.end(len(all))
	return exitWith(exitOf(outcomes...), what)
}

// serverOf returns scheme and host of a URL, whose other parts may be secret.
func serverOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the receiver"
	}
	return u.Scheme + "://" + u.Host
}
