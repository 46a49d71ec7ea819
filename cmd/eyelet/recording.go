package main

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/replay"
)

// readRecording reads an *.http file. Its errors name the line.
func readRecording(path string) (*httpfile.File, error) {
	rec, err := httpfile.Read(path)
	var parseErr *httpfile.Error
	switch {
	case errors.As(err, &parseErr):
		return nil, badRecording(parseErr)
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage.Errorf("", "%s: there is no such file", path)
	case err != nil:
		return nil, usage.Errorf("", "%s: %s", path, usage.Cause(err))
	}
	return rec, nil
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
	var e *httpfile.Error
	if errors.As(rec.Errorf("now", "%q is not a unix time", text), &e) {
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
