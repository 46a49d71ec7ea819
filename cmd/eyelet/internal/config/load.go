package config

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// Source is where settings come from: the file, then the environment, then flags. Later ones win.
type Source struct {
	File    string         // defaults to eyelet.yaml
	Environ []string       // NAME=value
	Flags   *pflag.FlagSet // may be nil
	// Outline skips producers and handlers, for commands that do not need their secrets.
	Outline bool
}

// Lookup returns an environment variable. The last of several with the same name counts.
func (s Source) Lookup(name string) (string, bool) {
	for _, pair := range slices.Backward(s.Environ) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// given returns the values of the flags that are given.
func (s Source) given() map[string]string {
	values := map[string]string{}
	if s.Flags != nil {
		s.Flags.Visit(func(f *pflag.Flag) { values[f.Name] = f.Value.String() })
	}
	return values
}

// Load reads the file. The settings that it returns with errors are for Build only, which reports
// them with its own.
func (s Source) Load() (*Settings, error) {
	file := cmp.Or(s.File, DefaultFile)
	read := conf.NewReader()
	data, err := read.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage.Errorf("name another with --config, or try `eyelet dev`, which needs none",
			"%s: there is no such file", file)
	} else if err != nil {
		return nil, usage.Errorf("", "%s: %v", file, usage.Cause(err))
	}
	return s.parse(file, data, read)
}

// Parse reads settings from data, the content of the file. The settings that it returns with errors
// are for Build only, which reports them with its own.
func (s Source) Parse(file string, data []byte) (*Settings, error) {
	return s.parse(file, data, conf.NewReader())
}

func (s Source) parse(file string, data []byte, read *conf.Reader) (*Settings, error) {
	var except []string
	if s.Outline {
		except = []string{"producers", "handlers"}
	}
	used := conf.Variables{}
	root, err := conf.ParseTree(file, data, used.Noting(s.Lookup), except...)
	found, _ := usage.Find(err)
	if root == nil || root.Kind != conf.Mapping {
		return nil, found.Err()
	}
	found = append(found, conf.Override(root, reflect.TypeFor[Settings](), s.Environ, s.given())...)
	found = append(found, root.VariableErrors()...)
	set := &Settings{File: file, files: read, variables: used}
	d := &conf.Decoder{Dir: filepath.Dir(file), Files: read, Parsers: preset.Parsers}
	d.Decode(root, reflect.ValueOf(set).Elem(), "")
	set.confidential = d.Secrets
	readPresets(set, d)
	set.Handlers = perProducer(set.Handlers)
	set.unread = append(found, d.Errs...)
	return set, used.AsWritten(set.unread).Err()
}

// readPresets reads the file of the user's own presets.
func readPresets(s *Settings, d *conf.Decoder) {
	if s.Presets != "" {
		data, err := s.files.Read(s.Path(s.Presets))
		if err != nil {
			hint := "the name is relative to the configuration file"
			d.Errs.Add(s.Place("presets"), hint, "presets %s: %s", s.Presets, usage.Cause(err))
			return
		}
		s.OwnPresets, err = preset.Read(s.Presets, data)
		found, _ := usage.Find(err)
		d.Errs = append(d.Errs, found...)
	}
	for i := range s.Producers {
		s.Producers[i].Own, _ = FindPreset(s.Producers[i].Preset, s.OwnPresets)
	}
}

// FindPreset returns the preset of that name, which is bundled or one of more.
func FindPreset(name string, more []preset.Preset) (preset.Preset, bool) {
	for _, own := range more {
		if own.Name == name && name != "" {
			return own, true
		}
	}
	return preset.Find(name)
}

// PresetSettings reads the settings of a preset from pairs NAME=VALUE.
func (s Source) PresetSettings(vendor string, pairs []string) (set preset.Settings, err error) {
	all, used := conf.NewMapping(), conf.Variables{}
	for _, pair := range append([]string{"preset=" + vendor}, pairs...) {
		name, text, ok := strings.Cut(pair, "=")
		at := usage.Place{File: "--set " + name}
		if !ok || all.Member(name) != nil {
			return set, usage.Errorf("write each NAME=VALUE once", "--set %s", name)
		}
		value := &conf.Node{At: at, Kind: conf.Scalar, Text: text}
		if strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{") {
			tree, err := conf.ParseTree(at.File, []byte("value: "+text), used.Noting(s.Lookup))
			if err != nil {
				return set, err
			}
			value = tree.Member("value")
		}
		all.Put(name, value, at)
	}
	d, into := &conf.Decoder{Dir: ".", Errs: all.VariableErrors(), Parsers: preset.Parsers}, &Producer{}
	into.DecodeNode(d, all, "")
	return into.PresetSettings, used.AsWritten(d.Errs).Err()
}
