package httpfile

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Bytes returns the content of the file. Parts that were read and not changed stay the same byte
// for byte; new notes end with LF, and new lines of the head with CRLF.
func (f *File) Bytes() []byte {
	var b bytes.Buffer
	for _, n := range f.Notes {
		b.WriteString(n.text())
	}
	b.WriteString(f.head())
	for _, field := range f.Fields {
		b.WriteString(field.text())
	}
	if f.blank == "" {
		b.WriteString("\r\n")
	}
	b.WriteString(f.blank)
	b.Write(f.Body)
	return b.Bytes()
}

// WriteTo writes Bytes to w. It writes nothing and returns an error if the file would not parse as
// the same request: a value with a line break would become a field of its own.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	data := f.Bytes()
	back, err := Parse(f.Name, data)
	if err != nil {
		return 0, fmt.Errorf("recording cannot be written: %w", err)
	}
	if !back.same(f) {
		return 0, fmt.Errorf("%s: recording cannot be written: a note, the request line or a field holds a line "+
			"break or white space at its ends", f.Name)
	}
	n, err := w.Write(data)
	return int64(n), err
}

// text returns the line as read if its values are unchanged.
func (n Note) text() string {
	if old, ok := parseNote(trimEnd(n.raw)); ok && sameLine(Field(old), Field(n)) {
		return n.raw
	}
	return fmt.Sprintf("# %s: %s\n", n.Name, n.Value)
}

func (f Field) text() string {
	if old, ok := parseField(trimEnd(f.raw)); ok && sameLine(old, f) {
		return f.raw
	}
	return f.Name + ": " + f.Value + "\r\n"
}

func (f *File) same(g *File) bool {
	notes := slices.EqualFunc(f.Notes, g.Notes, func(a, b Note) bool { return sameLine(Field(a), Field(b)) })
	fields := slices.EqualFunc(f.Fields, g.Fields, sameLine)
	return notes && fields && f.Method == g.Method && f.Target == g.Target && bytes.Equal(f.Body, g.Body)
}

func sameLine(a, b Field) bool { return a.Name == b.Name && a.Value == b.Value }

func (f *File) head() string {
	line := f.Method + " " + f.Target + " " + cmp.Or(f.Proto, "HTTP/1.1")
	if trimEnd(f.requestLine) == line {
		return f.requestLine
	}
	return line + "\r\n"
}

func trimEnd(raw string) string { return strings.TrimSuffix(strings.TrimSuffix(raw, "\n"), "\r") }
