package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

const envPrefix = "EYELET_"

// applyOverrides overlays environment variables, if not empty, and flags on the file.
func (s Source) applyOverrides(root *node) (found usage.Errors) {
	paths := settingPaths(reflect.TypeFor[Settings](), "")
	byVariable, words := map[string]string{}, []string{}
	for _, path := range paths {
		word := strings.ReplaceAll(path, ".", "_")
		byVariable[envPrefix+strings.ToUpper(word)], words = path, append(words, word)
	}
	for _, pair := range s.Environ {
		name, value, _ := strings.Cut(pair, "=")
		word, ours := strings.CutPrefix(name, envPrefix)
		if !ours || value == "" {
			continue
		}
		if path, ok := byVariable[name]; ok {
			root.override(path, value, usage.Place{File: name})
		} else if near := usage.Nearest(strings.ToLower(word), words); near != "" {
			found.Add(usage.Place{File: "environment"}, "did you mean "+envPrefix+strings.ToUpper(near)+"?",
				"unknown variable %s", name)
		}
	}
	if s.Flags != nil {
		s.Flags.Visit(func(f *pflag.Flag) {
			path := strings.Replace(strings.ReplaceAll(f.Name, "-", "_"), "log_", "log.", 1)
			if slices.Contains(paths, path) {
				root.override(path, f.Value.String(), usage.Place{File: "--" + f.Name})
			}
		})
	}
	return found
}

// override sets a value. Of a setting and its variant with a file the later one counts.
func (n *node) override(path, value string, at usage.Place) {
	n.set(path, value, at)
	for _, other := range []string{path + "_file", strings.TrimSuffix(path, "_file")} {
		if other != path && n.inner[other] != nil {
			delete(n.inner, other)
			n.names = slices.DeleteFunc(slices.Clone(n.names), func(name string) bool { return name == other })
		}
	}
}

// settingPaths returns the paths of single values: not lists, and not producers and handlers.
func settingPaths(t reflect.Type, prefix string) []string {
	var paths []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("conf"), ",")
		if name == "" {
			continue
		}
		if option == "dsn" {
			paths = append(paths, prefix+name+"_file")
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
