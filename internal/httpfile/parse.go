package httpfile

import (
	"bytes"
	"fmt"
	"strings"
)

// Parse parses a file; name is used in errors, which are all *[Error].
func Parse(name string, data []byte) (*File, error) {
	p := &parser{file: &File{Name: name}, rest: data}
	for _, read := range []func() error{p.notes, p.request, p.fields} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	p.file.Body = p.rest
	return p.file, nil
}

type parser struct {
	file *File
	rest []byte
	line int // number of the line last read
}

// next returns the next line with and without its ending.
func (p *parser) next(missing string) (raw, text string, err error) {
	p.line++
	if p.line > maxLines {
		return "", "", p.errorf("more than %d lines before the body", maxLines)
	}
	i := bytes.IndexByte(p.rest, '\n')
	if i < 0 {
		return "", "", p.errorf("the file ends before %s", missing)
	}
	if i > maxLine {
		return "", "", p.errorf("line is longer than %d bytes", maxLine)
	}
	raw, p.rest = string(p.rest[:i+1]), p.rest[i+1:]
	text = strings.TrimSuffix(strings.TrimSuffix(raw, "\n"), "\r")
	if j := strings.IndexFunc(text, forbidden); j >= 0 {
		return "", "", p.errorf("control character %q", text[j])
	}
	return raw, text, nil
}

// forbidden reports control characters that neither notes nor field values may hold (RFC 9110
// section 5.5).
func forbidden(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func (p *parser) errorf(format string, args ...any) error {
	return &Error{File: p.file.Name, Line: p.line, Msg: fmt.Sprintf(format, args...)}
}

func (p *parser) notes() error {
	for len(p.rest) > 0 && p.rest[0] == '#' {
		raw, text, err := p.next("the request line")
		if err != nil {
			return err
		}
		n, ok := parseNote(text)
		if !ok {
			return p.errorf(`not a note of the form "# name: value"`)
		}
		n.Line, n.raw = p.line, raw
		p.file.Notes = append(p.file.Notes, n)
	}
	return nil
}

func parseNote(text string) (Note, bool) {
	name, value, ok := strings.Cut(strings.TrimPrefix(text, "#"), ":")
	name = strings.TrimSpace(name)
	if !ok || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return Note{}, false
	}
	return Note{Name: name, Value: strings.TrimSpace(value)}, true
}

func (p *parser) request() error {
	raw, text, err := p.next("the request line")
	if err != nil {
		return err
	}
	parts := strings.Split(text, " ")
	if len(parts) != 3 || !isToken(parts[0]) || parts[1] == "" {
		return p.errorf(`not a request line of the form "POST /path HTTP/1.1"`)
	}
	if parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0" {
		return p.errorf("HTTP version %q, want HTTP/1.1 or HTTP/1.0", parts[2])
	}
	f := p.file
	f.Method, f.Target, f.Proto, f.requestLine = parts[0], parts[1], parts[2], raw
	return nil
}

func (p *parser) fields() error {
	for {
		raw, text, err := p.next("the blank line that ends the head")
		if err != nil {
			return err
		}
		if text == "" {
			p.file.blank = raw
			return nil
		}
		if text[0] == ' ' || text[0] == '\t' {
			return p.errorf("folded header line (RFC 9112 section 5.2)")
		}
		f, ok := parseField(text)
		if !ok {
			return p.errorf(`not a header field of the form "Name: value"`)
		}
		f.Line, f.raw = p.line, raw
		p.file.Fields = append(p.file.Fields, f)
	}
}

func parseField(text string) (Field, bool) {
	name, value, ok := strings.Cut(text, ":")
	if !ok || !isToken(name) {
		return Field{}, false
	}
	return Field{Name: name, Value: strings.Trim(value, " \t")}, true
}

// isToken reports whether s is a token of RFC 9110 section 5.6.2.
func isToken(s string) bool {
	const chars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
	return s != "" && strings.Trim(s, chars) == ""
}
