package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/replay"
)

// input is what a file holds: a recorded delivery, or a payload that is signed to become one.
type input struct {
	name string            // of the file; with the line or the number, of one of several in it
	path string            // of the file; empty for standard input
	rec  *replay.Recording // nil for a payload
	file []byte            // all of the file, if it holds one recording
	body []byte            // the payload
}

// inputHelp says what commands read.
const inputHelp = "A FILE is a recording or a payload. A recording is an .http file, a browser's or proxy's HAR\n" +
	"file (each POST or PUT with a body; FILE.har#3 is entry 3), or a curl command. A payload is signed by the\n" +
	"producer of --producer, else by the one that a folder of its path or the beginning of its name names:\n" +
	"stripe/refund.json, github/push.json, shop-order.json; in .ndjson, each line is one. A folder means every\n" +
	".http, .har, .json and .ndjson file below it."

// maxInput bounds what is read from standard input, in bytes.
const maxInput = 64 << 20

// readInputs reads what a file or, for "-", standard input holds.
func readInputs(stdin io.Reader, arg string) ([]input, error) {
	if arg != "-" {
		path, number := entryOf(arg)
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		return inputsIn(path, data, number)
	}
	data, err := readStdin(stdin)
	if err != nil {
		return nil, err
	}
	return inputsIn("", data, 0)
}

// readStdin reads standard input to its end.
func readStdin(stdin io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(stdin, maxInput+1))
	if len(data) > maxInput {
		return nil, usage.Errorf("", "standard input is longer than %d MiB", maxInput>>20)
	}
	if err != nil {
		return nil, unreadable("standard input", err)
	}
	return data, nil
}

// readFiles reads what files hold, and those below folders. It returns the mistakes of all.
func readFiles(stdin io.Reader, paths []string) (all []input, err error) {
	files, err := expandFolders(paths)
	if err != nil {
		return nil, err
	}
	var found usage.Errors
	for _, file := range files {
		some, err := readInputs(stdin, file)
		if ms, ok := usage.Find(err); ok {
			found = append(found, ms...)
		}
		all = append(all, some...)
	}
	return all, found.Err()
}

// inputsIn returns what the data of a file hold, or without a path those of standard input.
func inputsIn(path string, data []byte, number int) (all []input, err error) {
	name := cmp.Or(path, "standard input")
	switch ext := filepath.Ext(path); {
	case httpfile.IsRecording(data), ext == ".http", ext == ".har":
		recs, err := parseRecordings(name, data, number)
		for _, rec := range recs {
			all = append(all, input{name: rec.Name, path: path, rec: rec})
		}
		if len(all) == 1 && all[0].name == path {
			all[0].file = data
		}
		return all, err
	case ext == ".ndjson":
		return payloadLines(path, data)
	}
	return []input{{name: name, path: path, body: data}}, checkPayload(name, data)
}

// entryOf splits FILE.har#3. Without a number, or if there is a file of that name, it is 0.
func entryOf(arg string) (path string, number int) {
	path, digits, _ := strings.Cut(arg, "#")
	number, err := strconv.Atoi(digits)
	if err != nil || exists(arg) {
		return arg, 0
	}
	return path, number
}

func unreadable(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return usage.Errorf("", "%s: %s", path, usage.Cause(err))
	}
	hint := ""
	if near := usage.Nearest(path, presetNames()); near != "" {
		hint = "did you mean the preset " + strconv.Quote(near) + "?"
	}
	return usage.Errorf(hint, "%s: there is no such file", path)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// parseRecordings parses recordings of any form. Its errors name the line.
func parseRecordings(name string, data []byte, number int) ([]*httpfile.File, error) {
	recs, err := httpfile.ParseAll(name, data, number)
	if parseErr, ok := errors.AsType[*httpfile.Error](err); ok {
		return nil, badRecording(parseErr)
	}
	return recs, err
}

