package config

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

// decoder fills structs from nodes and keeps every mistake that it meets. Fields are named by the tag `conf`;
// a field of type *node gets the node of its struct, so that later checks can name lines too.
type decoder struct {
	dir     string // what the names of files are relative to
	wrong   usage.Errors
	secrets []string // the files that secrets stand in, as they are named
}

func (d *decoder) add(at usage.Place, hint, format string, args ...any) {
	d.wrong = append(d.wrong, &usage.Error{At: at, What: usage.OneLine(fmt.Sprintf(format, args...)), Hint: hint})
}

// secret is a value that is never printed.
type secret string

// Hidden is shown in place of secrets.
const Hidden = "<secret>"

// String returns <secret>.
func (secret) String() string { return Hidden }

// Format writes <secret> whatever the verb.
func (s secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Hidden) }

// MarshalText returns <secret>, for JSON and logs.
func (secret) MarshalText() ([]byte, error) { return []byte(Hidden), nil }

// size is a number of bytes, such as 1MiB.
type size int64

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[size]()
	nodeType     = reflect.TypeFor[*node]()
	prefixType   = reflect.TypeFor[netip.Prefix]()
)

// decode fills v, which is settable, from n. path names the setting in messages.
func (d *decoder) decode(n *node, v reflect.Value, path string) {
	if n == nil || n.kind == empty || n.broken {
		return
	}
	if own, ok := v.Addr().Interface().(selfDecoding); ok {
		own.decodeNode(d, n, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), path)
	case reflect.Map:
		d.words(n, v, path)
	case reflect.Struct:
		if v.Type() == prefixType {
			d.prefix(n, v, path)
			return
		}
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
		if !ok && d.twin(n, name, fields, path) {
			continue
		}
		if !ok {
			d.add(n.where[name], usage.DidYouMean(name, settingNames(fields)), "unknown setting %q%s", name, inside(path))
			continue
		}
		d.decode(n.inner[name], field, join(path, name))
		if slices.Contains(inFiles, name) {
			d.notEmpty(n.inner[name], join(path, name))
		} else if n.inner[name].saysNothing(name, field.Type()) {
			d.add(n.where[name], "leave it out for its default", "%s is empty", join(path, name))
		}
	}
}

// onlyThese are lists of what alone is good. An empty one would be read as nothing, and taken for anything.
var onlyThese = []string{"allowed_ips", "hosts", "algs", "methods", "media_types", "topics", "issuers", "audience", "app_ids"}

// saysNothing reports whether a setting was named and not written. Sections may be empty: what stands in them is
// left out.
func (n *node) saysNothing(name string, t reflect.Type) bool {
	if n.kind == sequence {
		return len(n.items) == 0 && slices.Contains(onlyThese, name)
	}
	list := t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && t.Elem() != prefixType
	return n.kind == empty && !list && t.Kind() != reflect.Struct
}

// notEmpty makes sure that a secret was written, and not only its name.
func (d *decoder) notEmpty(n *node, path string) {
	if n.kind == sequence {
		for i, item := range n.items {
			if item.kind != empty { // that is noted already
				d.notEmpty(item, fmt.Sprintf("%s[%d]", path, i))
			}
		}
		return
	}
	if !n.broken && (n.kind == empty || n.kind == scalar && strings.TrimSpace(n.text) == "") {
		d.add(n.at, "write it as ${NAME} and set the variable, or name a file", "%s is empty", path)
	}
}

// inFiles are the secrets, and what is as long as a key: they must not be empty, and they may stand in a file of
// their own instead: NAME_file, or NAME_files for a list.
var inFiles = []string{"secret", "secrets", "password", "value", "bearer", "secret_key", "verify_token", "token", "roots"}

// twin reads a secret from the file that NAME_file names, and reports whether the setting is such a name. White
// space around a secret in a file is no part of it: editors add it.
func (d *decoder) twin(n *node, name string, fields map[string]reflect.Value, path string) bool {
	base, ok := strings.CutSuffix(name, "_file")
	if !ok {
		base, ok = strings.CutSuffix(name, "_files")
		if _, list := fields[base]; !list {
			base += "s" // secret_files, as well as secrets_files
		}
	}
	field, known := fields[base]
	if !ok || !known || !slices.Contains(inFiles, base) {
		return false
	}
	if n.inner[base] != nil {
		d.add(n.where[name], "remove one of them", "%s and %s are both set", join(path, base), name)
		return true
	}
	if inner := n.inner[name]; inner.kind == empty || inner.kind == sequence && len(inner.items) == 0 {
		d.add(n.where[name], "write the name of the file", "%s is empty", join(path, name))
		return true
	}
	var files []string
	if n.inner[name].kind == sequence && field.Kind() != reflect.Slice {
		d.want(n.inner[name], scalar, join(path, name))
		return true
	}
	d.decode(n.inner[name], reflect.ValueOf(&files).Elem(), join(path, name))
	for _, file := range files {
		text := d.secretFile(n.where[name], file)
		if text == "" {
			continue
		}
		if base != "roots" { // those are certificates
			d.secrets = append(d.secrets, file)
		}
		d.decode(&node{at: n.where[name], kind: scalar, text: text}, appended(field), join(path, base))
	}
	return true
}

