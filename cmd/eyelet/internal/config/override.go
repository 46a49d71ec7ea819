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
			root.set(path, value, usage.Place{File: name})
		} else if near := usage.Nearest(strings.ToLower(word), words); near != "" {
			found.Add(usage.Place{File: "environment"}, "did you mean "+envPrefix+strings.ToUpper(near)+"?",
				"unknown variable %s", name)
		}
	}
	if s.Flags != nil {
		s.Flags.Visit(func(f *pflag.Flag) {
			path := strings.Replace(strings.ReplaceAll(f.Name, "-", "_"), "log_", "log.", 1)
			if slices.Contains(paths, path) {
				root.set(path, f.Value.String(), usage.Place{File: "--" + f.Name})
			}
		})
	}
	return found
}

// settingPaths returns the paths of single values: not lists, and not producers and handlers.
func settingPaths(t reflect.Type, prefix string) []string {
	var paths []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("conf"), ",")
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
