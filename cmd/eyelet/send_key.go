package main

import (
	"bytes"
	"cmp"
	"crypto"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/replay"
	"github.com/eyelet-dev/eyelet/verify"
)

// senderFlags are the flags of send and replay for the signer and the URL of a delivery.
type senderFlags struct {
	config, producer, url         string
	key, secretFile, keyID, label string
	signedURL, at                 string
}

// sender signs a delivery and has its URL.
type sender struct {
	url, signedURL string
	sign           replay.Signer
	secret         string             // of --secret-file
	private        crypto.Signer      // of --key
	keyID          string             // of private, in tokens
	producer       *producer.Producer // nil unless the configuration has one
	config         *config.Producer
	form           bool // of --form
	now            time.Time
}

// newSender takes the key and the URL from the flags and the configuration.
func newSender(c *cobra.Command, p *program, f senderFlags) (*sender, error) {
	from := &sender{url: f.url, signedURL: f.signedURL}
	var err error
	if from.now, err = arrival(&httpfile.File{}, f.at); err != nil {
		return nil, err
	}
	signer := &verify.Signer{KeyID: f.keyID, Label: f.label}
	if err := loadKey(signer, f); err != nil {
		return nil, err
	}
	from.secret, from.private = string(signer.Secret), signer.Private
	if f.producer != "" || f.config != "" {
		if err := from.configure(c, p, f, signer); err != nil {
			return nil, err
		}
	}
	from.url = cmp.Or(from.url, "http://"+config.DefaultListen)
	if u, err := url.Parse(from.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usage.Errorf("write it whole, as in http://127.0.0.1:8080",
			"the URL to send to is not one of http or https")
	}
	if from.sign == nil && (signer.Private != nil || signer.Secret != nil) {
		from.sign = signer
	}
	return from, nil
}

// presetName is the preset of the producer in the configuration, or "".
func (from *sender) presetName() string {
	if from.config == nil {
		return ""
	}
	return from.config.Preset
}

// keyFlag returns the flag that gives a key, or "".
func (f senderFlags) keyFlag() string {
	switch {
	case f.key != "":
		return "--key"
	case f.secretFile != "":
		return "--secret-file"
	}
	return ""
}

// loadKey reads the key file of the flags.
func loadKey(signer *verify.Signer, f senderFlags) error {
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
		return usage.Errorf("a key file holds a PEM block PRIVATE KEY; `eyelet keygen` makes one", "key file %s: %v",
			file, err)
	}
	return nil
}

// configure takes the URL and the keys from a producer of the configuration.
func (from *sender) configure(c *cobra.Command, p *program, f senderFlags, signer *verify.Signer) error {
	src := p.source(c, f.config)
	src.Flags = nil // --url is where to send to, not a setting
	s, plan, err := buildPlan(c.Context(), src, true)
	if err != nil {
		return err
	}
	defer plan.Close() //nolint:errcheck // only key sets that fetch are closed
	from.signedURL = cmp.Or(from.signedURL, s.URL)
	scheme := "http://"
	if s.HasTLS() {
		scheme = "https://"
	}
	from.url = cmp.Or(from.url, scheme+s.Listen)
	return from.become(s, plan, f, signer)
}

// become takes the keys of the producer in the configuration.
func (from *sender) become(s *config.Settings, plan *config.Plan, f senderFlags, signer *verify.Signer) error {
	if f.producer == "" {
		return nil
	}
	var err error
	if from.producer, err = plan.Producer(f.producer); err != nil {
		return err
	}
	from.config = &s.Producers[slices.Index(s.ProducerNames(), f.producer)]
	vendor, _ := preset.Find(from.config.Preset)
	if own, ok := from.producer.Scheme.(replay.Signer); ok && !vendor.KeySigned() {
		if flag := f.keyFlag(); flag != "" {
			return usage.Errorf("leave it out, or name another --config",
				"%s has no effect: producer %q signs with the secret of %s", flag, f.producer, s.File)
		}
		from.sign = own
	}
	signer.Like, _ = from.producer.Scheme.(*verify.RFC9421)
	chooseKey(signer, matchingKeys(s, signer, from.config.Keys()))
	return nil
}

// matchingKeys returns the key whose public half, in PEM, belongs to the signer's private key;
// else all keys.
func matchingKeys(c *config.Settings, signer *verify.Signer, keys []config.Key) []config.Key {
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
			text, _ = os.ReadFile(c.Path(k.PublicKeyFile)) // the error was reported before
		}
		if bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace(want)) {
			return keys[i : i+1]
		}
	}
	return keys
}

// chooseKey sets the id of the given key, or takes the only secret of the configuration.
func chooseKey(signer *verify.Signer, keys []config.Key) {
	given := signer.Private != nil || signer.Secret != nil
	for _, k := range keys {
		shared := k.Alg == string(verify.HMACSHA256)
		switch {
		case signer.KeyID != "" && k.ID != signer.KeyID:
		case !given && shared:
			signer.KeyID, signer.Secret = k.ID, []byte(k.Secret)
			return
		case signer.Secret != nil && shared, signer.Private != nil && !shared:
			signer.KeyID = k.ID
			return
		}
	}
}

// orListening returns the flags, or if they have no key those that sign as a preset does for the
// last listen that served it. Another --url than that of listen is the one that is signed.
func (f senderFlags) orListening(environ []string, name string) senderFlags {
	folder, err := listenFolder(environ)
	file := filepath.Join(folder, name+".yaml")
	if err != nil || f.config+f.producer+f.keyFlag() != "" || !exists(file) {
		return f
	}
	f.config, f.producer = file, name
	if s, _ := (config.Source{File: file, Environ: environ}).Load(); s != nil && f.url != "" {
		_, port, _ := net.SplitHostPort(s.Listen)
		if to, err := url.Parse(f.url); err == nil && to.Port() != port {
			f.signedURL = cmp.Or(f.signedURL, f.url)
		}
	}
	return f
}
