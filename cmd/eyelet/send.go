package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/replay"
)

// sendCmd reads its arguments into what is [outgoing], signs it, and sends it.
type sendCmd struct {
	*program
	senderFlags
	bodyEdits
	id, kind, contentType, output string
	fresh, watch, form            bool
	plain, progress               bool
	failures                      bool // successes are not printed
	header, set                   []string
	handlers, yes, asRecorded     bool // of replay
}

// payloadHelp says what commands do with folders and JSON.
const payloadHelp = "A folder means every .http, .json and .ndjson file below it. JSON is a payload (in .ndjson,\n" +
	"each line), which is signed by the producer of --producer, else by the one that a folder of its path or\n" +
	"the beginning of its name names: stripe/refund.json, github/push.json, shop-order.json."

func sendCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "send FILE | DIR... | PRESET [TYPE] [FILE]", Aliases: []string{"trigger"},
		Short: "Send a recording, a payload or a sample", Args: cobra.MinimumNArgs(1),
		Long: "Sends a recorded delivery (FILE.http) as it is, or signed afresh if there is a key or --sign. Any\n" +
			"other FILE (\"-\" is standard input) is a payload that is signed and sent. The name of a PRESET\n" +
			"sends a sample of that vendor, of the given or a usual TYPE, to any URL; every sample is a new event,\n" +
			"unless --id and --now say otherwise. A FILE after it is the body of the sample. `eyelet producers\n" +
			"PRESET` lists types.\n\n" + payloadHelp + "\n\n" +
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
			"  eyelet send deliveries/*.http --url http://127.0.0.1:9000",
	}
	c.ValidArgsFunction = completeSend
	f := &sendCmd{program: p}
	f.addFlags(c, "url")
	flags := c.Flags()
	flags.StringVar(&f.label, "label", "", "label of the signature (default: the producer's, else sig1)")
	flags.StringVar(&f.id, "id", "", "idempotency identifier of a payload that has none (default: a new one)")
	flags.StringVar(&f.kind, "type", "", "event type of a payload, where its producer reads it")
	flags.StringVar(&f.contentType, "content-type", "application/json", "media type of a payload")
	flags.StringVar(&f.at, "now", "", "unix time of the signature (default: the present)")
	flags.StringArrayVar(&f.set, "set", nil, "setting of the preset of a sample, as NAME=VALUE; lists and mappings "+
		"in YAML")
	flags.BoolVar(&f.form, "form", false, "send the JSON of a sample in a form, as GitHub does by default")
	flags.StringArrayVarP(&f.header, "header", "H", nil, `header field of a payload, as "Name: value"`)
	flags.StringArrayVar(&f.override, "override", nil, "member of the body to replace before it is signed, as "+
		"PATH=VALUE, such as data.object.amount=500; a string stays a string")
	flags.StringArrayVar(&f.add, "add", nil, "member to add to the body, or to replace, as PATH=VALUE")
	flags.BoolVar(&f.watch, "watch", false, "then send each file again that changes, until Ctrl-C")
	flags.BoolVar(&f.edit, "edit", false, "edit the body in VISUAL or EDITOR before it is signed")
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.several(args) {
			return f.sendFiles(c, args)
		}
		return f.sendOne(c, args)
	}
	return c
}

// addFlags adds the flags that send and replay have, with the name of that for the URL.
func (f *sendCmd) addFlags(c *cobra.Command, urlFlag string) {
	flags := c.Flags()
	flags.StringVar(&f.config, "config", "", "configuration file with the producer's keys, and its url")
	flags.StringVar(&f.producer, "producer", "", "producer of the configuration to sign as (default: that of each "+
		"file)")
	flags.StringVar(&f.url, urlFlag, "", "where to send to (default: the configuration's listen, else "+
		"http://127.0.0.1:8080); without a path that of a recording is used")
	flags.StringVar(&f.signedURL, "signed-url", "",
		"public base that is signed, if it is not --"+urlFlag+" (default: the configuration's url)")
	flags.StringVar(&f.key, "key", "", "file with the private key")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the secret of hmac-sha256")
	flags.StringVar(&f.keyID, "keyid", "", "id of the key")
	flags.BoolVar(&f.fresh, "sign", false, "sign a recording afresh")
	flags.BoolVar(&f.plain, "plain", false, "leave the Eyelet-Original fields out")
	flags.BoolVar(&f.progress, "progress", false, "print progress even without a terminal")
	flags.StringVarP(&f.output, "output", "o", "text", "text or json")
}

