package httpfile

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// harEntry has the members of an entry that become a recording.
type harEntry struct {
	StartedDateTime string
	Request         struct {
		Method, URL string
		Headers     []struct{ Name, Value string }
		PostData    struct{ Text, Encoding string }
	}
}

// ParseHAR parses requests of a HAR 1.2 file, as browsers and proxies export it: the entry of that
// number, from 1, or with 0 all that POST or PUT a body. Their names are NAME#NUMBER, and the time
// of an entry is the note now. Errors are all *[Error].
func ParseHAR(name string, data []byte, number int) ([]*File, error) {
	var har struct {
		Log struct{ Entries []harEntry }
	}
	if json.Unmarshal(bytes.TrimPrefix(data, []byte(byteOrderMark)), &har) != nil {
		return nil, &Error{name, 1, "not a HAR file: invalid JSON, or another form"}
	}
	var files []*File
	for i, e := range har.Log.Entries {
		r := e.Request
		delivers := (r.Method == http.MethodPost || r.Method == http.MethodPut) && r.PostData.Text != ""
		if number != i+1 && (number != 0 || !delivers) {
			continue
		}
		f := &File{Name: name + "#" + strconv.Itoa(i+1)}
		if wrong := e.into(f); wrong != "" {
			return nil, &Error{f.Name, 1, wrong}
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, &Error{name, 1, "the HAR file has no such entry, or no POST or PUT with a body"}
	}
	return files, nil
}

// into makes the entry a recording, and returns what is wrong with it.
func (e harEntry) into(f *File) (wrong string) {
	r := e.Request
	f.Method, f.Body = r.Method, []byte(r.PostData.Text)
	if r.PostData.Encoding == "base64" {
		var err error
		if f.Body, err = base64.StdEncoding.DecodeString(r.PostData.Text); err != nil {
			return "its postData is not base64"
		}
	} else if r.PostData.Encoding != "" {
		return "the encoding of its postData is not base64"
	}
	for _, h := range r.Headers {
		if !f.add(h.Name, h.Value) {
			return "it has a header field that is not one of HTTP, or of several lines"
		}
	}
	if !f.address(r.URL) {
		return "its method or its URL is not one of HTTP"
	}
	if at, err := time.Parse(time.RFC3339, e.StartedDateTime); err == nil {
		f.SetNote("now", strconv.FormatInt(at.Unix(), 10))
	}
	return ""
}
