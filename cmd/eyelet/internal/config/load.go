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

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
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

// Load reads the file. The settings that it returns with errors are for Build only, which reports
// them with its own.
func (s Source) Load() (*Settings, error) {
	file := cmp.Or(s.File, DefaultFile)
	read := &filesRead{all: Files{}}
	data, err := read.read(file)
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
	return s.parse(file, data, &filesRead{all: Files{}})
}

func (s Source) parse(file string, data []byte, read *filesRead) (*Settings, error) {
	var except []string
	if s.Outline {
		except = []string{"producers", "handlers"}
	}
	used := variables{}
	root, err := parseTree(file, data, used.noting(s.Lookup), except...)
	found, _ := usage.Find(err)
	if root == nil || root.kind != mapping {
		return nil, found.Err()
	}
	found = append(found, s.applyOverrides(root)...)
	found = append(found, root.variableErrors()...)
	set := &Settings{File: file, files: read, variables: used}
	d := &decoder{dir: filepath.Dir(file), files: read}
	d.decode(root, reflect.ValueOf(set).Elem(), "")
	set.confidential = d.secrets
	set.Handlers = perProducer(set.Handlers)
	set.setDefaults()
	set.unread = append(found, d.errs...)
	return set, used.asWritten(set.unread).Err()
}

// PresetSettings reads the settings of a preset from pairs NAME=VALUE.
func (s Source) PresetSettings(vendor string, pairs []string) (set preset.Settings, err error) {
	all, used := newMapping(), variables{}
	for _, pair := range append([]string{"preset=" + vendor}, pairs...) {
		name, text, ok := strings.Cut(pair, "=")
		at := usage.Place{File: "--set " + name}
		if !ok || all.inner[name] != nil {
			return set, usage.Errorf("write each NAME=VALUE once", "--set %s", name)
		}
		value := &node{at: at, kind: scalar, text: text}
		if strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{") {
			tree, err := parseTree(at.File, []byte("value: "+text), used.noting(s.Lookup))
			if err != nil {
				return set, err
			}
			value = tree.inner["value"]
		}
		all.names, all.inner[name], all.where[name] = append(all.names, name), value, at
	}
	d, into := &decoder{dir: ".", errs: all.variableErrors()}, &Producer{}
	into.decodeNode(d, all, "")
	return into.PresetSettings, used.asWritten(d.errs).Err()
}
