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

type sendCmd struct {
	*program
	senderFlags
	bodyEdits
	id, kind, contentType, output string
	fresh, watch, form            bool
	header, set                   []string
}

func sendCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "send FILE | DIR... | PRESET [TYPE] [FILE]", Aliases: []string{"trigger"},
		Short: "Sign a delivery and send it", Args: cobra.MinimumNArgs(1),
		Long: "Sends a recorded delivery (FILE.http) as it is, or signed afresh if there is a key or --sign. Any\n" +
			"other FILE (\"-\" is standard input) is a payload that is signed and sent. The name of a PRESET\n" +
			"sends a sample of that vendor, of the given or a usual TYPE, to any URL; every sample is a new event,\n" +
			"unless --id and --now say otherwise. A FILE after it is the body of the sample. `eyelet producers\n" +
			"PRESET` lists types.\n\n" + payloadHelp + "\n\n" +
			"The key is that of --key (a private key in PEM), --secret-file, or a producer in --config; without\n" +
			"one, `eyelet listen` has it, and gets the delivery. --set gives further settings of a preset, as in\n" +
			"eyelet.yaml. Exits 0 when the delivery was accepted (a\n" +
			"duplicate is), 75 when it may be accepted later (transient: 503, 409 to an Idempotency-Key, no\n" +
			"answer, ...), and 1 when it never will be as it is (terminal).",
		Example: "  eyelet send order.json --key shop.pem --keyid shop --url http://127.0.0.1:8080/webhooks/shop\n" +
			"  eyelet send order.json --config eyelet.yaml --producer gh\n" +
			"  eyelet send stripe charge.refunded --secret-file stripe.secret --url http://127.0.0.1:9000/hooks\n" +
			"  eyelet send chargebee --set username=kettle --set password_file=p.txt --url http://127.0.0.1:9000/\n" +
			"  eyelet send github push --config eyelet.yaml --producer gh\n" +
			"  eyelet send github push body.json --secret-file github.secret\n" +
			"  eyelet send stripe invoice.paid --override data.object.amount_paid=5 --secret-file stripe.secret\n" +
			"  eyelet send fixtures/ --watch --config eyelet.yaml\n" +
			"  eyelet send testdata/github/01-push-new.http --url http://127.0.0.1:8080",
	}
	c.ValidArgsFunction = completeSend
	f := &sendCmd{program: p}
	flags := c.Flags()
	flags.StringVar(&f.config, "config", "", "configuration file with the producer's keys, and its url")
	flags.StringVar(&f.producer, "producer", "", "producer of the configuration to sign as")
	flags.StringVar(&f.url, "url", "", "where to send to (default: the configuration's listen, else "+
		"http://127.0.0.1:8080)")
	flags.StringVar(&f.key, "key", "", "file with the private key")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the secret of hmac-sha256")
	flags.StringVar(&f.keyID, "keyid", "", "id of the key")
	flags.StringVar(&f.label, "label", "", "label of the signature (default: the producer's, else sig1)")
	flags.StringVar(&f.id, "id", "", "idempotency identifier of a payload that has none (default: a new one)")
	flags.StringVar(&f.signedURL, "signed-url", "",
		"public base that is signed, if it is not --url (default: the configuration's url)")
	flags.StringVar(&f.kind, "type", "", "event type of a payload, where its producer reads it")
	flags.StringVar(&f.contentType, "content-type", "application/json", "media type of a payload")
	flags.StringVar(&f.at, "now", "", "unix time of the signature (default: the present)")
	flags.BoolVar(&f.fresh, "sign", false, "sign a recording afresh")
	flags.StringArrayVar(&f.set, "set", nil, "setting of the preset of a sample, as NAME=VALUE; lists and mappings "+
		"in YAML")
	flags.BoolVar(&f.form, "form", false, "send the JSON of a sample in a form, as GitHub does by default")
	flags.StringArrayVarP(&f.header, "header", "H", nil, `header field of a payload, as "Name: value"`)
	flags.StringVarP(&f.output, "output", "o", "text", "text or json")
	flags.StringArrayVar(&f.override, "override", nil, "member of the body to replace before it is signed, as "+
		"PATH=VALUE, such as data.object.amount=500; a string stays a string")
	flags.StringArrayVar(&f.add, "add", nil, "member to add to the body, or to replace, as PATH=VALUE")
	flags.BoolVar(&f.watch, "watch", false, "then send each file again that changes, until Ctrl-C")
	flags.BoolVar(&f.edit, "edit", false, "edit the body in VISUAL or EDITOR before it is signed")
	c.RunE = func(c *cobra.Command, args []string) error { return f.run(c, args) }
	return c
}

