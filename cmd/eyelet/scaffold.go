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
	Presets    string             `yaml:"presets,omitempty"`
	Producers  map[string]mapping `yaml:"producers"`
	Handlers   []mapping          `yaml:"handlers,omitempty"`

	folder string // keeps the secrets; without one they are new, and written out
	about  string // the endpoints and their secrets, for a person
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
	all := mapping{name: value}
	maps.Copy(all, m)
	return all
}

// add adds a producer, of which something is known to a person, and what happens to its events.
func (s *scaffold) add(name string, settings, action mapping, known string) {
	if s.Producers == nil {
		s.Producers = map[string]mapping{}
	}
	s.Producers[name] = settings
	s.Handlers = append(s.Handlers, action.with("producer", name).with("type", "*"))
	s.about += endpointLine(s.URL, name, known)
}

// endpointLine returns the line of an endpoint below a base.
func endpointLine(base, name, known string) string {
	return strings.TrimRight(fmt.Sprintf("  %-20s  %s/webhooks/%s  %s", name, base, name, known), " ") + "\n"
}

// addPreset adds a producer with the name of its preset. If there is a folder, its secret is in the
// file NAME.secret there, and a secret that is there stays.
func (s *scaffold) addPreset(vendor preset.Preset, action mapping) error {
	secret := freshSecret(vendor)
	known, err := settingsOf(vendor, secret, "")
	if err != nil {
		return err
	}
	settings, file := known, vendor.Name+".secret"
	if s.folder != "" && strings.Contains(known.text(), secret) {
		if secret, err = keptSecret(filepath.Join(s.folder, file), secret); err != nil {
			return err
		}
		known, _ = settingsOf(vendor, secret, "")
		settings, _ = settingsOf(vendor, secret, file)
	}
	s.add(vendor.Name, settings.with("preset", vendor.Name), action, known.text())
	return nil
}

// keptSecret returns the secret in a file, which it writes if there is none.
func keptSecret(file, fresh string) (string, error) {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return fresh, writeNewFile(file, []byte(fresh+"\n"))
	} else if err != nil {
		return "", usage.Errorf("", "%s: %s", file, usage.Cause(err))
	}
	return strings.TrimSpace(string(text)), nil
}

// yaml returns the configuration below a comment.
func (s *scaffold) yaml(comment string) string {
	var text strings.Builder
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	doc := &yaml.Node{}
	_ = doc.Encode(s) // texts only
	doc.HeadComment = comment
	_ = e.Encode(doc)
	return text.String()
}

// parse returns the settings, as of a file.
func (s *scaffold) parse(src config.Source, file string) (*config.Settings, error) {
	return src.Parse(file, []byte(s.yaml("")))
}

// tryPresets are those that are served when none is named.
var tryPresets = []string{"github", "stripe", "standard-webhooks"}

// findPresets returns the presets with these names, each once, of the bundled ones and the user's.
func findPresets(names []string, own ...preset.Preset) (vendors []preset.Preset, err error) {
	for i, name := range names {
		vendor, ok := config.FindPreset(name, own)
		if !ok {
			return nil, usage.Errorf(usage.DidYouMean(name, presetNames(own...)), "unknown preset %q", name)
		}
		if !slices.Contains(names[:i], name) {
			vendors = append(vendors, vendor)
		}
	}
	return vendors, nil
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

// secretNames are the settings with the secrets of presets, where that is not secret, and what is
// needed beside them.
var secretNames = map[string]struct {
	secret string
	others mapping
}{
	"aws-eventbridge":  {"secret", mapping{"header": "X-Api-Key"}},
	"azure-event-grid": {"secret", mapping{"query": "code"}},
	"chargebee":        {"password", mapping{"username": "chargebee"}},
	"deepgram":         {"password", mapping{"username": "deepgram"}},
	"postmark":         {"password", mapping{"username": "postmark"}},
	"strava":           {"secret", mapping{"query": "key"}},
	"swt":              {"secret", mapping{"issuers": []string{"https://shop.example"}}},
	"webengage":        {"secret", mapping{"account": "~17"}},
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
	if known, ok := secretNames[vendor.Name]; ok {
		return with(known.secret, known.others), nil
	}
	switch vendor.Name {
	case "worldpay", "xsolla":
		return mapping{"keys": with("1", nil)}, nil
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
	return with("secret", nil), nil
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
