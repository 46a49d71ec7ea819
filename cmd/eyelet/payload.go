package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/replay"
)

// payload is JSON in a file, which becomes a delivery when it is signed.
type payload struct {
	name string // of the file; with the line, of one of several in an *.ndjson file
	path string
	body []byte
}

// The files that commands take from a folder.
var deliveryFiles = []string{".http", ".json", ".ndjson"}

// expandFolders replaces folders by the delivery files below them, in the order of their names.
// Hidden files and folders are skipped.
func expandFolders(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() {
			files = append(files, path) // a missing file is reported when it is read
			continue
		}
		found := len(files)
		err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			hidden := name != path && strings.HasPrefix(entry.Name(), ".")
			switch {
			case err != nil:
				return err
			case hidden && entry.IsDir():
				return filepath.SkipDir
			case !hidden && !entry.IsDir() && slices.Contains(deliveryFiles, filepath.Ext(name)):
				files = append(files, name)
			}
			return nil
		})
		if err != nil {
			return nil, usage.Errorf("", "%s: %s", path, usage.Cause(err))
		}
		if len(files) == found {
			return nil, usage.Errorf("files end in .http, .json or .ndjson", "%s: no deliveries in this folder", path)
		}
	}
	return files, nil
}

// isPayload reports whether a file holds JSON to be signed, or is a folder, which may contain some.
func isPayload(file string) bool {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return true
	}
	return filepath.Ext(file) == ".json" || filepath.Ext(file) == ".ndjson"
}

// readPayloads reads the payload of a *.json file, or those of the lines of an *.ndjson file.
func readPayloads(path string) ([]payload, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usage.Errorf("", "%s: %s", path, usage.Cause(err))
	}
	if filepath.Ext(path) != ".ndjson" {
		if err := checkPayload(path, text); err != nil {
			return nil, err
		}
		if !json.Valid(text) {
			return nil, usage.Errorf("another payload is sent alone: eyelet send FILE", "%s is not JSON", path)
		}
		return []payload{{path, path, text}}, nil
	}
	var all []payload
	var found usage.Errors
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !json.Valid(line) {
			found.Add(usage.Place{File: path, Line: number}, "each line is one payload", "the line is not JSON")
		}
		all = append(all, payload{path + ":" + strconv.Itoa(number), path, line})
	}
	return all, found.Err()
}

// foreign are files that hold something else than a payload, by their first bytes or, of JSON, by
// their members.
var foreign = []struct {
	is         *regexp.Regexp
	members    []string // all at the top, or below the first
	what, hint string
}{
	{what: "a HAR file", members: []string{"log", "entries"},
		hint: "take a body out of it: jq -j '.log.entries[0].request.postData.text' FILE > body.json"},
	{what: "a fixture of the Stripe CLI", members: []string{"_meta", "fixtures"},
		hint: "it has calls of the API; `eyelet send stripe TYPE` sends an event, --override changes its members"},
	{what: "a Postman collection", members: []string{"info", "_postman_id"}, hint: "export the body of one request"},
	{what: "a curl command", is: regexp.MustCompile(`^(?:\$ ?)?curl(?:\.exe)?\s`),
		hint: "run it to send it as it is; to sign its body, write the text after --data into a file"},
	{what: "a script", is: regexp.MustCompile(`^#!`), hint: "run it, and pass its output: SCRIPT | eyelet send -"},
	{what: "a recorded request", is: regexp.MustCompile(`^[A-Z]+ \S+ HTTP/[0-9.]+\r?\n`),
		hint: "name it FILE.http"},
	{what: "a key in PEM", is: regexp.MustCompile(`^-----BEGIN [A-Z ]*KEY-----`), hint: "give it to --key"},
}