func (f *sendCmd) run(c *cobra.Command, args []string) error {
	if f.several(args) {
		return f.sendAll(c, args)
	}
	if _, ok := preset.Find(args[0]); ok && len(f.set) == 0 {
		f.senderFlags = f.orListening(f.Environ, args[0])
	}
	from, err := newSender(c, f.program, f.senderFlags)
	if err != nil {
		return err
	}
	rec, fresh, err := f.delivery(c, args, from)
	if err != nil {
		return err
	}
	o := replay.Options{URL: from.url, SignedURL: from.signedURL, Now: from.now}
	if fresh {
		if from.sign == nil {
			return usage.Errorf("give --key, --secret-file, or --config with --producer",
				"there is no key to sign with")
		}
		o.Sign = from.sign
	}
	f.warn(rec, args[0], from)
	r, err := replay.Send(c.Context(), rec, o)
	if err != nil {
		s := outcomeOf(rec, r, err)
		err = exitWith(exitOf(s.outcome), usage.OneLine(fmt.Sprintf("%s: %v", serverOf(from.url), err)))
		if f.output == "json" { // as replay prints it
			return errors.Join(err, f.encode(map[string]any{"outcome": s.outcome.String(), "verdict": s.verdict,
				"error": err.Error()}))
		}
		return err
	}
	return f.print(rec, r, outcomeOf(rec, r, nil), from.now)
}