// signs reports whether recordings are signed afresh.
func (f *sendCmd) signs() bool {
	return !f.asRecorded && (f.fresh || f.keyFlag() != "")
}

// several reports whether the arguments are files of several deliveries.
func (f *sendCmd) several(args []string) bool {
	info, err := os.Stat(args[0])
	exists := err == nil // else it is PRESET [TYPE] [FILE], "-", or a mistake
	return f.watch || exists && (len(args) > 1 || info.IsDir() || filepath.Ext(args[0]) == ".ndjson")
}

// outgoing is what one delivery is made of: a recording, a payload, or a sample of a preset, whose
// body a payload may be.
type outgoing struct {
	rec     *replay.Recording // nil: it is made of the rest
	payload payload
	vendor  string // of a sample
	kind    string // of a sample; empty for a usual one
}

// readOne reads FILE or PRESET [TYPE] [FILE].
func (f *sendCmd) readOne(args []string) (one outgoing, err error) {
	file := args[0]
	vendor, ok := preset.Find(file)
	switch {
	case ok && !exists(file):
		return f.readSample(vendor, args[1:])
	case len(args) > 1:
		return one, usage.Errorf("`eyelet producers` lists them", "%q is not a preset, so nothing can follow it", file)
	case strings.HasSuffix(file, ".http"):
		one.rec, err = readRecording(file)
	default:
		one.payload, err = f.readPayload(file)
	}
	return one, err
}

// readSample reads [TYPE] [FILE] after a preset.
func (f *sendCmd) readSample(vendor preset.Preset, args []string) (one outgoing, err error) {
	one.vendor = vendor.Name
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
	one.payload, err = f.readPayload(file)
	return one, err
}

// sendOne sends one delivery and prints all that is known about the response.
func (f *sendCmd) sendOne(c *cobra.Command, args []string) error {
	one, err := f.readOne(args)
	if err != nil {
		return err
	}
	if one.vendor != "" && len(f.set) == 0 {
		f.senderFlags = f.orListening(f.Environ, one.vendor)
	}
	if one.rec != nil && f.signs() && (f.config != "" || f.keyFlag() == "") {
		f.producer = cmp.Or(f.producer, one.rec.Note("producer"))
	}
	from, err := newSender(c, f.program, f.senderFlags)
	if err != nil {
		return err
	}
	rec, o, err := f.signOne(c.Context(), one, from)
	if err != nil {
		return err
	}
	f.warn(rec, "", one.vendor, from)
	r, err := replay.Send(c.Context(), rec, o)
	s := outcomeOf(rec, r, err)
	if err == nil {
		return f.print(rec, r, s, from.now)
	}
	err = exitWith(exitOf(s.outcome), usage.OneLine(fmt.Sprintf("%s: %v", serverOf(from.url), err)))
	if f.output != "json" {
		return err
	}
	return errors.Join(err, f.encode(map[string]any{"outcome": s.outcome.String(), "verdict": s.verdict,
		"error": err.Error()}))
}

// signOne returns a delivery, and how it is sent.
func (f *sendCmd) signOne(ctx context.Context, one outgoing, from *sender) (rec *replay.Recording, o replay.Options,
	err error) {
	vendor, ok := preset.Find(cmp.Or(one.vendor, from.presetName()))
	fresh := one.rec == nil || f.signs() || f.producer != ""
	switch {
	case one.vendor != "", ok && one.rec == nil && f.kind != "":
		rec, err = f.sample(ctx, vendor, cmp.Or(one.kind, f.kind), one.payload.body, from)
		return rec, replay.Options{URL: from.url, SignedURL: from.signedURL, Now: from.now}, err
	case len(f.set) > 0 || f.form:
		err = usage.Errorf("`eyelet producers` lists them", "--set and --form are for samples of presets")
	case !fresh && !f.none():
		err = usage.Errorf("add --sign, and a key", "another body needs another signature")
	case one.rec != nil:
		rec = one.rec
	default:
		rec, err = f.payload(one.payload, from)
	}
	if err == nil {
		rec.Body, err = f.apply(ctx, f.program, rec.Body)
	}
	if err != nil {
		return nil, o, err
	}
	o, err = f.options(rec, from, fresh)
	return rec, o, err
}

