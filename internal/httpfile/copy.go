package httpfile

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxCurl is the length of a body that a command holds, in bytes.
const maxCurl = 16 << 10

// Curl returns a command for a POSIX shell that sends the request to a URL, without the fields of
// the connection. A longer body, or one that is not text, is in the file that bodyFile names.
func (f *File) Curl(to, bodyFile string) string {
	var b strings.Builder
	b.WriteString("curl -g -X " + Quoted(cmp.Or(f.Method, http.MethodPost)) + " " + Quoted(to))
	for _, field := range f.sent() {
		line := field.Name + ": " + field.Value
		if field.Value == "" {
			line = field.Name + ";"
		}
		b.WriteString(" \\\n  -H " + Quoted(line))
	}
	if f.Header().Get("Content-Type") == "" {
		b.WriteString(" \\\n  -H 'Content-Type:'") // curl would add one
	}
	body := string(f.Body)
	if len(body) > maxCurl || !isText(f.Body) || strings.HasPrefix(body, "@") {
		body = "@" + bodyFile
	}
	b.WriteString(" \\\n  --data-binary " + Quoted(body))
	return b.String()
}

// Quoted returns a word of a shell.
func Quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// sent returns the fields that a client sends.
func (f *File) sent() (fields []Field) {
	for _, field := range f.Fields {
		if !OfConnection(field.Name) && !strings.EqualFold(field.Name, "Host") {
			fields = append(fields, field)
		}
	}
	return fields
}

// isText reports whether a shell can hold the body and a reader sees all of it.
func isText(body []byte) bool {
	return utf8.Valid(body) && !strings.ContainsFunc(string(body), func(r rune) bool {
		return !unicode.IsGraphic(r) && r != '\n' && r != '\t' || r == utf8.RuneError
	})
}

// HAR returns a HAR 1.2 file of one entry with the request to a URL. It has no response, and so
// the status 0. The entry began at the note now.
func (f *File) HAR(to string) ([]byte, error) {
	type object = map[string]any
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	query, headers := []object{}, []object{}
	for name, values := range u.Query() {
		for _, value := range values {
			query = append(query, object{"name": name, "value": value})
		}
	}
	for _, field := range f.sent() {
		headers = append(headers, object{"name": field.Name, "value": field.Value})
	}
	now, _ := strconv.ParseInt(f.Note("now"), 10, 64)
	data := object{"mimeType": f.Header().Get("Content-Type"), "params": []object{}, "text": string(f.Body)}
	if !utf8.Valid(f.Body) {
		data["text"], data["encoding"] = base64.StdEncoding.EncodeToString(f.Body), "base64"
	}
	request := object{"method": cmp.Or(f.Method, http.MethodPost), "url": to, "httpVersion": "HTTP/1.1",
		"cookies": []object{}, "headers": headers, "queryString": query, "headersSize": -1, "bodySize": len(f.Body),
		"postData": data}
	response := object{"status": 0, "statusText": "", "httpVersion": "", "cookies": []object{}, "headers": []object{},
		"content": object{"size": 0, "mimeType": ""}, "redirectURL": "", "headersSize": -1, "bodySize": -1}
	return json.MarshalIndent(object{"log": object{
		"version": "1.2", "creator": object{"name": "Eyelet", "version": ""},
		"entries": []object{{"startedDateTime": time.Unix(now, 0).UTC().Format(time.RFC3339), "time": 0,
			"request": request, "response": response, "cache": object{},
			"timings": object{"send": 0, "wait": 0, "receive": 0}}},
	}}, "", "  ")
}
