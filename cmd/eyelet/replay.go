package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/replay"
)

type replayCmd struct {
	*program
	senderFlags
	to, output              string
	handlers, yes           bool
	sign, asRecorded, plain bool
	progress, failures      bool     // failures: successes are not printed
	set                     []string // settings of presets, from `send`
	anywhere                bool     // --url of `send` is not given
}

// payloadHelp says what commands do with folders and JSON.
const payloadHelp = "A folder means every .http, .json and .ndjson file below it. JSON is a payload (in .ndjson,\n" +
	"each line), which is signed by the producer of --producer, else by the one that a folder of its path or\n" +
	"the beginning of its name names: stripe/refund.json, github/push.json, shop-order.json."

func replayCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "replay FILE|DIR...", Short: "Send recorded deliveries again", Args: cobra.MinimumNArgs(1),
		Long: "Sends recorded deliveries (FILE.http, as `eyelet events raw` writes them) again, in the order of\n" +
			"the arguments: to a URL with --to, as they were recorded or with --sign signed afresh; or with\n" +
			"--handlers to the handlers of their events, as `eyelet events rerun` does.\n\n" + payloadHelp + "\n\n" +
			"A delivery to a URL carries the fields " + replay.FieldOriginalEvent + ",\n" +
			replay.FieldOriginalAccepted + " and " + replay.FieldOriginalAttempt + ", which no signature\n" +
			"covers. A receiver that knows the event answers from its store; one that checks the time of\n" +
			"signatures needs a fresh one. Exits 0 when all were accepted (duplicates are), 1 when one never will\n" +
			"be as it is (terminal), and 75 when the others may be accepted later (transient).",
		Example: "  eyelet replay deliveries/*.http --to http://127.0.0.1:9000\n" +
			"  eyelet replay order.http --to https://staging.example --sign --config eyelet.yaml --key shop.pem\n" +
			"  eyelet replay order.http --handlers --config eyelet.yaml",
	}
	f := &replayCmd{program: p}
	flags := c.Flags()
	flags.StringVar(&f.config, "config", "", "configuration file with the store (--handlers) or the keys (--sign)")
	flags.StringVar(&f.to, "to", "", "URL to send to; without a path the recorded targets are used")
	flags.BoolVar(&f.handlers, "handlers", false, "run the handlers of the stored events again")
	flags.BoolVar(&f.yes, "yes", false, "run the handlers without asking")
	flags.BoolVar(&f.sign, "sign", false, "sign afresh, with the key of the producer in --config, --key or "+
		"--secret-file")
	flags.BoolVar(&f.asRecorded, "as-recorded", false, "send as recorded, octet for octet (the default)")
	flags.BoolVar(&f.plain, "plain", false, "leave the Eyelet-Original fields out")
	flags.StringVar(&f.key, "key", "", "file with the private key to sign with")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the secret to sign with")
	flags.StringVar(&f.keyID, "keyid", "", "id of the key")
	flags.StringVar(&f.producer, "producer", "", "producer to sign as (default: the note of each file)")
	flags.StringVar(&f.signedURL, "signed-url", "",
		"public base that is signed, if it is not --to (default: the configuration's url)")
	flags.BoolVar(&f.progress, "progress", false, "print progress even without a terminal")
	flags.StringVarP(&f.output, "output", "o", "text", "text or json")
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{"http", "json", "ndjson"}, cobra.ShellCompDirectiveFilterFileExt
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(slices.ContainsFunc(args, isPayload)); err != nil {
			return err
		}
		all, err := readDeliveries(args)
		if err != nil {
			return err
		}
		if f.handlers {
			return f.toHandlers(c, all)
		}
		return f.toURL(c, all)
	}
	return c
}

// check checks the flags. Payloads are always signed.
func (f *replayCmd) check(hasPayloads bool) error {
	switch {
	case f.handlers == (f.to != ""):
		return usage.Errorf("write --to URL, or --handlers", "a replay goes either to a URL or to the handlers")
	case f.handlers && (f.sign || f.asRecorded || f.key != "" || f.secretFile != ""):
		return usage.Errorf("leave --sign, --as-recorded and the key out",
			"handlers get the stored event, without a signature")
	case f.sign && f.asRecorded:
		return usage.Errorf("leave one of them out", "--sign and --as-recorded are both given")
	case !f.sign && !hasPayloads && (f.key != "" || f.secretFile != "" || f.keyID != "" || f.producer != ""):
		return usage.Errorf("write --sign too", "there is a key, but --sign is missing")
	case f.handlers:
		return nil
	}
	if u, err := url.Parse(f.to); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usage.Errorf("write it whole, as in http://127.0.0.1:8080", "--to is not a URL of http or https")
	}
	return nil
}

