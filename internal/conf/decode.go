package conf

import (
	"encoding"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// Decoder fills structs from nodes and collects all errors. The tag of a field names its
// setting and may have options:
//
//	secret    not empty; may be in a file (NAME_file); never shown
//	file      the same, but the file is not confidential
//	target    a URL of which only scheme and host are shown
//	dsn       like secret, but shown if it is no connection string, and else without credentials
//	nonempty  a list that must not be empty, because that would allow everything
//	zero      a number that may be 0; for others, 0 would mean the default
//	short     the member of a mapping that a single value in its place means
//	opaque    a value that cannot be shown as it is written
//	without   names of an embedded struct that are not settings
//	a|b|c     the words that a text may be
//
// The tag default has the value of a setting that is not written, as in default:"30s".
//
// A field whose type marshals as [Hidden] is secret without an option, an int64 a number of bytes,
// and a field of type *Node gets the node of its struct.
type Decoder struct {
	Dir     string // of relative file names
	Errs    usage.Errors
	Secrets []string // files of secrets, as written
	Files   *Reader
	Parsers map[reflect.Type]Parser // by the types of interfaces
}

// field is a setting of a struct.
type field struct {
	value    reflect.Value
	options  []string
	fallback string // the tag default
}

// fieldsOf returns the fields of a struct, embedded ones included, by the names of their settings.
func fieldsOf(v reflect.Value) map[string]field {
	fields := map[string]field{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options := tagOf(f)
		if f.Anonymous {
			maps.Copy(fields, fieldsOf(v.Field(i)))
			for _, option := range options {
				if inherited, ok := strings.CutPrefix(option, "without "); ok {
					maps.DeleteFunc(fields, func(name string, _ field) bool {
						return slices.Contains(strings.Fields(inherited), name)
					})
				}
			}
		}
		if name != "" {
			fields[name] = field{v.Field(i), options, f.Tag.Get("default")}
		}
	}
	return fields
}

// tagOf returns the name of the setting of a field, or "", and its options.
func tagOf(f reflect.StructField) (name string, options []string) {
	words := strings.Split(f.Tag.Get("conf"), ",")
	if words[0] != "" && isSecret(f.Type) {
		words = append(words, "secret")
	}
	return words[0], words[1:]
}

// isSecret reports whether values of the type, or of its elements, hide their text.
func isSecret(t reflect.Type) bool {
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	hides, ok := reflect.Zero(t).Interface().(encoding.TextMarshaler)
	if !ok || t.Kind() != reflect.String {
		return false
	}
	text, err := hides.MarshalText()
	return err == nil && string(text) == Hidden
}

func (f field) has(option string) bool { return slices.Contains(f.options, option) }

// words are those that the text may be, or nil.
func (f field) words() []string {
	for _, option := range f.options {
		if strings.Contains(option, "|") {
			return strings.Split(option, "|")
		}
	}
	return nil
}

// refuses reports whether a text is not one of the words.
func (f field) refuses(n *Node) bool {
	return f.words() != nil && n.Kind == Scalar && len(n.errs) == 0 && !slices.Contains(f.words(), n.Text)
}

// inFile reports whether the setting has a NAME_file variant.
func (f field) inFile() bool { return f.has("secret") || f.has("file") || f.has("dsn") }

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
	nodeType     = reflect.TypeFor[*Node]()
	prefixType   = reflect.TypeFor[netip.Prefix]()
)

// selfDecoding is a setting whose members depend on its content.
type selfDecoding interface {
	DecodeNode(d *Decoder, n *Node, path string)
}

// shortOf returns the member that a single value in place of the mapping v means; ok is false if
// there is none.
func shortOf(v reflect.Value) (name string, member reflect.Value, ok bool) {
	if v.Kind() != reflect.Struct {
		return "", v, false
	}
	for name, f := range fieldsOf(v) {
		if f.has("short") {
			return name, f.value, true
		}
	}
	return "", v, false
}

// named is a member of a mapping whose names the user chooses, such as producers.
type named interface {
	SetName(name string, at usage.Place)
}

