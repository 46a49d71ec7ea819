package main

import (
	"cmp"
	"encoding/json"
	"fmt"
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

// replayCommand is send for files, whose URL is --to; with --handlers it is events rerun.
func replayCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "replay FILE|DIR...", Short: "Send recorded deliveries again: see send", Hidden: true,
		Args: cobra.MinimumNArgs(1),
		Long: "Sends files to --to as `eyelet send` does to --url, recordings only with --sign afresh; or runs the\n" +
			"handlers of the events that were recorded, as `eyelet events rerun` does.",
	}
	f := &sendCmd{program: p}
	f.addFlags(c, "to")
	c.Flags().BoolVar(&f.asRecorded, "as-recorded", false, "send as recorded, octet for octet (the default)")
	c.Flags().BoolVar(&f.handlers, "handlers", false, "run the handlers of the stored events again")
	c.Flags().BoolVar(&f.yes, "yes", false, "run the handlers without asking")
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{"http", "json", "ndjson"}, cobra.ShellCompDirectiveFilterFileExt
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.checkReplay(slices.ContainsFunc(args, isPayload)); err != nil {
			return err
		}
		f.asRecorded = !f.fresh
		if f.handlers {
			return f.rerun(c, args)
		}
		return f.sendFiles(c, args)
	}
	return c
}

// checkReplay checks the flags of replay. Payloads are always signed.
func (f *sendCmd) checkReplay(hasPayloads bool) error {
	switch {
	case f.handlers == (f.url != ""):
		return usage.Errorf("write --to URL, or --handlers", "a replay goes either to a URL or to the handlers")
	case f.handlers && (f.fresh || f.asRecorded || f.keyFlag() != ""):
		return usage.Errorf("leave --sign, --as-recorded and the key out",
			"handlers get the stored event, without a signature")
	case f.fresh && f.asRecorded:
		return usage.Errorf("leave one of them out", "--sign and --as-recorded are both given")
	case !f.handlers && !f.fresh && !hasPayloads && f.keyFlag()+f.keyID+f.producer != "":
		return usage.Errorf("write --sign too", "there is a key, but --sign is missing")
	}
	return nil
}

