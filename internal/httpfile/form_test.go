package httpfile_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
)

// text is a recording as it is written, without its carriage returns.
func text(f *httpfile.File) string { return strings.ReplaceAll(string(f.Bytes()), "\r", "") }

// TestACurlCommandIsARecording: as browsers copy it, and as documents of vendors print it.
func TestACurlCommandIsARecording(t *testing.T) {
	t.Parallel()
	read := func(name string) ([]byte, error) {
		if name == "body.json" {
			return []byte("{\n\"a\": 1}\r\n"), nil
		}
		return nil, os.ErrNotExist
	}
	for command, want := range map[string]string{
		"curl 'https://h.example/in?x=1' \\\n  -H 'accept: */*' \\\n  -H 'content-length: 9' " +
			"--data-raw '{\"a\":\"@b\"}' \\\n  --compressed": "POST /in?x=1 HTTP/1.1\nHost: h.example\naccept: */*\n" +
			"Content-Type: application/x-www-form-urlencoded\n\n{\"a\":\"@b\"}",
		"#!/bin/sh\n# a delivery\n$ curl -sS -XPUT h.example:81 -H \"X-A: \\\"b\\\" \\\\ c\" --json '{}'  # tea\n": "" +
			"PUT / HTTP/1.1\nHost: h.example:81\nX-A: \"b\" \\ c\nContent-Type: application/json\n" +
			"Accept: application/json\n\n{}",
		"curl --url http://h.example/ -H 'Content-Type:' -H 'X-Empty;' -H Host:\\ o.example -d a=b -d @body.json": "" +
			"POST / HTTP/1.1\nX-Empty: \nHost: o.example\n\na=b&{\"a\": 1}",
		"curl h.example/a -H 'Content-Type: text/plain' --data-binary @body.json": "" +
			"POST /a HTTP/1.1\nHost: h.example\nContent-Type: text/plain\n\n{\n\"a\": 1}\n",
		"curl -u tea:pot -A agent -b 'a=b' -e http://r.example http://h.example -o out.txt": "GET / HTTP/1.1\n" +
			"Host: h.example\nAuthorization: Basic dGVhOnBvdA==\nUser-Agent: agent\nCookie: a=b\n" +
			"Referer: http://r.example\n\n",
		"curl.exe h.example -H a:b --data-raw $'{\"x\":\"it\\'s\\u0021\\n\\xe9\\101\\\"\"}'": "POST / HTTP/1.1\n" +
			"Host: h.example\na: b\nContent-Type: application/x-www-form-urlencoded\n\n" +
			"{\"x\":\"it's!\n\xe9A\"\"}",
	} {
		f, err := httpfile.ParseCurl("c.sh", []byte(command), read)
		if err != nil {
			t.Errorf("%s: %v", command, err)
		} else if diff := cmp.Diff(want, text(f)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
}

// TestACurlCommandThatIsNotKnownIsRefused by the name of its option, without a value.
func TestACurlCommandThatIsNotKnownIsRefused(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"curl h.example --proxy=s3cret":                `c.sh:1: option "--proxy" of curl is not known here`,
		"curl -F a=s3cret h.example":                   `option "-F" of curl`,
		"curl h.example -G -d s3cret":                  "option -G makes a GET",
		"curl h.example -X":                            "option -X has no value",
		"curl h.example s3cret":                        "a second URL",
		"curl -d s3cret":                               "the URL of the curl command",
		"curl ftp://h.example":                         "the URL of the curl command",
		"curl h.example -H s3cret":                     "a header field",
		"curl h.example -H 'a b: s3cret'":              "a header field",
		"curl h.example -H $'a: b\\ns3cret: c'":        "a header field",
		"curl h.example -d @s3cret":                    "the file of -d cannot be read",
		"curl h.example -X 'A B'":                      "the method or the URL",
		"curl h.example\n\ncurl s3cret":                "c.sh:3: there is more than one command",
		"curl h.example \\\n -d \"$s3cret\"":           `c.sh:2: '"' is not closed, or not in quotes`,
		"curl h.example -d 's3cret":                    `'\'' is not closed`,
		"curl h.example | s3cret":                      `'|' is not closed, or not`,
		"curl h.example?a=b&c=s3cret":                  `'&' is not`,
		"curl h.example -d `s3cret`":                   "'`' is not",
		"curl h.example -d $'\\q'":                     "an escape",
		"curl h.example " + strings.Repeat("a ", 5000): "more than 4096 words",
	} {
		_, err := httpfile.ParseCurl("c.sh", []byte(command), os.ReadFile)
		if e, ok := errors.AsType[*httpfile.Error](err); !ok || !strings.Contains(e.Error(), want) ||
			strings.Contains(e.Error(), "s3cret") {
			t.Errorf("%.60s: %v, want %q", command, err, want)
		}
	}
}

const har = `{"log":{"version":"1.2","entries":[
 {"request":{"method":"GET","url":"https://h.example/"}},
 {"startedDateTime":"2026-06-28T08:30:00.5Z","request":{"method":"POST","url":"https://h.example/in?x=%2f#top",
  "headers":[{"name":":method","value":"POST"},{"name":"content-type","value":"application/json"},
   {"name":"Content-Length","value":"2"},{"name":"connection","value":"close"}],"postData":{"text":"{}"}}},
 {"request":{"method":"PUT","url":"http://h.example","headers":[{"name":"Host","value":"o.example"}],
  "postData":{"text":"AP8=","encoding":"base64"}}},
 {"request":{"method":"POST","url":"http://h.example","postData":{"text":""}}}]}}`

// TestAHARFileHasRecordings: those that deliver something, or the one of a number.
func TestAHARFileHasRecordings(t *testing.T) {
	t.Parallel()
	second := "# now: 1782635400\nPOST /in?x=%2f HTTP/1.1\nHost: h.example\ncontent-type: application/json\n\n{}"
	third := "PUT / HTTP/1.1\nHost: o.example\n\n\x00\xff"
	for number, want := range map[int]string{
		0: "a.har#2 " + second + "a.har#3 " + third, 1: "a.har#1 GET / HTTP/1.1\nHost: h.example\n\n", 2: "a.har#2 " +
			second, 3: "a.har#3 " + third, 5: "",
	} {
		files, err := httpfile.ParseAll("a.har", []byte(har), number)
		var got string
		for _, f := range files {
			got += f.Name + " " + text(f)
		}
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != "") {
			t.Errorf("entry %d: %v (-want +got):\n%s", number, err, diff)
		}
	}
	for change, want := range map[string]string{
		"base64 base32":     "a.har#3:1: the encoding of its postData",
		"AP8= A":            "a.har#3:1: its postData is not base64",
		"https:// file://":  "a.har#2:1: its method or its URL",
		`"text" "t"`:        "a.har:1: the HAR file has no such entry, or no POST",
		":method a\\nb":     "a.har#2:1: it has a header field",
		"close a\\nb":       "",
		"json\"} a\\nb\"}":  "a.har#2:1: it has a header field",
		`"entries":[ {"log`: "a.har:1: not a HAR file",
	} {
		old, replacement, _ := strings.Cut(change, " ")
		if change == `"entries":[ {"log` {
			old, replacement = `"entries":[`, `"entries":7,"x":[`
		}
		_, err := httpfile.ParseAll("a.har", []byte(strings.ReplaceAll(har, old, replacement)), 0)
		if (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %s", change, err, want)
		}
	}
}

// FuzzParseAll: a recording of any form is one that an *.http file can hold.
func FuzzParseAll(f *testing.F) {
	f.Add([]byte(har))
	f.Add([]byte("# x\n$ curl -X POST 'http://h.example/a?b' \\\n -H \"A: \\\"b\" --data-raw $'\\u0021' " +
		"--json '{}' -sS"))
	f.Add([]byte("curl h.example -u a:b -d @a -H 'Content-Type:' # x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		one, err := httpfile.ParseCurl("f", data, func(string) ([]byte, error) { return data, nil })
		files := []*httpfile.File{one}
		if !strings.Contains(string(data), "@") { // it would read files
			files, err = httpfile.ParseAll("f", data, 0)
		}
		if err != nil {
			if e, ok := errors.AsType[*httpfile.Error](err); !ok || e.Line < 1 {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for _, file := range files {
			back, err := httpfile.Parse("f", file.Bytes())
			if err != nil || string(back.Body) != string(file.Body) || len(back.Fields) != len(file.Fields) {
				t.Fatalf("it cannot be written: %v\n%q", err, file.Bytes())
			}
		}
	})
}
