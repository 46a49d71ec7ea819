package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/replay"
	"github.com/eyelet-dev/eyelet/verify"
)

// sendFlags are the flags of send.
type sendFlags struct {
	config, producer, url          string
	key, secretFile, keyID, label  string
	id, signedURL, contentType, at string
	fresh                          bool
	output                         string
	header, set                    []string
}

func (p *program) sendCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "send FILE | PRESET [TYPE]", Short: "Sign a delivery and send it", Args: cobra.RangeArgs(1, 2),
		Long: "Sends a recorded delivery (FILE.http) as it is, or signed afresh when a key is given or --sign says\n" +
			"so; any other FILE (\"-\" is standard input) is a payload that is signed and sent. The name of a PRESET\n" +
			"sends a sample of that vendor's, of the TYPE that is given or a usual one, to any URL.\n\n" +
			"The key is that of --key (a private key in PEM), --secret-file, or of a producer in --config. What a\n" +
			"preset needs beside a secret is said with --set, in the words of eyelet.yaml.\n" +
			"Exits 0 when the delivery was accepted (which a duplicate is), 75 when it may be accepted later\n" +
			"(transient: 503, 409 to an Idempotency-Key, no answer, ...), and 1 when it never will be as it is (terminal).",
		Example: "  eyelet send order.json --key shop.pem --keyid shop --url http://127.0.0.1:8080/webhooks/shop\n" +
			"  eyelet send order.json --config eyelet.yaml --producer gh\n" +
			"  eyelet send stripe charge.refunded --secret-file stripe.secret --url http://127.0.0.1:9000/hooks\n" +
			"  eyelet send chargebee --set username=kettle --set password_file=p.txt --url http://127.0.0.1:9000/\n" +
			"  eyelet send github push --config eyelet.yaml --producer gh\n" +
			"  eyelet send testdata/github/01-push-new.http --url http://127.0.0.1:8080",
	}
	var f sendFlags
	flags := c.Flags()
	flags.StringVar(&f.config, "config", "", "configuration file with the producer's keys, and its url")
	flags.StringVar(&f.producer, "producer", "", "producer of the configuration to sign as")
	flags.StringVar(&f.url, "url", "", "where to send to (default: the configuration's listen, else http://127.0.0.1:8080)")
	flags.StringVar(&f.key, "key", "", "file with the private key")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the secret of hmac-sha256")
	flags.StringVar(&f.keyID, "keyid", "", "id of the key")
	flags.StringVar(&f.label, "label", "", "label of the signature (default: the producer's, else sig1)")
	flags.StringVar(&f.id, "id", "", "idempotency identifier of a payload (default: a new one)")
	flags.StringVar(&f.signedURL, "signed-url", "", "public base that is signed, where it is not --url (default: the configuration's url)")
	flags.StringVar(&f.contentType, "content-type", "application/json", "media type of a payload")
	flags.StringVar(&f.at, "now", "", "unix time of the signature (default: the present)")
	flags.BoolVar(&f.fresh, "sign", false, "sign a recording afresh")
	flags.StringArrayVar(&f.set, "set", nil, "setting of the preset of a sample, as NAME=VALUE; lists and mappings in YAML")
	flags.StringArrayVarP(&f.header, "header", "H", nil, `header field of a payload, as "Name: value"`)
	flags.StringVarP(&f.output, "output", "o", "text", "text or json")
	c.RunE = func(c *cobra.Command, args []string) error { return p.send(c, args, f) }
	return c
}

func (p *program) send(c *cobra.Command, args []string, f sendFlags) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	as, err := p.sender(c, f)
	if err != nil {
		return err
	}
	rec, fresh, err := p.toSend(args, f, &as)
	if err != nil {
		return err
	}
	o := replay.Options{URL: as.url, SignedURL: as.signedURL, Now: as.now}
	if fresh {
		if as.sign == nil {
			return usage.Errorf("give --key, --secret-file, or --config with --producer", "there is no key to sign with")
		}
		o.Sign = as.sign
	}
	r, err := replay.Send(c.Context(), rec, o)
	if err != nil {
		s := judgeSent(rec, r, err)
		err = ended(exitOf(s.outcome), usage.OneLine(fmt.Sprintf("%s: %v", forward.RedactURL(as.url), err)))
		if f.output == "json" { // as replay prints it
			e := json.NewEncoder(p.Out)
			e.SetEscapeHTML(false) // <secret>
			return errors.Join(err, e.Encode(map[string]any{"outcome": s.outcome.String(), "verdict": s.verdict, "error": err.Error()}))
		}
		return err
	}
	return p.printSent(r, judgeSent(rec, r, nil), f.output)
}

