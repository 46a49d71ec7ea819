package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// scaffold is the configuration that a command writes for new producers.
type scaffold struct {
	Listen     string             `yaml:"listen,omitempty"`
	URL        string             `yaml:"url"`
	Operations string             `yaml:"operations,omitempty"`
	Store      string             `yaml:"store,omitempty"`
	Producers  map[string]mapping `yaml:"producers"`
	Handlers   []mapping          `yaml:"handlers,omitempty"`
}

// mapping is a mapping of settings, on one line.
type mapping map[string]any

// MarshalYAML implements yaml.Marshaler.
func (m mapping) MarshalYAML() (any, error) {
	node := &yaml.Node{}
	err := node.Encode(map[string]any(m))
	node.Style = yaml.FlowStyle
	return node, err
}

// text returns the settings for a person.
func (m mapping) text() string {
	data, _ := yaml.Marshal(m) // texts only
	return strings.TrimSuffix(strings.TrimPrefix(string(data), "{"), "}\n")
}

// with returns the settings and one more.
func (m mapping) with(name string, value any) mapping {
	m = maps.Clone(m)
	m[name] = value
	return m
}

// add adds a producer, and what happens to its events, unless the action is nil.
func (s *scaffold) add(name string, settings, action mapping) {
	if s.Producers == nil {
		s.Producers = map[string]mapping{}
	}
	s.Producers[name] = settings
	if action != nil {
		s.Handlers = append(s.Handlers, action.with("producer", name).with("type", "*"))
	}
}

// addPreset adds a producer with the name of its preset.
func (s *scaffold) addPreset(vendor preset.Preset, settings, action mapping) {
	s.add(vendor.Name, settings.with("preset", vendor.Name), action)
}

// endpoint returns the line of an endpoint, and what is known about it.
func (s *scaffold) endpoint(name, known string) string {
	return strings.TrimRight(fmt.Sprintf("  %-20s  %s/webhooks/%s  %s", name, s.URL, name, known), " ") + "\n"
}

// yaml returns the configuration below a comment.
func (s *scaffold) yaml(comment string) (string, error) {
	var text strings.Builder
	doc := &yaml.Node{}
	if err := doc.Encode(s); err != nil {
		return "", err
	}
	doc.HeadComment = comment
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	err := e.Encode(doc)
	return text.String(), err
}

// tryPresets are those that are served when none is named.
var tryPresets = []string{"github", "stripe", "standard-webhooks"}

// findPresets returns the presets with these names, each once.
func findPresets(names []string) (vendors []preset.Preset, err error) {
	for i, name := range names {
		vendor, ok := preset.Find(name)
		if !ok {
			return nil, usage.Errorf(usage.DidYouMean(name, presetNames()), "unknown preset %q", name)
		}
		if !slices.Contains(names[:i], name) {
			vendors = append(vendors, vendor)
		}
	}
	return vendors, nil
}

// keptSettings returns the settings of a preset whose secret is in the file NAME.secret of a
// folder, and shows them with the secret. The first call makes the file, and returns it, too.
func keptSettings(folder string, vendor preset.Preset) (settings mapping, shown, made string, err error) {
	name := vendor.Name + ".secret"
	file := filepath.Join(folder, name)
	text, err := os.ReadFile(file)
	secret := strings.TrimSpace(string(text))
	missing := os.IsNotExist(err)
	if missing {
		secret = freshSecret(vendor)
	} else if err != nil {
		return nil, "", "", usage.Errorf("", "%s: %s", file, usage.Cause(err))
	}
	open, err := settingsOf(vendor, secret, "")
	if err != nil {
		return nil, "", "", err
	}
	if shown = open.text(); missing && strings.Contains(shown, secret) {
		made, err = file, writeNewFile(file, []byte(secret+"\n"))
	}
	settings, _ = settingsOf(vendor, secret, name) // as before
	return settings, shown, made, err
}

// freshSecret returns a new secret in the form that the vendor's have.
func freshSecret(vendor preset.Preset) string {
	switch vendor.Name {
	case "clerk", "gitlab-signed", "mcp-events", "openai", "resend", "standard-webhooks", "svix":
		return standardSecret()
	case "stripe":
		return "whsec_" + string(verify.GenerateSecret())
	case "adyen", "adyen-platform", "datatrans":
		raw := make([]byte, 32)
		_, _ = rand.Read(raw) // never fails
		return hex.EncodeToString(raw)
	}
	return string(verify.GenerateSecret())
}

// settingsOf returns the settings of a preset that needs nothing but a secret. They name the file
// with the secret, if there is one.
func settingsOf(vendor preset.Preset, secret, file string) (mapping, error) {
	with := func(name string, others mapping) mapping {
		if file != "" {
			return others.with(name+"_file", file)
		}
		return others.with(name, secret)
	}
	switch vendor.Name {
	case "aws-eventbridge":
		return with("value", mapping{"header": "X-Api-Key"}), nil
	case "azure-event-grid":
		return with("value", mapping{"query": "code"}), nil
	case "chargebee", "deepgram", "postmark":
		return with("password", mapping{"username": vendor.Name}), nil
	case "strava":
		return with("value", mapping{"query": "key"}), nil
	case "cloudevents":
		return with("bearer", mapping{}), nil
	case "swt":
		return with("secret", mapping{"issuers": []string{"https://shop.example"}}), nil
	case "webengage":
		return with("secret_key", mapping{"license_code": "~17"}), nil
	case "worldpay", "xsolla":
		return mapping{"keys": with("1", mapping{})}, nil
	case "yookassa":
		return mapping{"allowed_ips": []string{"127.0.0.1/32"}}, nil
	case "websub":
		token := sha256.Sum256([]byte("token " + secret))
		return mapping{"subscriptions": []mapping{with("secret", mapping{"topic": vendor.Types()[0],
			"token": hex.EncodeToString(token[:16])})}}, nil
	}
	if !slices.Contains(vendor.Uses, "secret") || vendor.KeySigned() {
		return nil, usage.Errorf("configure it in a file, and name it with --config; preset "+vendor.Name+
			" has the settings "+strings.Join(vendor.Uses, ", "), "preset %s needs more than a secret", vendor.Name)
	}
	return with("secret", mapping{}), nil
}

// listenFolder is the folder in which listen keeps secrets (PRESET.secret), and for each preset the
// settings with which send signs for it (PRESET.yaml). Only the user can read it.
func listenFolder(environ []string) (string, error) {
	home, ok := (config.Source{Environ: environ}).Lookup("XDG_CONFIG_HOME")
	var err error
	if !ok || !filepath.IsAbs(home) {
		home, err = os.UserConfigDir()
	}
	return filepath.Join(home, "eyelet", "listen"), err
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

// freeAddress returns the wanted address; without one the usual one, or one with a free port.
func freeAddress(ctx context.Context, wanted, usual string) (string, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cmp.Or(wanted, usual))
	if err != nil && wanted == "" {
		return freeAddress(ctx, "127.0.0.1:0", usual)
	} else if err != nil {
		return "", usage.Errorf("choose another address", "%s: %s", wanted, usage.RootCause(err))
	}
	return ln.Addr().String(), ln.Close()
}

// goRun returns the command that runs this binary again.
func goRun() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/eyelet"
	}
	return filepath.Base(os.Args[0])
}