// Decode fills v, which is settable, from n. path names the setting in messages.
func (d *Decoder) Decode(n *Node, v reflect.Value, path string) {
	if n == nil || n.Kind == Empty || len(n.errs) > 0 {
		return
	}
	switch own := v.Addr().Interface().(type) {
	case selfDecoding:
		own.DecodeNode(d, n, path)
		return
	case *netip.Prefix, *time.Time: // they have forms of their own
	case encoding.TextUnmarshaler:
		if d.Want(n, Scalar, path) {
			d.word(n, v, own, path)
		}
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		if d.Want(n, Scalar, path) {
			d.parse(n, v, path)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.Decode(n, v.Elem(), path)
	case reflect.Map:
		d.stringMap(n, v, path)
	case reflect.Struct:
		if name, _, short := shortOf(v); short && n.Kind == Scalar {
			n.SpellOut(name)
		}
		switch {
		case v.Type() == prefixType:
			d.prefix(n, v, path)
		case v.Type() == timeType:
			d.date(n, v, path)
		case d.Want(n, Mapping, path):
			d.Objects(n, path, v.Addr().Interface())
		}
	case reflect.Slice:
		d.list(n, v, path)
	default:
		if d.Want(n, Scalar, path) {
			d.single(n, v, path)
		}
	}
}

// Want reports whether a value has a kind; otherwise that is an error.
func (d *Decoder) Want(n *Node, kind Kind, path string) bool {
	if n.Kind != kind {
		hint := ""
		if strings.HasSuffix(path, "].type") {
			hint = "write one handler for each type"
		}
		d.Errs.Add(n.At, hint, "%s is %s, want %s", path, n.Kind, kind)
	}
	return n.Kind == kind
}

// Objects fills structs. Of settings with the same name the last counts.
func (d *Decoder) Objects(n *Node, path string, structs ...any) {
	fields := map[string]field{}
	for _, s := range structs {
		v := reflect.ValueOf(s).Elem()
		maps.Copy(fields, fieldsOf(v))
		for i := range v.NumField() {
			if v.Field(i).Type() == nodeType {
				v.Field(i).Set(reflect.ValueOf(n))
			}
		}
	}
	for _, name := range n.Names {
		f, ok := fields[name]
		if !ok {
			if !d.fileVariant(n, name, fields, path) {
				d.addUnknown(n, name, fields, path)
			}
			continue
		}
		inner, found := n.inner[name], len(d.Errs)
		inner.disclose(f.options)
		d.Decode(inner, f.value, join(path, name))
		switch {
		case f.inFile() && f.value.Kind() != reflect.Map:
			d.requireText(inner, join(path, name))
		case inner.isBlank(f):
			d.Errs.Add(n.where[name], "leave it out for its default", "%s is empty", join(path, name))
		case f.refuses(inner):
			d.Errs.Add(inner.At, usage.DidYouMean(inner.Text, f.words()), "%s is %q", join(path, name), inner.Text)
		case len(d.Errs) == found:
			d.refuseZero(inner, f, join(path, name))
		}
	}
	d.setDefaults(n, fields, path)
}

// setDefaults sets the fields that are not written.
func (d *Decoder) setDefaults(n *Node, fields map[string]field, path string) {
	for name, f := range fields {
		if written := n.Member(name); written != nil && written.Kind != Empty || n.Member(name+"_file") != nil {
			continue
		}
		if f.fallback != "" {
			d.Decode(&Node{Kind: Scalar, Text: f.fallback}, f.value, join(path, name))
		} else if f.value.Kind() == reflect.Struct {
			d.setDefaults(nil, fieldsOf(f.value), join(path, name))
		}
	}
}

// ReportUnknown reports the names that are settings of none of the structs.
func (d *Decoder) ReportUnknown(n *Node, path string, structs ...any) {
	fields := map[string]field{}
	for _, s := range structs {
		maps.Copy(fields, fieldsOf(reflect.ValueOf(s).Elem()))
	}
	for _, name := range n.Names {
		if _, ok := fields[name]; !ok {
			d.addUnknown(n, name, fields, path)
		}
	}
}

func (d *Decoder) addUnknown(n *Node, name string, fields map[string]field, path string) {
	if path != "" {
		path = " in " + path
	}
	hint := usage.DidYouMean(name, slices.Collect(maps.Keys(fields)))
	d.Errs.Add(n.where[name], hint, "unknown setting %q%s", name, path)
}

// refuseZero refuses a number that is 0, which would mean the default.
func (d *Decoder) refuseZero(n *Node, f field, path string) {
	_, word := f.value.Addr().Interface().(encoding.TextUnmarshaler)
	if n.Kind == Scalar && len(n.errs) == 0 && f.value.CanInt() && f.value.Int() == 0 && !word && !f.has("zero") {
		d.Errs.Add(n.At, "leave it out for its default", "%s is 0", path)
	}
}

// isBlank reports whether a setting has a name but no value. Sections and their lists may be empty.
func (n *Node) isBlank(f field) bool {
	if n.Kind == Sequence {
		return len(n.Items) == 0 && f.has("nonempty")
	}
	t := f.value.Type()
	list := t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && t.Elem() != prefixType
	return n.Kind == Empty && !list && t.Kind() != reflect.Struct
}

// requireText refuses empty secrets.
func (d *Decoder) requireText(n *Node, path string) {
	if n.Kind == Sequence {
		for i, item := range n.Items {
			if item.Kind != Empty { // reported already
				d.requireText(item, fmt.Sprintf("%s[%d]", path, i))
			}
		}
		return
	}
	if len(n.errs) == 0 && (n.Kind == Empty || n.Kind == Scalar && strings.TrimSpace(n.Text) == "") {
		d.Errs.Add(n.At, "write it as ${NAME} and set the variable, or name a file", "%s is empty", path)
	}
}

// fileVariant reads a setting from the file that NAME_file names. It reports whether the setting is
// such a name. White space around the text is dropped, because editors add it.
func (d *Decoder) fileVariant(n *Node, name string, fields map[string]field, path string) bool {
	base, ok := strings.CutSuffix(name, "_file")
	f := fields[base]
	if !ok || !f.inFile() || f.value.Kind() == reflect.Map {
		return false
	}
	inner, at, full := n.inner[name], n.where[name], join(path, name)
	var files []string
	switch {
	case n.inner[base] != nil:
		d.Errs.Add(at, "remove one of them", "%s and %s are both set", join(path, base), name)
	case inner.Kind == Empty || inner.Kind == Sequence && len(inner.Items) == 0:
		d.Errs.Add(at, "write the name of the file", "%s is empty", full)
	case inner.Kind == Sequence && f.value.Kind() != reflect.Slice:
		d.Want(inner, Scalar, full)
	default:
		d.Decode(inner, reflect.ValueOf(&files).Elem(), full)
	}
	for _, file := range files {
		text := d.readFile(at, file)
		if text == "" {
			continue
		}
		if !f.has("file") {
			d.Secrets = append(d.Secrets, file)
		}
		d.Decode(&Node{At: at, Kind: Scalar, Text: text}, appended(f.value), join(path, base))
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

// readFile returns the text of the file, or "" after reporting why there is none.
func (d *Decoder) readFile(at usage.Place, file string) string {
	data, err := d.Files.Read(PathIn(d.Dir, file))
	if err != nil {
		d.Errs.Add(at, "the name is relative to the configuration file", "secret file %s: %v", file, usage.Cause(err))
		return ""
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		d.Errs.Add(at, "", "secret file %s is empty", file)
	}
	return text
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// stringMap fills a map from names that the user chooses to texts. In a map of secrets, NAME_file
// names the file of one.
func (d *Decoder) stringMap(n *Node, v reflect.Value, path string) {
	if !d.Want(n, Mapping, path) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, name := range n.Names {
		item := reflect.New(v.Type().Elem()).Elem()
		d.Decode(n.inner[name], item, join(path, name))
		id, inFile := strings.CutSuffix(name, "_file")
		switch {
		case !inFile || n.Shown != Secret:
			d.requireText(n.inner[name], join(path, name))
		case n.inner[id] != nil:
			d.Errs.Add(n.where[name], "remove one of them", "%s and %s are both set", join(path, id), name)
		default:
			d.Secrets = append(d.Secrets, item.String())
			item.SetString(d.readFile(n.where[name], item.String()))
			name = id
		}
		v.SetMapIndex(reflect.ValueOf(name), item)
	}
}

// prefix reads an address or a network.
func (d *Decoder) prefix(n *Node, v reflect.Value, path string) {
	if !d.Want(n, Scalar, path) {
		return
	}
	p, err := netip.ParsePrefix(n.Text)
	if a, addrErr := netip.ParseAddr(n.Text); addrErr == nil {
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	if err != nil {
		d.Errs.Add(n.At, "write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32",
			"%s is %q, want an address or a network", path, n.Text)
		return
	}
	v.Set(reflect.ValueOf(p))
}

// isText reports whether a single text is a list of one element of the type.
func isText(elem reflect.Type) bool {
	return elem.Kind() == reflect.String || elem.Kind() == reflect.Interface
}

// list fills a slice from a list, a single value, or, if its elements have names, a mapping.
func (d *Decoder) list(n *Node, v reflect.Value, path string) {
	elem := v.Type().Elem()
	_, isNamed := reflect.New(elem).Interface().(named)
	switch {
	case isNamed && n.Kind == Mapping:
		for _, name := range n.Names {
			item := reflect.New(elem)
			item.Interface().(named).SetName(name, n.where[name])
			inner := n.inner[name]
			if inner.Kind == Empty {
				d.Errs.Add(n.where[name], "", "%s has no settings", join(path, name))
			}
			d.Decode(inner, item.Elem(), join(path, name))
			v.Set(reflect.Append(v, item.Elem()))
		}
	case isNamed:
		d.Errs.Add(n.At, "write each under its name", "%s is %s, want a mapping", path, n.Kind)
	case n.Kind == Sequence:
		for i, inner := range n.Items {
			if inner.Kind == Empty {
				d.Errs.Add(inner.At, "write it, or remove the item", "%s[%d] is empty", path, i)
				continue
			}
			d.Decode(inner, appended(v), fmt.Sprintf("%s[%d]", path, i))
		}
	case n.Kind == Scalar && isText(elem):
		d.Decode(n, appended(v), path)
	default:
		d.Errs.Add(n.At, "", "%s is %s, want a list", path, n.Kind)
	}
}

func (d *Decoder) single(n *Node, v reflect.Value, path string) {
	var err error
	var want, hint string
	switch {
	case v.Type() == durationType:
		want, hint = "a duration", "write 30s, 5m, 24h or 7d"
		var t time.Duration
		t, err = duration.Parse(n.Text)
		v.SetInt(int64(t))
	case v.Kind() == reflect.Int64:
		want, hint = "a number of bytes", "write 65536, 64KiB or 1MiB"
		var size int64
		size, err = ParseSize(n.Text)
		v.SetInt(size)
	case v.Kind() == reflect.Bool:
		want = "true or false"
		var b bool
		b, err = strconv.ParseBool(n.Text)
		v.SetBool(b)
	case v.Kind() == reflect.Int:
		want = "a whole number"
		var i int64
		i, err = strconv.ParseInt(n.Text, 10, 32)
		v.SetInt(i)
	case v.Kind() == reflect.String:
		v.SetString(n.Text)
	default:
		panic("conf: no decoder for a setting of type " + v.Type().String())
	}
	if err != nil {
		d.Errs.Add(n.At, hint, "%s is %q, want %s", path, n.Text, want)
	}
}

// word reads a value whose type reads its own text.
func (d *Decoder) word(n *Node, v reflect.Value, into encoding.TextUnmarshaler, path string) {
	err := into.UnmarshalText([]byte(n.Text))
	if err == nil {
		return
	}
	if words := wordsOf(v.Type()); len(words) > 0 {
		d.Errs.Add(n.At, usage.DidYouMean(n.Text, words), "%s is %q", path, n.Text)
		return
	}
	d.Errs.Add(n.At, "", "%s: %v", path, err)
}

// wordsOf returns the words of a type whose values are the numbers from 0 on, or nil.
func wordsOf(t reflect.Type) (words []string) {
	if t.Kind() != reflect.Int {
		return nil
	}
	v := reflect.New(t).Elem()
	one, ok := v.Addr().Interface().(encoding.TextMarshaler)
	for i := int64(0); ok; i++ {
		v.SetInt(i)
		text, err := one.MarshalText()
		if err != nil {
			return words
		}
		if len(text) > 0 {
			words = append(words, string(text))
		}
	}
	return nil
}

// date reads the start of a day in UTC, or a time of RFC 3339.
func (d *Decoder) date(n *Node, v reflect.Value, path string) {
	if !d.Want(n, Scalar, path) {
		return
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, n.Text); err == nil {
			v.Set(reflect.ValueOf(at.UTC()))
			return
		}
	}
	d.Errs.Add(n.At, "write 2027-01-31, which is the start of that day in UTC, or 2027-01-31T18:00:00+01:00",
		"%s is %q, want a date", path, n.Text)
}

// Parser reads the values of an interface. The hint says how to write one.
type Parser struct {
	Parse func(string) (any, error)
	Hint  string
}

// parse reads the value of an interface.
func (d *Decoder) parse(n *Node, v reflect.Value, path string) {
	known := d.Parsers[v.Type()]
	value, err := known.Parse(n.Text)
	if err != nil {
		d.Errs.Add(n.At, known.Hint, "%s: %v", path, err)
		return
	}
	v.Set(reflect.ValueOf(value))
}

// Overlay sets those fields of a struct whose settings are written in n. Members of a mapping are
// set one by one, and names of a map added.
func Overlay(to, from reflect.Value, n *Node) {
	for i := range to.NumField() {
		name, _ := tagOf(to.Type().Field(i))
		written, at, value := n.Member(name), to.Field(i), from.Field(i)
		switch {
		case written == nil || written.Kind == Empty:
		case at.Kind() == reflect.Struct && written.Kind == Mapping:
			Overlay(at, value, written)
		case at.Kind() == reflect.Map && !at.IsNil():
			all := reflect.MakeMap(at.Type())
			for _, part := range []reflect.Value{at, value} {
				for of := part.MapRange(); of.Next(); {
					all.SetMapIndex(of.Key(), of.Value())
				}
			}
			at.Set(all)
		default:
			at.Set(value)
		}
	}
}