// toSend returns the delivery, and whether it is still to be signed.
func (p *program) toSend(args []string, f sendFlags, as *sending) (rec *replay.Recording, fresh bool, err error) {
	file := args[0]
	if vendor, ok := preset.Find(file); ok && !exists(file) {
		rec, err = p.sample(vendor, append(args, "")[1], f, as)
		return rec, false, err
	}
	if len(f.set) > 0 {
		return nil, false, usage.Errorf("`eyelet producers` lists them", "--set is for the sample of a preset, and %q is none", file)
	}
	if len(args) > 1 {
		return nil, false, usage.Errorf("`eyelet producers` lists them", "%q is no preset, so nothing can follow it", file)
	}
	if strings.HasSuffix(file, ".http") {
		rec, err = readRecording(file)
		return rec, f.fresh || f.key != "" || f.secretFile != "" || f.producer != "", err
	}
	rec, err = p.payload(file, f, *as)
	return rec, true, err
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// sending is whom a delivery is sent as, and where to.
type sending struct {
	url, signedURL string
	sign           replay.Signer
	secret         string             // of --secret-file
	from           *producer.Producer // nil without a producer of the configuration
	config         *config.Producer
	now            time.Time
}

// sender gathers the key and the address from the flags and the configuration.
func (p *program) sender(c *cobra.Command, f sendFlags) (sending, error) {
	as := sending{url: f.url, signedURL: f.signedURL, now: time.Now()}
	if f.at != "" {
		seconds, err := strconv.ParseInt(f.at, 10, 64)
		if err != nil {
			return as, usage.Errorf("write --now 1782635400", "%q is no unix time", f.at)
		}
		as.now = time.Unix(seconds, 0)
	}
	signer := &verify.Signer{KeyID: f.keyID, Label: f.label}
	if err := loadKey(signer, f); err != nil {
		return as, err
	}
	as.secret = string(signer.Secret)
	if f.producer != "" || f.config != "" {
		if err := p.senderOf(c, f, &as, signer); err != nil {
			return as, err
		}
	}
	as.url = cmp.Or(as.url, "http://"+config.DefaultListen)
	if u, err := url.Parse(as.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return as, usage.Errorf("write it whole, as in http://127.0.0.1:8080", "--url is no URL of http or https")
	}
	if as.sign == nil && (signer.Private != nil || signer.Secret != nil) {
		as.sign = signer
	}
	return as, nil
}

// keyFlag names the flag that gives a key; "" where none does.
func (f sendFlags) keyFlag() string {
	switch {
	case f.key != "":
		return "--key"
	case f.secretFile != "":
		return "--secret-file"
	}
	return ""
}

// loadKey reads the key files of the flags.
func loadKey(signer *verify.Signer, f sendFlags) error {
	if f.key != "" && f.secretFile != "" {
		return usage.Errorf("remove one of them", "--key and --secret-file are both given")
	}
	file := cmp.Or(f.key, f.secretFile)
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return usage.Errorf("`eyelet keygen` makes a key", "key file %s: %s", file, usage.Cause(err))
	}
	if f.key == "" {
		signer.Secret = []byte(strings.TrimSpace(string(text)))
		return nil
	}
	if signer.Private, err = verify.ParsePrivateKey(text); err != nil {
		return usage.Errorf("a key file holds a PEM block PRIVATE KEY; `eyelet keygen` makes one", "key file %s: %v", file, err)
	}
	return nil
}

// senderOf takes the address, and what it has of keys, from a producer of the configuration.
func (p *program) senderOf(c *cobra.Command, f sendFlags, as *sending, signer *verify.Signer) error {
	src := p.source(c, f.config)
	src.Flags = nil // --url is where to send to, and no setting
	s, err := src.Load()
	if err != nil {
		return err
	}
	plan, err := s.Build(c.Context(), config.BuildOptions{Stdout: io.Discard, TestKeys: true})
	if err != nil {
		return err
	}
	defer plan.Close() //nolint:errcheck // only key sets that fetch are closed
	as.signedURL = cmp.Or(as.signedURL, s.URL)
	scheme := "http://"
	if s.TLS != nil {
		scheme = "https://"
	}
	as.url = cmp.Or(as.url, scheme+s.Listen)
	var names []string
	for i := range plan.Producers {
		names = append(names, plan.Producers[i].Name)
		if plan.Producers[i].Name == f.producer {
			as.from, as.config = &plan.Producers[i], &s.Producers[i]
		}
	}
	if as.from == nil && f.producer != "" {
		return usage.Errorf(usage.DidYouMean(f.producer, names), "unknown producer %q", f.producer)
	}
	if as.from == nil {
		return nil
	}
	if own, ok := as.from.Scheme.(replay.Signer); ok {
		if flag := f.keyFlag(); flag != "" {
			return usage.Errorf("leave it out, or name another --config", "%s has no effect: producer %q signs with the secret of %s", flag, f.producer, s.File)
		}
		as.sign = own
	}
	signer.Label = cmp.Or(signer.Label, as.config.RFC9421.Label)
	signer.Tag = as.config.RFC9421.Tag
	return chooseKey(signer, fitting(s, signer, as.config.RFC9421.Keys))
}