// outgoing is a delivery in a file: a recording, or else a payload.
type outgoing struct {
	rec     *replay.Recording
	payload payload
}

// readDeliveries reads all files, and those of folders, before the first is sent, so that an error
// in the last sends none.
func readDeliveries(paths []string) ([]outgoing, error) {
	files, err := expandFolders(paths)
	if err != nil {
		return nil, err
	}
	var all []outgoing
	var found usage.Errors
	for _, file := range files {
		var err error
		if isPayload(file) {
			var some []payload
			some, err = readPayloads(file)
			for _, one := range some {
				all = append(all, outgoing{payload: one})
			}
		} else {
			var rec *replay.Recording
			rec, err = readRecording(file)
			all = append(all, outgoing{rec: rec})
		}
		if ms, ok := usage.Find(err); ok {
			found = append(found, ms...)
		}
	}
	return all, found.Err()
}

// toHandlers runs the events of the recordings again.
func (f *replayCmd) toHandlers(c *cobra.Command, all []outgoing) error {
	var events []selected
	for _, d := range all {
		rec := d.rec
		if rec == nil {
			return usage.Errorf("`eyelet send` sends it", "%s is a payload, and no stored event", d.payload.name)
		}
		event := rec.Note("event")
		if event == "" {
			return usage.Errorf("`eyelet events raw` writes it; other recordings are sent with --to",
				`%s has no note "# event: ..." of a stored event`, rec.Name)
		}
		events = append(events, selected{event: event})
	}
	return f.withEvents(c, f.config, func(client *opsclient.Client) error {
		if !f.yes {
			if err := confirmRerun(f.program, len(events)); err != nil {
				return err
			}
		}
		r := &bulkRun{program: f.program, done: rerunning.done, format: f.output, progress: f.progress, inOrder: true}
		r.apply = func(ctx context.Context, e selected) (string, error) {
			return "", rerunning.apply(ctx, client, e, nil)
		}
		return r.run(c.Context(), events)
	})
}

// replayed is the result of one recording.
type replayed struct {
	File    string `json:"file"`
	Event   string `json:"event,omitempty"`
	Status  int    `json:"status,omitempty"`
	Outcome string `json:"outcome"`
	Verdict string `json:"verdict"`
	Code    string `json:"code,omitempty"`
	Error   string `json:"error,omitempty"`
}

// toURL sends the deliveries to a URL.
func (f *replayCmd) toURL(c *cobra.Command, all []outgoing) error {
	signers := map[string]*sender{}
	var recs []*replay.Recording
	var options []replay.Options
	for _, d := range all {
		rec := d.rec
		var o replay.Options
		var err error
		if rec == nil {
			rec, o, err = f.signed(c, d.payload, signers)
		} else {
			o, err = f.options(c, rec, signers)
		}
		if err != nil {
			return err
		}
		recs, options = append(recs, rec), append(options, o)
	}
	client := replay.NewClient()
	defer client.CloseIdleConnections()
	bar := newProgress(f.program, f.progress, "sent", len(recs))
	f.failures = bar.hides()
	var outcomes []forward.Outcome
	for i, rec := range recs {
		options[i].Client = client
		if options[i].Sign != nil {
			options[i].Now = time.Now()
		}
		r, err := replay.Send(c.Context(), rec, options[i])
		if c.Context().Err() != nil {
			return failf("stopped after %d of %d", i, len(recs))
		}
		s := outcomeOf(rec, r, err)
		outcomes = append(outcomes, s.outcome)
		line := replayed{File: rec.Name, Event: rec.Note("event"), Status: r.Status, Outcome: s.outcome.String(),
			Verdict: s.verdict, Code: r.Code}
		if err != nil {
			line.Error = err.Error()
		}
		if err := f.print(line); err != nil {
			return err
		}
		bar.at(i + 1)
	}
	bar.end(len(recs))
	return exitWith(exitOf(outcomes...), "")
}

