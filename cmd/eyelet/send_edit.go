package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// bodyEdits are the changes of a body before it is signed.
type bodyEdits struct {
	override, add []string // PATH=VALUE
	edit          bool     // in an editor
}

func (e *bodyEdits) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&e.override, "override", nil, "member of the body to replace before it is signed, as "+
		"PATH=VALUE, such as data.object.amount=500; a string stays a string")
	flags.StringArrayVar(&e.add, "add", nil, "member to add to the body, or to replace, as PATH=VALUE")
	flags.BoolVar(&e.edit, "edit", false, "edit the body in VISUAL or EDITOR before it is signed")
}

func (e bodyEdits) none() bool { return len(e.override)+len(e.add) == 0 && !e.edit }

// apply returns the changed body: --override first, then --add, then the editor.
func (e bodyEdits) apply(ctx context.Context, p *program, body []byte) ([]byte, error) {
	for i, pair := range append(append([]string{}, e.override...), e.add...) {
		flag := "--override"
		if i >= len(e.override) {
			flag = "--add"
		}
		path, value, ok := strings.Cut(pair, "=")
		if !ok || path == "" {
			return nil, usage.Errorf("write "+flag+" data.object.amount=500", "%s %q is not PATH=VALUE", flag, pair)
		}
		var err error
		if body, err = setInBody(body, path, value, flag == "--add"); err != nil {
			return nil, err
		}
	}
	if e.edit {
		return inEditor(ctx, p, body)
	}
	return body, nil
}

// errNoMember means that the path of --override leads nowhere.
var errNoMember = errors.New("no such member")

// setInBody sets a member of a JSON document, or a value of a form.
func setInBody(body []byte, path, value string, add bool) ([]byte, error) {
	names := strings.Split(path, ".")
	var out []byte
	var err error
	switch {
	case json.Valid(body) && strings.ContainsAny(string(body[:1]), "{["):
		out, err = setInJSON(body, names, value, add)
	case !strings.ContainsAny(string(body), " \r\n<{"):
		out, err = setInForm(string(body), path, value, add)
	default:
		return nil, usage.Errorf("use --edit", "the body is neither JSON nor a form, so %s cannot be set", path)
	}
	if errors.Is(err, errNoMember) {
		return nil, usage.Errorf("`--add "+path+"=...` adds one; --edit shows the body", "the body has no member %s",
			path)
	}
	return out, err
}

// setInJSON returns the document with the member at the path replaced or, with add, added.
// The other members are unchanged.
func setInJSON(doc []byte, path []string, value string, add bool) ([]byte, error) {
	if len(path) == 0 {
		return jsonValue(doc, value), nil
	}
	doc = []byte(strings.TrimSpace(string(doc)))
	if len(doc) == 0 || doc[0] != '{' && doc[0] != '[' {
		return nil, errNoMember
	}
	list := doc[0] == '['
	var parts []string
	found := false
	each := func(prefix string, rest []string, here bool, old []byte) error {
		if here && !found {
			set, err := setInJSON(old, rest, value, add)
			if err != nil {
				return err
			}
			old, found = set, true
		}
		parts = append(parts, prefix+string(old))
		return nil
	}
	var err error
	if list {
		err = strictjson.EachElement(doc, func(old []byte) error {
			return each("", path[1:], path[0] == strconv.Itoa(len(parts)), old)
		})
	} else {
		err = strictjson.EachMember(doc, func(name, old []byte) error {
			plain := strictjson.String(name)
			if plain == strings.Join(path, ".") { // a name with dots
				return each(string(name)+":", nil, true, old)
			}
			return each(string(name)+":", path[1:], plain == path[0], old)
		})
	}
	if err == nil && !found {
		var made string
		made, err = newMember(path, value, add, list, len(parts))
		parts = append(parts, made)
	}
	if err != nil {
		return nil, err
	}
	text := strings.Join(parts, ",")
	if list {
		return []byte("[" + text + "]"), nil
	}
	return []byte("{" + text + "}"), nil
}

// newMember returns the text of a new member, or of a new element after the n of a list.
func newMember(path []string, value string, add, list bool, n int) (string, error) {
	if !add || list && path[0] != strconv.Itoa(n) {
		return "", errNoMember
	}
	var inner []byte
	if len(path) > 1 {
		inner = []byte("{}")
	}
	made, err := setInJSON(inner, path[1:], value, true)
	if list {
		return string(made), err
	}
	return string(strictjson.Quote(nil, path[0])) + ":" + string(made), err
}

// jsonValue returns the value as JSON, if it is any, and else as a string. A string stays one
// unless the value is written as another string, an object, an array or null.
func jsonValue(old []byte, value string) []byte {
	text := strings.TrimSpace(value)
	stays := len(old) > 0 && old[0] == '"' && text != "null" && !strings.HasPrefix(text, `"`) &&
		!strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[")
	if json.Valid([]byte(text)) && !stays {
		return []byte(text)
	}
	return strictjson.Quote(nil, value)
}

// setInForm sets a value of an application/x-www-form-urlencoded body.
func setInForm(form, name, value string, add bool) ([]byte, error) {
	set := url.QueryEscape(name) + "=" + url.QueryEscape(value)
	pairs := strings.Split(form, "&")
	for i, pair := range pairs {
		had, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(had); err == nil && plain == name {
			pairs[i] = set
			return []byte(strings.Join(pairs, "&")), nil
		}
	}
	if !add {
		return nil, errNoMember
	}
	return []byte(strings.Trim(form+"&"+set, "&")), nil
}

// inEditor returns the body as a person edited it, in VISUAL or EDITOR. JSON is indented for it.
func inEditor(ctx context.Context, p *program, body []byte) (edited []byte, err error) {
	env := config.Source{Environ: p.Environ}
	editor, _ := env.Lookup("VISUAL")
	if editor == "" {
		editor, _ = env.Lookup("EDITOR")
	}
	words := strings.Fields(editor)
	if len(words) == 0 {
		words = []string{"vi"}
	}
	dir, err := os.MkdirTemp("", "eyelet-edit-")
	if err != nil {
		return nil, usage.Errorf("set TMPDIR to a folder that is writable", "no folder for the body: %s",
			usage.Cause(err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file, indented := filepath.Join(dir, "body.txt"), body
	if json.Valid(body) {
		file = filepath.Join(dir, "body.json")
		if indented, err = indentJSON(body); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(file, indented, 0o600); err != nil {
		return nil, err
	}
	run := exec.CommandContext(ctx, words[0], append(words[1:], file)...) //nolint:gosec // the user's own editor
	run.Stdin, run.Stdout, run.Stderr = p.In, p.Out, p.Err
	if err := run.Run(); err != nil {
		return nil, usage.Errorf("set EDITOR to an editor that waits until the file is closed", "%s: %s", words[0],
			usage.Cause(err))
	}
	if edited, err = os.ReadFile(file); err != nil {
		return nil, err
	}
	if string(edited) == string(indented) {
		return body, nil
	}
	return edited, nil
}

func indentJSON(body []byte) ([]byte, error) {
	var value json.RawMessage = body
	text, err := json.MarshalIndent(value, "", "  ")
	return append(text, '\n'), err
}