// appended returns the value itself, or a new last element when it is a list.
func appended(v reflect.Value) reflect.Value {
	if v.Kind() != reflect.Slice {
		return v
	}
	v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	return v.Index(v.Len() - 1)
}

// secretFile returns the secret in the file, or "" after it noted why there is none.
func (d *decoder) secretFile(at usage.Place, file string) string {
	full := file
	if !filepath.IsAbs(full) {
		full = filepath.Join(d.dir, full)
	}
	data, err := os.ReadFile(full)
	if err != nil {
		d.add(at, "the name is relative to the configuration file", "secret file %s: %v", file, usage.Cause(err))
		return ""
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		d.add(at, "", "secret file %s is empty", file)
	}
	return text
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

// selfDecoding is a setting whose members depend on its content.
type selfDecoding interface {
	decodeNode(d *decoder, n *node, path string)
}

// words fills a mapping from names of the user's to single values.
func (d *decoder) words(n *node, v reflect.Value, path string) {
	if !d.want(n, mapping, path) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, name := range n.names {
		item := reflect.New(v.Type().Elem()).Elem()
		d.decode(n.inner[name], item, join(path, name))
		// All mappings from names to texts are secrets by the id of their key; ID_file names the file of one.
		id, inFile := strings.CutSuffix(name, "_file")
		switch {
		case inFile && n.inner[id] != nil:
			d.add(n.where[name], "remove one of them", "%s and %s are both set", join(path, id), name)
		case inFile:
			d.secrets = append(d.secrets, item.String())
			item.SetString(d.secretFile(n.where[name], item.String()))
			name = id
		default:
			d.notEmpty(n.inner[name], join(path, name))
		}
		v.SetMapIndex(reflect.ValueOf(name), item)
	}
}

// prefix reads an address or a network.
func (d *decoder) prefix(n *node, v reflect.Value, path string) {
	if !d.want(n, scalar, path) {
		return
	}
	p, err := netip.ParsePrefix(n.text)
	if err != nil {
		var a netip.Addr
		if a, err = netip.ParseAddr(n.text); err == nil {
			p = netip.PrefixFrom(a, a.BitLen())
		}
	}
	if err != nil {
		d.add(n.at, "write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32", "%s is %q, want an address or a network", path, n.text)
		return
	}
	v.Set(reflect.ValueOf(p))
}

// shorthand is a mapping that may be written as a single value: short returns where that value goes.
type shorthand interface{ short() any }

// named is an element of a mapping whose names are the user's, such as producers.
type named interface {
	setName(name string, at usage.Place)
}

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
			if inner.kind == empty {
				d.add(inner.at, "write it, or remove the item", "%s[%d] is empty", path, i)
				continue
			}
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
		t, err = ParseDuration(n.text)
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
		v.SetString(n.text)
	default:
		panic("a setting of a type that the decoder does not know: " + v.Type().String())
	}
	if err != nil {
		what, hint := wanted(v.Type())
		d.add(n.at, hint, "%s is %q, want %s", path, n.text, what)
	} else if v.CanInt() && v.Int() == 0 && !slices.Contains(zeroCounts, path[strings.LastIndex(path, ".")+1:]) {
		d.add(n.at, "leave it out for its default", "%s is 0", path)
	}
}

// zeroCounts are the numbers that may be 0. For all others that would be the same as not written: the default.
var zeroCounts = []string{"backlog_bytes", "backlog_events", "in_flight_wait", "concurrency"}

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

// maxDays bounds durations: a time so far ahead is one that a store can write, in nanoseconds.
const maxDays = 36500

// parseDuration is time.ParseDuration with days, and refuses what is negative or too long.
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n > maxDays {
			return 0, fmt.Errorf("no number of days: %q", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	t, err := time.ParseDuration(text)
	if err == nil && (t < 0 || t > maxDays*24*time.Hour) {
		err = fmt.Errorf("negative, or too long: %q", text)
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