// options returns how a recording is sent. Keys are read once per producer.
func (f *replayCmd) options(c *cobra.Command, rec *replay.Recording, signers map[string]*sender) (replay.Options,
	error) {
	o := replay.Options{URL: f.to, SignedURL: f.signedURL}
	if !f.plain {
		o.Header = replay.Original(rec)
	}
	if !f.sign {
		return o, nil
	}
	from, err := f.sender(c, cmp.Or(f.producer, rec.Note("producer")), signers)
	if err != nil {
		return o, err
	}
	if from.sign == nil {
		return o, usage.Errorf("give --key or --secret-file, or --config whose producer has a secret",
			"there is no key to sign %s with", rec.Name)
	}
	o.Sign, o.SignedURL = from.sign, from.signedURL
	return o, nil
}

// sender returns the signer of a producer.
func (f *replayCmd) sender(c *cobra.Command, name string, signers map[string]*sender) (*sender, error) {
	if from, ok := signers[name]; ok {
		return from, nil
	}
	flags := f.senderFlags
	flags.url, flags.producer = f.to, ""
	if f.anywhere {
		flags.url = ""
	}
	if !exists(cmp.Or(f.source(c, f.config).File, config.DefaultFile)) && len(f.set) == 0 {
		flags = flags.orListening(f.Environ, name)
	}
	if f.config != "" || f.key == "" && f.secretFile == "" && len(f.set) == 0 {
		flags.producer = name
	}
	from, err := newSender(c, f.program, flags)
	if err == nil {
		from.keyID = f.keyID
		signers[name] = from
	}
	return from, err
}

// signed makes a delivery of a payload, signed by the producer that its path or --producer names.
func (f *replayCmd) signed(c *cobra.Command, p payload, signers map[string]*sender) (*replay.Recording, replay.Options,
	error) {
	known := presetNames()
	if f.config != "" {
		s, err := f.source(c, f.config).Load()
		if err != nil {
			return nil, replay.Options{}, err
		}
		known = s.ProducerNames()
	}
	name, kind := p.origin(f.producer, known)
	if name == "" {
		return nil, replay.Options{}, noOrigin(p, known)
	}
	from, err := f.sender(c, name, signers)
	if err != nil {
		return nil, replay.Options{}, err
	}
	if from.config == nil {
		from.config = &config.Producer{Name: name}
		if vendor, ok := preset.Find(name); ok {
			samples := &sendCmd{program: f.program, set: f.set}
			from.config = nil // the settings are those of the flags
			set, err := samples.sampleSettings(vendor, from)
			if err != nil {
				return nil, replay.Options{}, err
			}
			from.config = &config.Producer{Name: name, Preset: name, PresetSettings: set}
		}
	}
	rec, base, unsigned, err := from.delivery(p, kind)
	if vendor, ok := preset.Find(from.config.Preset); ok && err == nil {
		for _, doubt := range doubts(rec, vendor, from.config.PresetSettings) {
			f.eprintf("warning: %s: %s\n", rec.Name, doubt)
		}
	}
	o := replay.Options{URL: base, SignedURL: from.signedURL}
	if unsigned {
		o.Sign = from.sign
	}
	return rec, o, err
}

// noOrigin is the error of a payload whose producer is unknown.
func noOrigin(p payload, known []string) error {
	return usage.Errorf("move it into a folder with the name of one, as in stripe/, or write --producer; there are: "+
		strings.Join(known, ", "), "%s: its path names no producer", p.name)
}

func (f *replayCmd) print(line replayed) error {
	switch {
	case f.output == "json":
		return json.NewEncoder(f.Out).Encode(line)
	case f.failures && line.Outcome == forward.Accepted.String() && line.Verdict != verdictQuarantined:
		return nil
	}
	if line.Error != "" {
		f.printf("%s: %s: %s\n", line.File, line.Verdict, usage.OneLine(line.Error))
		return nil
	}
	f.printf("%s: %d %s", line.File, line.Status, line.Verdict)
	if line.Code != "" {
		f.printf(": %s", sanitize(line.Code))
	}
	f.printf("\n")
	return nil
}
