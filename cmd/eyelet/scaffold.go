package main

import (
	"cmp"
	"context"
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
	secret := vendor.NewSecret()
	known, err := trialOf(vendor, secret, "")
	if err != nil {
		return err
	}
	settings, file := known, vendor.Name+".secret"
	if s.folder != "" && strings.Contains(known.text(), secret) {
		if secret, err = keptSecret(filepath.Join(s.folder, file), secret); err != nil {
			return err
		}
		known, _ = trialOf(vendor, secret, "")
		settings, _ = trialOf(vendor, secret, file)
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

// trialOf returns the settings with which a preset can be tried.
func trialOf(vendor preset.Preset, secret, file string) (mapping, error) {
	settings, err := vendor.Trial(secret, file)
	if err != nil {
		return nil, usage.Errorf("configure it in a file, and name it with --config; preset "+vendor.Name+
			" has the settings "+strings.Join(vendor.Uses, ", "), "%v", err)
	}
	return settings, nil
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