// options returns how a recording is sent, with the fields of its history.
func (f *sendCmd) options(rec *replay.Recording, from *sender, fresh bool) (replay.Options, error) {
	o := replay.Options{URL: from.url, SignedURL: from.signedURL, Now: from.now}
	if !f.plain {
		o.Header = replay.Original(rec)
	}
	if fresh && from.sign == nil {
		return o, usage.Errorf("give --key, --secret-file, or --config with --producer",
			"there is no key to sign %s with", rec.Name)
	}
	if fresh {
		o.Sign = from.sign
	}
	return o, nil
}

// warn prints the [doubts] about a delivery, after a prefix. The vendor is that of the
// configuration, else the named one.
func (f *sendCmd) warn(rec *replay.Recording, prefix, vendorName string, from *sender) {
	set := preset.Settings{}
	if from.config != nil {
		vendorName, set = from.config.Preset, from.config.PresetSettings
	}
	vendor, _ := preset.Find(vendorName)
	for _, doubt := range doubts(rec, vendor, set) {
		f.eprintf("warning: %s%s\n", prefix, doubt)
	}
}

// serverOf returns scheme and host of a URL, whose other parts may be secret.
func serverOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the receiver"
	}
	return u.Scheme + "://" + u.Host
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

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// payload records a payload, which is signed afterwards.
func (f *sendCmd) payload(p payload, from *sender) (*replay.Recording, error) {
	header, err := f.fields()
	if err != nil {
		return nil, err
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", f.contentType)
	}
	if f.kind != "" {
		if from.producer == nil || from.producer.Type == nil {
			return nil, usage.Errorf("give --config with --producer; -H adds a field", "nothing says where the type is")
		}
		r := &http.Request{URL: &url.URL{}, Header: header}
		if p.body = preset.Place(r, p.body, from.producer.Type, f.kind); r.URL.RawQuery != "" {
			return nil, usage.Errorf("write it into --url", "producer %q reads the type in the URL", from.producer.Name)
		}
	}
	return payloadRecording(p.name, f.producer, from.producer, header, p.body, f.id), nil
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

// payloadRecording returns a payload as a delivery that is signed afterwards, with an identifier
// where the producer reads it.
func payloadRecording(file, name string, from *producer.Producer, header http.Header, body []byte,
	id string) *replay.Recording {
	var key producer.Extractor = producer.IdempotencyKey{}
	if from != nil {
		key = from.Key
	}
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/webhooks/" + cmp.Or(name, "shop")},
		Header: header, Host: header.Get("Host")}
	header.Del("Host")
	body = preset.Place(r, body, key, cmp.Or(id, newID()))
	return recordingOf(file, r.URL.RequestURI(), r, body)
}

// readPayload reads a payload of any kind from a file or standard input.
func (f *sendCmd) readPayload(file string) (payload, error) {
	if file == "-" {
		body, err := io.ReadAll(f.In)
		if err != nil {
			return payload{}, usage.Errorf("", "standard input: %v", err)
		}
		return payload{file, file, body}, checkPayload("standard input", body)
	}
	body, err := os.ReadFile(file)
	if err != nil {
		hint := "a payload, a recording (FILE.http), or a preset of `eyelet producers`"
		if near := usage.Nearest(file, presetNames()); near != "" {
			hint = fmt.Sprintf("did you mean the preset %q?", near)
		}
		return payload{}, usage.Errorf(hint, "payload %s: %s", file, usage.Cause(err))
	}
	return payload{file, file, body}, checkPayload(file, body)
}

// newID returns a random UUID (RFC 9562 section 5.4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}
