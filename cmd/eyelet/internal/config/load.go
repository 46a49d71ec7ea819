package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
)

// The defaults of the binary; those of receiving are package receiver's.
const (
	DefaultFile       = "eyelet.yaml"
	DefaultListen     = "127.0.0.1:8080"
	DefaultOperations = "127.0.0.1:8081"
	defaultStore      = "badger:./data"
	envPrefix         = "EYELET_"
	// defaultDrain is how long serve waits for work that is under way when it is told to stop.
	defaultDrain = 30 * time.Second
)

// source is where settings come from: the file, then the environment, then flags; the later ones win.
type Source struct {
	File    string
	Environ []string       // NAME=value
	Flags   *pflag.FlagSet // may be nil
	// outline leaves producers and handlers out: whoever looks after events needs none of their secrets.
	Outline bool
}

// Lookup returns an environment variable. Of several with the same name the last one counts.
func (s Source) Lookup(name string) (string, bool) {
	for _, pair := range slices.Backward(s.Environ) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// load reads the settings. All mistakes are reported at once.
func (s Source) Load() (*Settings, error) {
	file := s.File
	if file == "" {
		file = DefaultFile
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage.Errorf("name another with --config, or try `eyelet dev`, which needs none", "%s: there is no such file", file)
	} else if err != nil {
		return nil, usage.Errorf("", "%s: %v", file, usage.Cause(err))
	}
	return s.Parse(file, data)
}

// Parse reads settings from data, the content of the file.
func (s Source) Parse(file string, data []byte) (*Settings, error) {
	var found usage.Errors
	var except []string
	if s.Outline {
		except = []string{"producers", "handlers"}
	}
	root, err := parseTree(file, data, s.Lookup, except...)
	if ms, ok := usage.Find(err); ok {
		found = append(found, ms...)
	}
	if root == nil || root.kind != mapping {
		return nil, found.Err()
	}
	if ms, ok := usage.Find(s.overrule(root)); ok {
		found = append(found, ms...)
	}
	c := &Settings{File: file}
	d := &decoder{dir: filepath.Dir(file)}
	d.decode(root, reflect.ValueOf(c).Elem(), "")
	c.confidential = d.secrets
	c.defaults()
	return c, append(found, d.wrong...).Err()
}

// overrule puts what the environment and the flags say in the place of what the file says.
func (s Source) overrule(root *node) error {
	o := &overrides{Source: s, origin: map[string]string{}, byVariable: map[string]string{}}
	o.paths = settingPaths(reflect.TypeFor[Settings](), "")
	for _, path := range o.paths {
		o.byVariable[variableOf(path)] = path
	}
	layers := koanf.New(".")
	if err := layers.Load(o.environment(), nil); err != nil {
		return err
	}
	if s.Flags != nil {
		if err := layers.Load(posflag.ProviderWithFlag(s.Flags, ".", nil, o.flag), nil); err != nil {
			return err
		}
	}
	for path, value := range layers.All() {
		root.set(path, fmt.Sprint(value), usage.Place{File: o.origin[path]})
	}
	return o.found.Err()
}

// overrides collects settings that do not come from the file.
type overrides struct {
	Source
	paths      []string
	byVariable map[string]string
	origin     map[string]string // of a path: the variable or flag that set it
	found      usage.Errors
}

func (o *overrides) environment() koanf.Provider {
	return env.Provider(".", env.Opt{
		Prefix:        envPrefix,
		EnvironFunc:   func() []string { return o.Environ },
		TransformFunc: o.variable,
	})
}

// variable says which setting a variable sets. An empty one sets nothing.
func (o *overrides) variable(name, value string) (string, any) {
	if value == "" {
		return "", nil
	}
	path := o.byVariable[name]
	if path != "" {
		o.origin[path] = name
		return path, value
	}
	if near := usage.Nearest(strings.ToLower(strings.TrimPrefix(name, envPrefix)), words(o.byVariable)); near != "" {
		o.found = append(o.found, &usage.Error{
			At: usage.Place{File: "environment"}, What: "unknown variable " + name,
			Hint: "did you mean " + envPrefix + strings.ToUpper(near) + "?",
		})
	}
	return "", nil
}

func (o *overrides) flag(f *pflag.Flag) (string, any) {
	path := strings.Replace(strings.ReplaceAll(f.Name, "-", "_"), "log_", "log.", 1)
	if !f.Changed || !slices.Contains(o.paths, path) {
		return "", nil
	}
	o.origin[path] = "--" + f.Name
	return path, f.Value.String()
}

// settingPaths lists the single-valued settings that the environment can set: not those of producers and
// handlers, which have names of the user's, and not lists.
func settingPaths(t reflect.Type, prefix string) []string {
	var paths []string
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("conf")
		if name == "" {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch inner.Kind() {
		case reflect.Struct:
			paths = append(paths, settingPaths(inner, prefix+name+".")...)
		case reflect.Slice:
		default:
			paths = append(paths, prefix+name)
		}
	}
	return paths
}

func variableOf(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// words returns the names of the variables as words, without their prefix.
func words(m map[string]string) []string {
	var names []string
	for name := range m {
		names = append(names, strings.ToLower(strings.TrimPrefix(name, envPrefix)))
	}
	return names
}

// PresetSettings reads the settings of a preset from NAME=VALUE, as the file has NAME: VALUE.
func (s Source) PresetSettings(preset string, pairs []string) (producer.Settings, error) {
	all := &node{kind: mapping, inner: map[string]*node{}, where: map[string]usage.Place{}}
	for _, pair := range append([]string{"preset=" + preset}, pairs...) {
		name, text, ok := strings.Cut(pair, "=")
		at := usage.Place{File: "--set " + name}
		if !ok || all.inner[name] != nil {
			return producer.Settings{}, usage.Errorf("write each NAME=VALUE once", "--set %s", name)
		}
		value := &node{at: at, kind: scalar, text: text}
		if strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{") {
			var err error
			if value, err = parseTree(at.File, []byte(text), s.Lookup); err != nil {
				return producer.Settings{}, err
			}
		}
		all.names, all.inner[name], all.where[name] = append(all.names, name), value, at
	}
	d, into := &decoder{dir: "."}, &Producer{}
	into.decodeNode(d, all, "")
	return into.PresetSettings, d.wrong.Err()
}