// readRecording reads the only recording of a file.
func readRecording(arg string) (*httpfile.File, error) {
	path, number := entryOf(arg)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return onlyRecording(path, data, number)
}

// parseRecording parses the only recording that is not in a file.
func parseRecording(name string, data []byte) (*httpfile.File, error) {
	return onlyRecording(name, data, 0)
}

func onlyRecording(name string, data []byte, number int) (*httpfile.File, error) {
	recs, err := parseRecordings(name, data, number)
	if err != nil {
		return nil, err
	}
	if len(recs) > 1 {
		return nil, usage.Errorf("name one of them, as in "+recs[0].Name, "%s holds %d recordings", name, len(recs))
	}
	return recs[0], nil
}

func badRecording(e *httpfile.Error) error {
	return &usage.Error{
		At: usage.Place{File: e.File, Line: e.Line}, What: usage.OneLine(e.Msg),
		Hint: `an .http file is notes ("# now: 1782635400"), a request line, header fields, a blank line, and the body`,
	}
}

// payloadLines returns the lines of an *.ndjson file.
func payloadLines(path string, text []byte) (all []input, err error) {
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
		all = append(all, input{name: path + ":" + strconv.Itoa(number), path: path, body: line})
	}
	return all, found.Err()
}

// foreign are files that hold something else than a delivery, by their beginning.
var foreign = []struct {
	is         *regexp.Regexp
	what, hint string
}{
	{regexp.MustCompile(`^\{\s*"_meta"\s*:(?s:.*)"fixtures"\s*:`), "a fixture of the Stripe CLI",
		"it has calls of the API; `eyelet send stripe TYPE` sends an event, --override changes its members"},
	{regexp.MustCompile(`^\{\s*"info"\s*:\s*\{\s*"_postman_id"`), "a Postman collection",
		"export the body of one request"},
	{regexp.MustCompile(`^#!`), "a script", "run it, and pass its output: SCRIPT | eyelet send -"},
	{regexp.MustCompile(`^-----BEGIN [A-Z ]*KEY-----`), "a key in PEM", "give it to --key"},
}

// checkPayload refuses by name what people have where they want a payload.
func checkPayload(name string, body []byte) error {
	for _, f := range foreign {
		if f.is.Match(bytes.TrimSpace(body)) {
			return usage.Errorf(f.hint, "%s is %s, not a payload", name, f.what)
		}
	}
	return nil
}

// The files that commands take from a folder.
var deliveryFiles = []string{".http", ".har", ".json", ".ndjson"}

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
			return nil, usage.Errorf("files end in "+strings.Join(deliveryFiles, ", "),
				"%s: no deliveries in this folder", path)
		}
	}
	return files, nil
}

// origin returns the producer of a payload and its type, as far as the path has them. The producer
// is that of the flag, else the innermost folder with the name of a producer, else the beginning
// of the file's name. What follows is the type: github/push.json, shopify/orders/create.json,
// stripe-refund.json. A number before it is skipped, as in github/01-push.json.
func (p input) origin(flag string, known []string) (name, kind string) {
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

// arrival returns the time of arrival: that of the flag, else of the note, else the present.
func arrival(rec *httpfile.File, flag string) (time.Time, error) {
	text := cmp.Or(flag, rec.Note("now"))
	if text == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return time.Unix(seconds, 0), nil
	}
	if flag != "" {
		return time.Time{}, usage.Errorf("write --now 1782635400", "%q is not a unix time", flag)
	}
	err = rec.Errorf("now", "%q is not a unix time", text)
	if e, ok := errors.AsType[*httpfile.Error](err); ok {
		return time.Time{}, badRecording(e)
	}
	return time.Time{}, err
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

// noOrigin is the error of a payload whose producer is unknown.
func noOrigin(one input, known []string) error {
	return usage.Errorf("move it into a folder with the name of one, as in stripe/, write --producer, or give a key; "+
		"there are: "+strings.Join(known, ", "), "%s: its path names no producer", one.name)
}
