package main

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decoder fills structs from nodes and keeps every mistake that it meets. Fields are named by the tag `conf`;
// a field of type *node gets the node of its struct, so that later checks can name lines too.
type decoder struct {
	wrong mistakes
}

func (d *decoder) add(at place, hint, format string, args ...any) {
	d.wrong = append(d.wrong, &mistake{at: at, what: oneLine(fmt.Sprintf(format, args...)), hint: hint})
}

// secret is a value that is never printed.
type secret string

const hidden = "<secret>"

// String returns <secret>.
func (secret) String() string { return hidden }

// Format writes <secret> whatever the verb.
func (secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText returns <secret>, for JSON and logs.
func (secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// size is a number of bytes, such as 1MiB.
type size int64

var (
	secretType   = reflect.TypeFor[secret]()
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[size]()
	nodeType     = reflect.TypeFor[*node]()
)

// decode fills v, which is settable, from n. path names the setting in messages.
func (d *decoder) decode(n *node, v reflect.Value, path string) {
	if n == nil || n.kind == empty {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), path)
	case reflect.Struct:
		if short, ok := v.Addr().Interface().(shorthand); ok && n.kind == scalar {
			d.decode(n, reflect.ValueOf(short.short()).Elem(), path)
			return
		}
		if d.want(n, mapping, path) {
			d.object(n, v, path)
		}
	case reflect.Slice:
		d.list(n, v, path)
	default:
		if d.want(n, scalar, path) {
			d.scalar(n, v, path)
		}
	}
}

func (d *decoder) want(n *node, kind nodeKind, path string) bool {
	if n.kind != kind {
		d.add(n.at, "", "%s is %s, want %s", path, n.kind, kind)
	}
	return n.kind == kind
}

func (d *decoder) object(n *node, v reflect.Value, path string) {
	fields := fieldsOf(v)
	for i := range v.NumField() {
		if v.Field(i).Type() == nodeType {
			v.Field(i).Set(reflect.ValueOf(n))
		}
	}
	for _, name := range n.names {
		field, ok := fields[name]
		if !ok {
			d.add(n.where[name], didYouMean(name, settingNames(fields)), "unknown setting %q%s", name, inside(path))
			continue
		}
		d.decode(n.inner[name], field, join(path, name))
	}
}

func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			for name, inner := range fieldsOf(v.Field(i)) {
				fields[name] = inner
			}
		}
		if name := f.Tag.Get("conf"); name != "" {
			fields[name] = v.Field(i)
		}
	}
	return fields
}

func settingNames(fields map[string]reflect.Value) []string {
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func inside(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// shorthand is a mapping that may be written as a single value: short returns where that value goes.
type shorthand interface{ short() any }

// named is an element of a mapping whose names are the user's, such as producers.
type named interface{ setName(name string, at place) }

// list fills a slice: from a list, from a single value, or, when its elements have names, from a mapping.
func (d *decoder) list(n *node, v reflect.Value, path string) {
	elem := v.Type().Elem()
	_, isNamed := reflect.New(elem).Interface().(named)
	switch {
	case isNamed && n.kind == mapping:
		for _, name := range n.names {
			item := reflect.New(elem)
			item.Interface().(named).setName(name, n.where[name])
			inner := n.inner[name]
			if inner.kind == empty {
				d.add(n.where[name], "", "%s has no settings", join(path, name))
			}
			d.decode(inner, item.Elem(), join(path, name))
			v.Set(reflect.Append(v, item.Elem()))
		}
	case isNamed:
		d.add(n.at, "write each under its name", "%s is %s, want a mapping", path, n.kind)
	case n.kind == sequence:
		for i, inner := range n.items {
			item := reflect.New(elem).Elem()
			d.decode(inner, item, fmt.Sprintf("%s[%d]", path, i))
			v.Set(reflect.Append(v, item))
		}
	case n.kind == scalar && elem.Kind() == reflect.String:
		item := reflect.New(elem).Elem()
		d.decode(n, item, path)
		v.Set(reflect.Append(v, item))
	default:
		d.add(n.at, "", "%s is %s, want a list", path, n.kind)
	}
}

func (d *decoder) scalar(n *node, v reflect.Value, path string) {
	var err error
	switch {
	case v.Type() == durationType:
		var t time.Duration
		t, err = parseDuration(n.text)
		v.SetInt(int64(t))
	case v.Type() == sizeType:
		var s size
		s, err = parseSize(n.text)
		v.SetInt(int64(s))
	case v.Kind() == reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(n.text)
		v.SetBool(b)
	case v.Kind() == reflect.Int:
		var i int64
		i, err = strconv.ParseInt(n.text, 10, 32)
		v.SetInt(i)
	case v.Kind() == reflect.String:
		if v.Type() == secretType && strings.TrimSpace(n.text) == "" {
			d.add(n.at, "write it as ${NAME} and set the variable, or name a file", "%s is empty", path)
		}
		v.SetString(n.text)
	default:
		panic("a setting of a type that the decoder does not know: " + v.Type().String())
	}
	if err != nil {
		what, hint := wanted(v.Type())
		d.add(n.at, hint, "%s is %q, want %s", path, n.text, what)
	}
}

func wanted(t reflect.Type) (what, hint string) {
	switch {
	case t == durationType:
		return "a duration", "write 30s, 5m, 24h or 7d"
	case t == sizeType:
		return "a number of bytes", "write 65536, 64KiB or 1MiB"
	case t.Kind() == reflect.Bool:
		return "true or false", ""
	}
	return "a whole number", ""
}

// parseDuration is time.ParseDuration with days, and refuses what is negative.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n > 36500 {
			return 0, fmt.Errorf("no number of days: %q", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	t, err := time.ParseDuration(text)
	if err == nil && t < 0 {
		err = fmt.Errorf("negative: %q", text)
	}
	return t, err
}

func parseSize(text string) (size, error) {
	unit := int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1e3, "MB": 1e6, "GB": 1e9} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = strings.TrimSpace(number), factor
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return 0, fmt.Errorf("no number of bytes: %q", text)
	}
	return size(n * unit), nil
}
