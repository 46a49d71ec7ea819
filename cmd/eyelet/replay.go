package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/replay"
)

type replayCmd struct {
	*program
	senderFlags
	to, output              string
	handlers                bool
	sign, asRecorded, plain bool
	progress                bool
}

func replayCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "replay FILE...", Short: "Send recorded deliveries again", Args: cobra.MinimumNArgs(1),
		Long: "Sends recorded deliveries (FILE.http, as `eyelet events raw` writes them) again, in the order of\n" +
			"the arguments: to a URL with --to, as they were recorded or with --sign signed afresh; or with\n" +
			"--handlers to the handlers of their events, which are reopened.\n\n" +
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
		return []string{"http"}, cobra.ShellCompDirectiveFilterFileExt
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		recs, err := readRecordings(args)
		if err != nil {
			return err
		}
		if f.handlers {
			return f.toHandlers(c, recs)
		}
		return f.toURL(c, recs)
	}
	return c
}

func (f *replayCmd) check() error {
	switch {
	case f.handlers == (f.to != ""):
		return usage.Errorf("write --to URL, or --handlers", "a replay goes either to a URL or to the handlers")
	case f.handlers && (f.sign || f.asRecorded || f.key != "" || f.secretFile != ""):
		return usage.Errorf("leave --sign, --as-recorded and the key out",
			"handlers get the stored event, without a signature")
	case f.sign && f.asRecorded:
		return usage.Errorf("leave one of them out", "--sign and --as-recorded are both given")
	case !f.sign && (f.key != "" || f.secretFile != "" || f.keyID != "" || f.producer != ""):
		return usage.Errorf("write --sign too", "there is a key, but --sign is missing")
	case f.handlers:
		return nil
	}
	if u, err := url.Parse(f.to); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usage.Errorf("write it whole, as in http://127.0.0.1:8080", "--to is not a URL of http or https")
	}
	return nil
}

// readRecordings reads all files before the first is sent, so that an error in the last sends
// none.
func readRecordings(files []string) ([]*replay.Recording, error) {
	var recs []*replay.Recording
	var found usage.Errors
	for _, file := range files {
		rec, err := readRecording(file)
		if ms, ok := usage.Find(err); ok {
			found = append(found, ms...)
			continue
		}
		recs = append(recs, rec)
	}
	return recs, found.Err()
}

// toHandlers reopens the events of the recordings.
func (f *replayCmd) toHandlers(c *cobra.Command, recs []*replay.Recording) error {
	var events []selected
	for _, rec := range recs {
		event := rec.Note("event")
		if event == "" {
			return usage.Errorf("`eyelet events raw` writes it; other recordings are sent with --to",
				`%s has no note "# event: ..." of a stored event`, rec.Name)
		}
		events = append(events, selected{event: event})
	}
	return f.withEvents(c, f.config, func(client *opsclient.Client) error {
		r := &bulkRun{program: f.program, done: reopening.done, format: f.output, progress: f.progress}
		r.apply = func(ctx context.Context, e selected) (string, error) {
			return "", reopening.apply(ctx, client, e, nil)
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

// toURL sends the recordings to a URL.
func (f *replayCmd) toURL(c *cobra.Command, recs []*replay.Recording) error {
	signers := map[string]*sender{}
	var options []replay.Options
	for _, rec := range recs {
		o, err := f.options(c, rec, signers)
		if err != nil {
			return err
		}
		options = append(options, o)
	}
	client := replay.NewClient()
	defer client.CloseIdleConnections()
	bar := newProgress(f.program, f.progress, "sent", len(recs))
	var outcomes []forward.Outcome
	for i, rec := range recs {
		options[i].Client = client
		if f.sign {
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
	name := cmp.Or(f.producer, rec.Note("producer"))
	from, ok := signers[name]
	if !ok {
		flags := f.senderFlags
		flags.url, flags.producer = f.to, ""
		if f.config != "" || f.key == "" && f.secretFile == "" {
			flags.producer = name
		}
		var err error
		if from, err = newSender(c, f.program, flags); err != nil {
			return o, err
		}
		signers[name] = from
	}
	if from.sign == nil {
		return o, usage.Errorf("give --key or --secret-file, or --config whose producer has a secret",
			"there is no key to sign %s with", rec.Name)
	}
	o.Sign, o.SignedURL = from.sign, from.signedURL
	return o, nil
}

func (f *replayCmd) print(line replayed) error {
	if f.output == "json" {
		return json.NewEncoder(f.Out).Encode(line)
	}
	if line.Error != "" {
		f.printf("%s: %s: %s\n", line.File, line.Verdict, usage.OneLine(line.Error))
		return nil
	}
	f.printf("%s: %d %s", line.File, line.Status, verdictText(line.Verdict))
	if line.Code != "" {
		f.printf(": %s", sanitize(line.Code))
	}
	f.printf("\n")
	return nil
}