// warn prints the [doubts] about a delivery.
func (f *sendCmd) warn(rec *replay.Recording, name string, from *sender) {
	set := preset.Settings{}
	if from.config != nil {
		name, set = from.config.Preset, from.config.PresetSettings
	}
	vendor, _ := preset.Find(name)
	for _, doubt := range doubts(rec, vendor, set) {
		f.eprintf("warning: %s\n", doubt)
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

// several reports whether the arguments are files of several deliveries.
func (f *sendCmd) several(args []string) bool {
	info, err := os.Stat(args[0])
	if _, ok := preset.Find(args[0]); ok && err != nil && !f.watch {
		return false // PRESET TYPE FILE
	}
	return f.watch || len(args) > 2 || filepath.Ext(args[0]) == ".ndjson" || err == nil && info.IsDir() ||
		len(args) == 2 && err == nil && exists(args[1])
}

// sendAll sends the deliveries of files and folders as replay does, and with --watch each file
// again when it changes.
func (f *sendCmd) sendAll(c *cobra.Command, paths []string) error {
	if f.id != "" || !f.none() || len(f.header) > 0 {
		return usage.Errorf("send one delivery with them", "--id, -H, --override, --add and --edit change one delivery")
	}
	to, err := newSender(c, f.program, senderFlags{config: f.config, url: f.url})
	if err != nil {
		return err
	}
	all := &replayCmd{program: f.program, senderFlags: f.senderFlags, to: to.url, output: f.output, plain: true,
		anywhere: f.url == "" && f.config == "",
		sign:     f.fresh || f.key != "" || f.secretFile != "", set: f.set}
	send := func(paths []string) error {
		some, err := readDeliveries(paths)
		if err != nil {
			return err
		}
		return all.toURL(c, some)
	}
	before := fileStates(paths)
	err = send(paths)
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

// delivery returns the delivery, and whether it must be signed.
func (f *sendCmd) delivery(c *cobra.Command, args []string, from *sender) (rec *replay.Recording, fresh bool,
	err error) {
	file := args[0]
	if vendor, ok := preset.Find(file); ok && !exists(file) {
		rec, err = f.presetDelivery(c.Context(), vendor, args[1:], from)
		return rec, false, err
	}
	vendor, ok := preset.Find(from.presetName())
	if ok && f.kind != "" && !strings.HasSuffix(file, ".http") {
		rec, err = f.sample(c.Context(), vendor, f.kind, file, from)
		return rec, false, err
	}
	if len(f.set) > 0 || f.form {
		return nil, false, usage.Errorf("`eyelet producers` lists them", "--set and --form are for samples, and %q is "+
			"not a preset", file)
	}
	if len(args) > 1 {
		return nil, false, usage.Errorf("`eyelet producers` lists them", "%q is not a preset, so nothing can follow it",
			file)
	}
	if strings.HasSuffix(file, ".http") {
		rec, err = readRecording(file)
		fresh = f.fresh || f.key != "" || f.secretFile != "" || f.producer != ""
		if err == nil && !fresh && !f.none() {
			return nil, false, usage.Errorf("add --sign, and a key", "another body needs another signature")
		}
	} else {
		rec, err = f.payload(file, from)
		fresh = true
	}
	if err == nil {
		rec.Body, err = f.apply(c.Context(), f.program, rec.Body)
	}
	return rec, fresh, err
}

// presetDelivery makes a delivery of PRESET [TYPE] [FILE], whose file is its body.
func (f *sendCmd) presetDelivery(ctx context.Context, vendor preset.Preset, args []string, from *sender) (
	*replay.Recording, error) {
	kind, file := f.kind, ""
	if n := len(args) - 1; n >= 0 && (n > 0 || args[n] == "-" || exists(args[n])) {
		file, args = args[n], args[:n]
	}
	if len(args) > 0 {
		if kind != "" {
			return nil, usage.Errorf("leave out one", "TYPE and --type are both given")
		}
		kind, args = args[0], args[1:]
	}
	if len(args) > 0 {
		return nil, usage.Errorf("write eyelet send PRESET [TYPE] [FILE]", "%q is one argument too many", args[0])
	}
	if file != "" && kind == "" {
		kind = typeIn(vendor, afterNumber(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))))
		if !vendor.Lists(kind) && strings.HasPrefix(vendor.TypeFrom(), "header:") {
			return nil, usage.Errorf("write eyelet send "+vendor.Name+" TYPE "+file, "%s has its type in %s, and %s "+
				"names none", vendor.Name, strings.TrimPrefix(vendor.TypeFrom(), "header:"), file)
		}
	}
	return f.sample(ctx, vendor, kind, file, from)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// payload records a payload, which is signed afterwards.
func (f *sendCmd) payload(file string, from *sender) (*replay.Recording, error) {
	body, err := f.readPayload(file)
	if err != nil {
		return nil, err
	}
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
		if body = preset.Place(r, body, from.producer.Type, f.kind); r.URL.RawQuery != "" {
			return nil, usage.Errorf("write it into --url", "producer %q reads the type in the URL", from.producer.Name)
		}
	}
	return payloadRecording(file, f.producer, from.producer, header, body, f.id), nil
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

func (f *sendCmd) readPayload(file string) ([]byte, error) {
	if file == "-" {
		body, err := io.ReadAll(f.In)
		if err != nil {
			return nil, usage.Errorf("", "standard input: %v", err)
		}
		return body, checkPayload("standard input", body)
	}
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, usage.Errorf(presetHint(file), "payload %s: %s", file, usage.Cause(err))
	}
	return body, checkPayload(file, body)
}

// presetHint suggests a preset for a file that does not exist.
func presetHint(file string) string {
	if near := usage.Nearest(file, presetNames()); near != "" {
		return fmt.Sprintf("did you mean the preset %q?", near)
	}
	return "a payload, a recording (FILE.http), or a preset of `eyelet producers`"
}

// newID returns a random UUID (RFC 9562 section 5.4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}