// checkPayload refuses by name what people have where they want a payload.
func checkPayload(name string, body []byte) error {
	text := bytes.TrimSpace(body)
	for bytes.HasPrefix(text, []byte("#")) && bytes.Contains(text, []byte("\ncurl ")) { // comments before a command
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	var top, below map[string]json.RawMessage
	_ = json.Unmarshal(text, &top) // nil for anything else
	for _, f := range foreign {
		if f.is != nil && f.is.Match(text) {
			return usage.Errorf(f.hint, "%s is %s, not a payload", name, f.what)
		}
		if f.is != nil || top[f.members[0]] == nil {
			continue
		}
		below = nil
		_ = json.Unmarshal(top[f.members[0]], &below)
		if top[f.members[1]] != nil || below[f.members[1]] != nil {
			return usage.Errorf(f.hint, "%s is %s, not a payload", name, f.what)
		}
	}
	return nil
}

// doubts returns what is probably wrong with a delivery that is sent to try a receiver: a body that
// is not what its media type says, and a type that the preset does not list.
func doubts(rec *replay.Recording, vendor preset.Preset, set preset.Settings) (all []string) {
	h := rec.Header()
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	isJSON := media == "application/json" || strings.HasSuffix(media, "+json")
	if isJSON && h.Get("Content-Encoding") == "" && !json.Valid(rec.Body) {
		all = append(all, "the body is not JSON, and its media type is "+media)
	}
	r, err := rec.Request()
	if err != nil || vendor.Name == "" {
		return all
	}
	kind, err := typeOf(vendor.Open(set).WithDefaults(), &producer.Delivery{Request: r, Body: rec.Body})
	switch {
	case err != nil:
	case kind == "" && strings.HasPrefix(vendor.TypeFrom(), "header:"):
		all = append(all, "the delivery has no type in "+strings.TrimPrefix(vendor.TypeFrom(), "header:")+
			"; --type gives one")
	case kind != "" && !vendor.Lists(kind):
		hint := "`eyelet producers " + vendor.Name + "` lists them"
		if near := usage.Nearest(kind, vendor.Types()); near != "" {
			hint = "did you mean " + near + "?"
		}
		all = append(all, fmt.Sprintf("%s is not one of the common types of %s; %s", kind, vendor.Name, hint))
	}
	return all
}

// typeOf returns the type of a delivery, which may lack an identifier; of a batch, the first.
func typeOf(p producer.Producer, d *producer.Delivery) (string, error) {
	if p.Split == nil && p.Type != nil {
		return p.Type.Extract(d)
	}
	items, err := p.Items(d)
	if err != nil || len(items) == 0 {
		return "", err
	}
	return items[0].Type, nil
}

// origin returns the producer of a payload and its type, as far as the path has them. The producer
// is that of the flag, else the innermost folder with the name of a producer, else the beginning
// of the file's name. What follows is the type: github/push.json, shopify/orders/create.json,
// stripe-refund.json. A number before it is skipped, as in github/01-push.json.
func (p payload) origin(flag string, known []string) (name, kind string) {
	parts := strings.Split(filepath.ToSlash(filepath.Clean(p.path)), "/")
	last := len(parts) - 1
	parts[last] = strings.TrimSuffix(parts[last], filepath.Ext(parts[last]))
	for i := last - 1; i >= 0; i-- {
		if slices.Contains(known, parts[i]) && (flag == "" || flag == parts[i]) {
			parts[last] = afterNumber(parts[last])
			return parts[i], strings.Join(parts[i+1:], "/")
		}
	}
	stem := afterNumber(parts[last])
	longest := ""
	for _, name := range known {
		rest, ok := strings.CutPrefix(stem, name)
		if ok && len(name) > len(longest) && (rest == "" || strings.ContainsAny(rest[:1], "-_.")) {
			longest = name
		}
	}
	switch {
	case longest != "" && (flag == "" || flag == longest):
		return longest, strings.TrimLeft(strings.TrimPrefix(stem, longest), "-_.")
	case flag != "":
		return flag, stem
	}
	return "", ""
}

// afterNumber removes the number with which files are ordered.
func afterNumber(name string) string {
	rest := strings.TrimLeft(name, "0123456789")
	if rest == name || rest == "" || !strings.ContainsAny(rest[:1], "-_.") {
		return name
	}
	return rest[1:]
}

// typeIn returns the documented type of the vendor that a file's name means: push-2 is a push, and
// orders-create is orders/create.
func typeIn(vendor preset.Preset, name string) string {
	longest := ""
	for _, kind := range vendor.Types() {
		for _, written := range []string{kind, strings.ReplaceAll(kind, "/", "-"), strings.ReplaceAll(kind, " ", "-")} {
			rest, ok := strings.CutPrefix(name, written)
			if ok && (rest == "" || strings.ContainsAny(rest[:1], "-_.")) && len(kind) > len(longest) {
				longest = kind
			}
		}
	}
	if longest != "" {
		return longest
	}
	return name
}

// delivery makes a delivery of the payload, and reports whether it must still be signed.
func (from *sender) delivery(p payload, kind string) (rec *replay.Recording, base string, unsigned bool, err error) {
	vendor, ok := preset.Find(from.config.Preset)
	if !ok {
		if from.sign == nil {
			return nil, "", false, usage.Errorf("give --key FILE, or record the delivery as an .http file",
				"%s: producer %q has no key to sign with", p.name, from.config.Name)
		}
		header := http.Header{"Content-Type": {"application/json"}}
		rec = payloadRecording(p.name, from.config.Name, from.producer, header, p.body, "")
		return rec, from.url, true, nil
	}
	set := from.config.PresetSettings
	set.Name = from.config.Name
	rec, base, err = from.vendorDelivery(vendor, set, typeIn(vendor, kind), "", func([]byte) ([]byte, error) {
		return p.body, nil
	})
	if err == nil {
		rec.Name = p.name
	}
	return rec, base, false, err
}

// watchInterval is the time between two looks for changes.
const watchInterval = 300 * time.Millisecond

// fileState is what a change of a file changes.
type fileState struct {
	size    int64
	changed time.Time
}

// watchFiles calls changed with the delivery files below the paths that are new or were changed
// since before, until ctx ends.
func watchFiles(ctx context.Context, paths []string, before map[string]fileState, changed func(files []string)) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := fileStates(paths)
		files, err := expandFolders(paths)
		if err != nil {
			continue // an empty folder may be filled again
		}
		var fresh []string
		for _, file := range files {
			if state, ok := now[file]; ok && state != before[file] {
				fresh = append(fresh, file)
			}
		}
		before = now
		if len(fresh) > 0 {
			changed(fresh)
		}
	}
}

// fileStates returns the states of the delivery files below the paths.
func fileStates(paths []string) map[string]fileState {
	states := map[string]fileState{}
	files, err := expandFolders(paths)
	if err != nil {
		return states
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			states[file] = fileState{info.Size(), info.ModTime()}
		}
	}
	return states
}