// fitting returns the key whose public half is that of the signer's private key, where the configuration has it as
// PEM; else all keys.
func fitting(c *config.Settings, signer *verify.Signer, keys []config.Key) []config.Key {
	if signer.Private == nil {
		return keys
	}
	want, err := verify.MarshalPublicKey(signer.Private.Public())
	if err != nil {
		return keys
	}
	for i, k := range keys {
		text := []byte(k.PublicKey)
		if k.PublicKeyFile != "" {
			text, _ = os.ReadFile(c.Path(k.PublicKeyFile)) // that it cannot be read was told before
		}
		if bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace(want)) {
			return keys[i : i+1]
		}
	}
	return keys
}

// chooseKey finds the id of the key that was given, or the only secret that the configuration has.
func chooseKey(signer *verify.Signer, keys []config.Key) error {
	given := signer.Private != nil || signer.Secret != nil
	for _, k := range keys {
		shared := k.Alg == string(verify.HMACSHA256)
		switch {
		case signer.KeyID != "" && k.ID != signer.KeyID:
		case !given && shared:
			signer.KeyID, signer.Secret = k.ID, []byte(k.Secret)
			return nil
		case signer.Secret != nil && shared, signer.Private != nil && !shared:
			signer.KeyID = k.ID
			return nil
		}
	}
	return nil
}

// payload makes a recording of a payload, which is signed afterwards.
func (p *program) payload(file string, f sendFlags, as sending) (*replay.Recording, error) {
	body, err := p.readPayload(file)
	if err != nil {
		return nil, err
	}
	rec := &replay.Recording{Name: file, Method: http.MethodPost, Target: "/webhooks/" + cmp.Or(f.producer, "shop"), Body: body}
	rec.Fields = append(rec.Fields, replay.Field{Name: "Content-Type", Value: f.contentType})
	if field := keyField(as.from, cmp.Or(f.id, newID())); field.Name != "" {
		rec.Fields = append(rec.Fields, field)
	}
	ours := len(rec.Fields)
	for _, line := range f.header {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usage.Errorf(`write -H "X-GitHub-Event: push"`, "%q is no header field", line)
		}
		rec.Fields = append(rec.Fields, replay.Field{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	given := rec.Fields[ours:]
	rec.Fields = append(slices.DeleteFunc(slices.Clone(rec.Fields[:ours]), func(own replay.Field) bool {
		return slices.ContainsFunc(given, func(g replay.Field) bool { return strings.EqualFold(g.Name, own.Name) })
	}), given...)
	return rec, nil
}

// keyField is the field in which the producer looks for the identifier; empty where it stands elsewhere.
func keyField(from *producer.Producer, id string) replay.Field {
	spelled := "idempotency-key"
	if from != nil {
		spelled = fmt.Sprint(from.Key)
	}
	kind, name, _ := strings.Cut(spelled, ":")
	switch {
	case strings.Contains(spelled, " "): // a join or a choice
	case kind == "header":
		return replay.Field{Name: name, Value: id}
	case kind == "idempotency-key":
		return replay.Field{Name: cmp.Or(name, "Idempotency-Key"), Value: strconv.Quote(id)}
	}
	return replay.Field{}
}

func (p *program) readPayload(file string) ([]byte, error) {
	if file == "-" {
		body, err := io.ReadAll(p.In)
		if err != nil {
			return nil, usage.Errorf("", "standard input: %v", err)
		}
		return body, nil
	}
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, usage.Errorf(presetHint(file), "payload %s: %s", file, usage.Cause(err))
	}
	return body, nil
}

// presetHint names the preset that may have been meant by a file that is not there.
func presetHint(file string) string {
	var names []string
	for _, known := range preset.All() {
		names = append(names, known.Name)
	}
	if near := usage.Nearest(file, names); near != "" {
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

// printSent says what became of the delivery.
func (p *program) printSent(r replay.Result, s judgement, format string) error {
	if format == "json" {
		line := map[string]any{"status": r.Status, "outcome": s.outcome.String(), "verdict": s.verdict, "code": r.Code, "replayed": r.Replayed, "body": string(r.Body)}
		if err := json.NewEncoder(p.Out).Encode(line); err != nil {
			return err
		}
	} else {
		p.say("%d %s", r.Status, s.verdict)
		if r.Code != "" {
			p.say(": %s", shown(r.Code))
		}
		p.say("\n")
		if detail := problemDetail(r); detail != "" {
			p.say("%s\n", shown(detail))
		} else if body := strings.TrimSpace(string(r.Body)); body != "" && r.Code == "" {
			p.say("%s\n", shown(body))
		}
	}
	return ended(exitOf(s.outcome), "")
}

// problemDetail is what a problem (RFC 9457) says to people; "" where the answer is none.
func problemDetail(r replay.Result) string {
	var problem struct{ Title, Detail string }
	if r.Code == "" || json.Unmarshal(r.Body, &problem) != nil {
		return ""
	}
	return cmp.Or(problem.Detail, problem.Title)
}
