package main

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/replay"
)

// readRecording reads an *.http file. Its errors name the line.
func readRecording(path string) (*httpfile.File, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage.Errorf("", "%s: there is no such file", path)
	case err != nil:
		return nil, usage.Errorf("", "%s: %s", path, usage.Cause(err))
	}
	return parseRecording(path, data)
}

// parseRecording parses a recording that is not in a file.
func parseRecording(name string, data []byte) (*httpfile.File, error) {
	rec, err := httpfile.Parse(name, data)
	if parseErr, ok := errors.AsType[*httpfile.Error](err); ok {
		return nil, badRecording(parseErr)
	}
	return rec, err
}

func badRecording(e *httpfile.Error) error {
	return &usage.Error{
		At: usage.Place{File: e.File, Line: e.Line}, What: usage.OneLine(e.Msg),
		Hint: `a recording is notes ("# now: 1782635400"), a request line, header fields, a blank line, and the body`,
	}
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

// recordingOf records a request.
func recordingOf(name, target string, r *http.Request, body []byte) *replay.Recording {
	rec := &replay.Recording{Name: name, Method: r.Method, Target: target, Body: body}
	rec.Fields = append(rec.Fields, replay.Field{Name: "Host", Value: cmp.Or(r.Host, r.URL.Host)})
	for _, field := range slices.Sorted(maps.Keys(r.Header)) {
		for _, value := range r.Header[field] {
			rec.Fields = append(rec.Fields, replay.Field{Name: field, Value: value})
		}
	}
	return rec
}
