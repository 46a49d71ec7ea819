// Package httpfile reads and writes recorded requests: *.http files with notes, a request head,
// and the body.
//
//	# producer: shop
//	# now: 1782635400
//	# expect: new 202
//	POST /webhooks/shop HTTP/1.1
//	Host: hooks.example
//	Content-Type: application/json
//
//
//	{"type":"order.paid"}
//
// Lines of notes and head end with CRLF or LF. The body is every byte after the blank line. It may
// be binary, and a final newline of the file belongs to it. Reading and writing a file keeps every
// byte.
package httpfile

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// The limits on the head of a file. They exceed those of a receiver, so that refused requests can
// be recorded.
const (
	maxLine  = 128 << 10
	maxLines = 4096
)

// File is one recorded request.
type File struct {
	Name  string // the origin of the file, for errors
	Notes []Note // in order
	// Method, Target and Proto are the parts of the request line. Target is the request target as
	// sent, usually a path and a query.
	Method, Target, Proto string
	Fields                []Field // in order
	Body                  []byte  // every byte after the blank line

	requestLine, blank string // as read
}

// Field is one line of the request's header.
type Field struct {
	Name  string // in the letter case in which it was sent
	Value string // without white space around it
	Line  int    // in the file, from 1; zero in files that were not read

	raw string
}

// Note is one leading "# name: value" line. Its name is of lower-case letters, digits, "-" and "_".
type Note Field

// Error is a syntax error in a file. Its text begins with "FILE:LINE: ".
type Error struct {
	File string
	Line int
	Msg  string
}

// Error returns the message after its place.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// Read reads the file at path. A syntax error is an *[Error]; an unreadable file is another error.
func Read(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Note returns the value of the first note of that name, or "".
func (f *File) Note(name string) string {
	if n := f.note(name); n != nil {
		return n.Value
	}
	return ""
}

func (f *File) note(name string) *Note {
	for i := range f.Notes {
		if f.Notes[i].Name == name {
			return &f.Notes[i]
		}
	}
	return nil
}

// SetNote replaces the value of the first note of that name, or appends the note.
func (f *File) SetNote(name, value string) {
	if n := f.note(name); n != nil {
		n.Value = value
		return
	}
	f.Notes = append(f.Notes, Note{Name: name, Value: value})
}

// Errorf returns an *[Error] about the first note of that name, or about line 1 without one.
func (f *File) Errorf(note, format string, args ...any) error {
	e := &Error{File: f.Name, Line: 1, Msg: fmt.Sprintf(format, args...)}
	if n := f.note(note); n != nil {
		e.Line = max(e.Line, n.Line)
	}
	return e
}

// Header returns the fields as net/http would, under canonical names and without Host.
func (f *File) Header() http.Header {
	h := http.Header{}
	for _, field := range f.Fields {
		h.Add(field.Name, field.Value)
	}
	h.Del("Host")
	return h
}

// Host returns the value of the Host field, or "".
func (f *File) Host() string {
	for _, field := range f.Fields {
		if strings.EqualFold(field.Name, "Host") {
			return field.Value
		}
	}
	return ""
}

// Request returns the request as a server would pass it to a handler: RequestURI is the recorded
// target, URL is parsed from it, and Host is the Host field. The body is f.Body.
func (f *File) Request() (*http.Request, error) {
	u, err := url.ParseRequestURI(f.Target)
	if err != nil {
		return nil, &Error{File: f.Name, Line: len(f.Notes) + 1, Msg: "request target is not a URL path"}
	}
	r := &http.Request{
		Method: f.Method, URL: u, RequestURI: f.Target, Host: f.Host(), Header: f.Header(),
		Proto: f.Proto, ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody, ContentLength: int64(len(f.Body)),
	}
	if len(f.Body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(f.Body))
	}
	return r, nil
}
