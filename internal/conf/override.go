package conf

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/usage"
)

const envPrefix = "EYELET_"

// newValue is a value from a variable or a flag.
type newValue struct {
	path, value string
	at          usage.Place
}

// Override overlays environment variables, if not empty, and flags on the settings of a struct.
// environ has NAME=value, and flags the values by the names of the flags that are given.
func Override(root *Node, settings reflect.Type, environ []string, flags map[string]string) usage.Errors {
	known := overridable{short: map[string]string{}}
	known.add(settings, "")
	values, found := overridingVariables(environ, known)
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		path := strings.Replace(strings.ReplaceAll(name, "-", "_"), "log_", "log.", 1)
		if slices.Contains(known.paths, path) {
			values = append(values, newValue{path, flags[name], usage.Place{File: "--" + name}})
		}
	}
	for _, one := range values {
		known.apply(root, one)
	}
	return found
}

// overridingVariables returns the values of variables, those of whole sections first.
func overridingVariables(environ []string, known overridable) (values []newValue, found usage.Errors) {
	byVariable, words := map[string]string{}, []string{}
	for _, path := range known.paths {
		word := strings.ReplaceAll(path, ".", "_")
		byVariable[envPrefix+strings.ToUpper(word)], words = path, append(words, word)
	}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		word, ours := strings.CutPrefix(name, envPrefix)
		if !ours || value == "" {
			continue
		}
		if path, ok := byVariable[name]; ok {
			values = append(values, newValue{path, value, usage.Place{File: name}})
		} else if near := usage.Nearest(strings.ToLower(word), words); near != "" {
			found.Add(usage.Place{File: "environment"}, "did you mean "+envPrefix+strings.ToUpper(near)+"?",
				"unknown variable %s", name)
		}
	}
	slices.SortStableFunc(values, func(a, b newValue) int {
		return strings.Count(a.path, ".") - strings.Count(b.path, ".")
	})
	return values, found
}

// overridable are the settings that variables and flags may override: not lists, and not producers
// and handlers.
type overridable struct {
	paths []string
	// short are the sections that may be a single value, with the member that it means; "" if it
	// means none.
	short map[string]string
}

// add adds the settings of a struct.
func (o *overridable) add(t reflect.Type, section string) {
	for i := range t.NumField() {
		name, options := tagOf(t.Field(i))
		if name == "" {
			continue
		}
		path, inner := join(section, name), t.Field(i).Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch inner.Kind() {
		case reflect.Struct:
			if member, ok := shortMember(inner); ok {
				o.paths, o.short[path] = append(o.paths, path), member
			}
			o.add(inner, path)
		case reflect.Slice:
		default:
			o.paths = append(o.paths, path)
			if (field{options: options}).inFile() {
				o.paths = append(o.paths, path+"_file")
			}
		}
	}
}

// shortMember returns the member of a section that a single value means. ok is false if the section
// cannot be a single value.
func shortMember(section reflect.Type) (member string, ok bool) {
	v := reflect.New(section)
	if _, own := v.Interface().(selfDecoding); own { // such as remember_signatures: off
		return "", true
	}
	member, _, ok = shortOf(v.Elem())
	return member, ok
}

// apply sets a value. A section that is a single value becomes a mapping before. Of a setting and
// its variant with a file the later one counts.
func (o *overridable) apply(root *Node, one newValue) {
	section, name := SplitPath(one.path)
	if member, ok := o.short[section]; ok {
		root.Find(section).SpellOut(member)
	}
	root.Set(one.path, one.value, one.at)
	for _, other := range []string{name + "_file", strings.TrimSuffix(name, "_file")} {
		if other != name && slices.Contains(o.paths, join(section, other)) {
			root.Find(section).Remove(other)
		}
	}
}

// SplitPath returns the section of a dotted path, "" for none, and the last name.
func SplitPath(path string) (section, name string) {
	i := strings.LastIndex(path, ".")
	return path[:max(i, 0)], path[i+1:]
}