// rerun runs the command events rerun for the events of recordings.
func (f *sendCmd) rerun(c *cobra.Command, paths []string) error {
	all, err := readDeliveries(paths)
	if err != nil {
		return err
	}
	args := []string{"events", "rerun", "--output", f.output, fmt.Sprintf("--yes=%t", f.yes),
		fmt.Sprintf("--progress=%t", f.progress)}
	if f.config != "" {
		args = append(args, "--config", f.config)
	}
	for _, d := range all {
		if d.rec == nil {
			return usage.Errorf("`eyelet send` sends it", "%s is a payload, and no stored event", d.payload.name)
		}
		event := d.rec.Note("event")
		if event == "" {
			return usage.Errorf("`eyelet events show --raw` writes it; `eyelet send` sends other recordings",
				`%s has no note "# event: ..." of a stored event`, d.rec.Name)
		}
		args = append(args, event)
	}
	return exitWith(f.Run(c.Context(), args...), "")
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

// sendFiles sends the deliveries of files and folders, and with --watch each file again when it
// changes.
func (f *sendCmd) sendFiles(c *cobra.Command, paths []string) error {
	if f.id != "" || !f.none() || len(f.header) > 0 {
		return usage.Errorf("send one delivery with them", "--id, -H, --override, --add and --edit change one delivery")
	}
	send := func(paths []string) error {
		all, err := readDeliveries(paths)
		if err != nil {
			return err
		}
		return f.sendMany(c, all)
	}
	before := fileStates(paths)
	err := send(paths)
	if !f.watch {
		return err
	}
	if err != nil {
		f.explain(err)
	}
	f.eprintf("watching %s; Ctrl-C ends it\n", strings.Join(paths, " "))
	watchFiles(c.Context(), paths, before, func(files []string) {
		if err := send(files); err != nil {
			f.explain(err)
		}
	})
	return nil
}

// replayed is the result of one of several deliveries.
type replayed struct {
	File    string `json:"file"`
	Event   string `json:"event,omitempty"`
	Status  int    `json:"status,omitempty"`
	Outcome string `json:"outcome"`
	Verdict string `json:"verdict"`
	Code    string `json:"code,omitempty"`
	Error   string `json:"error,omitempty"`
}

// sendMany signs all deliveries, then sends one after the other, with a line for each.
func (f *sendCmd) sendMany(c *cobra.Command, all []outgoing) error {
	signers := map[string]*sender{}
	options := make([]replay.Options, len(all))
	for i, d := range all {
		var err error
		if all[i].rec, options[i], err = f.signOneOf(c, d, signers); err != nil {
			return err
		}
	}
	client := replay.NewClient()
	defer client.CloseIdleConnections()
	bar := newProgress(f.program, f.progress, "sent", len(all))
	f.failures = bar.hides()
	var outcomes []forward.Outcome
	for i, o := range options {
		rec := all[i].rec
		o.Client = client
		if o.Sign != nil {
			o.Now = time.Now()
		}
		r, err := replay.Send(c.Context(), rec, o)
		if c.Context().Err() != nil {
			return failf("stopped after %d of %d", i, len(all))
		}
		s := outcomeOf(rec, r, err)
		outcomes = append(outcomes, s.outcome)
		line := replayed{File: rec.Name, Event: rec.Note("event"), Status: r.Status, Outcome: s.outcome.String(),
			Verdict: s.verdict, Code: r.Code}
		if err != nil {
			line.Error = err.Error()
		}
		if err := f.printLine(line); err != nil {
			return err
		}
		bar.at(i + 1)
	}
	bar.end(len(all))
	return exitWith(exitOf(outcomes...), "")
}

// signOneOf returns one of several deliveries, and how it is sent. Keys are read once per producer.
func (f *sendCmd) signOneOf(c *cobra.Command, d outgoing, signers map[string]*sender) (*replay.Recording,
	replay.Options, error) {
	if d.rec == nil {
		return f.signPayload(c, d.payload, signers)
	}
	name := ""
	if f.signs() {
		name = cmp.Or(f.producer, d.rec.Note("producer"))
	}
	from, err := f.sender(c, name, signers)
	if err != nil {
		return nil, replay.Options{}, err
	}
	o, err := f.options(d.rec, from, f.signs())
	return d.rec, o, err
}

// sender returns the signer of a producer.
func (f *sendCmd) sender(c *cobra.Command, name string, signers map[string]*sender) (*sender, error) {
	if from, ok := signers[name]; ok {
		return from, nil
	}
	flags := f.senderFlags
	flags.producer = ""
	if !exists(cmp.Or(f.source(c, f.config).File, config.DefaultFile)) && len(f.set) == 0 {
		flags = flags.orListening(f.Environ, name)
	}
	if f.config != "" || f.keyFlag() == "" && len(f.set) == 0 {
		flags.producer = name
	}
	from, err := newSender(c, f.program, flags)
	if err == nil {
		from.keyID = f.keyID
		signers[name] = from
	}
	return from, err
}

// signPayload makes a delivery of a payload, signed by the producer that --producer or its path
// names.
func (f *sendCmd) signPayload(c *cobra.Command, p payload, signers map[string]*sender) (*replay.Recording,
	replay.Options, error) {
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
	if vendor, ok := preset.Find(name); ok && from.config == nil { // the settings are those of the flags
		set, err := f.sampleSettings(vendor, from)
		if err != nil {
			return nil, replay.Options{}, err
		}
		from.config = &config.Producer{Name: name, Preset: name, PresetSettings: set}
	}
	from.config = cmp.Or(from.config, &config.Producer{Name: name})
	rec, base, unsigned, err := from.delivery(p, kind)
	if err != nil {
		return nil, replay.Options{}, err
	}
	f.warn(rec, rec.Name+": ", "", from)
	o := replay.Options{URL: base, SignedURL: from.signedURL}
	if unsigned {
		o.Sign = from.sign
	}
	return rec, o, nil
}

// noOrigin is the error of a payload whose producer is unknown.
func noOrigin(p payload, known []string) error {
	return usage.Errorf("move it into a folder with the name of one, as in stripe/, or write --producer; there are: "+
		strings.Join(known, ", "), "%s: its path names no producer", p.name)
}

// printLine prints the result of one of several deliveries.
func (f *sendCmd) printLine(line replayed) error {
	switch {
	case f.output == "json":
		return json.NewEncoder(f.Out).Encode(line)
	case f.failures && line.Outcome == forward.Accepted.String() && line.Verdict != verdictQuarantined:
		return nil
	case line.Error != "":
		f.printf("%s: %s: %s\n", line.File, line.Verdict, usage.OneLine(line.Error))
	default:
		f.printf("%s: %s\n", line.File, statusLine(line.Status, line.Verdict, line.Code))
	}
	return nil
}
