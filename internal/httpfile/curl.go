package httpfile

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ParseCurl parses a curl command as browsers copy it and documents of vendors print it: one
// command of a POSIX shell, without variables. The read function reads the FILE of -d @FILE. Of
// the fields that curl adds by itself, only those about the body are added. Errors are all
// *[Error]; they name options, and no values.
func ParseCurl(name string, data []byte, read func(file string) ([]byte, error)) (*File, error) {
	c := &curl{file: &File{Name: name}, read: read}
	words, line, err := shellWords(startOfCurl.ReplaceAllLiteralString(string(data), ""))
	line += strings.Count(startOfCurl.FindString(string(data)), "\n")
	for err == nil && len(words) > 0 {
		words, err = c.option(words)
	}
	if err == nil {
		err = c.end()
	}
	if err != nil {
		return nil, &Error{name, line, err.Error()}
	}
	return c.file, nil
}

// curl is a command that is read.
type curl struct {
	file   *File
	read   func(file string) ([]byte, error)
	url    string
	bodies []string // the options that gave parts of the body
	named  []string // the fields of -H, also those that are taken away
}

// option reads the first word, with its value, and returns the others.
func (c *curl) option(words []string) (rest []string, err error) {
	name, rest := words[0], words[1:]
	attached := ""
	if len(name) > 2 && name[0] == '-' && name[1] != '-' { // -XPOST, -sS
		name, attached = name[:2], name[2:]
	}
	value := func() (text string) {
		if text, attached = attached, ""; text == "" && len(rest) > 0 {
			text, rest = rest[0], rest[1:]
		} else if text == "" {
			err = fmt.Errorf("option %s has no value", name)
		}
		return text
	}
	switch name {
	case "-X", "--request":
		c.file.Method = value()
	case "-H", "--header":
		err = cmp.Or(c.header(value()), err)
	case "-A", "--user-agent":
		err = c.header("User-Agent: " + value())
	case "-e", "--referer":
		err = c.header("Referer: " + value())
	case "-b", "--cookie":
		err = c.header("Cookie: " + value())
	case "-u", "--user":
		err = c.header("Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(value())))
	case "-d", "--data", "--data-ascii", "--data-raw", "--data-binary", "--json":
		err = cmp.Or(c.data(name, value()), err)
	case "-o", "--output", "-m", "--max-time", "-w", "--write-out", "--connect-timeout", "--retry":
		value()
	case "-s", "--silent", "-S", "--show-error", "-v", "--verbose", "-i", "--include", "-k", "--insecure", "-L",
		"--location", "-f", "--fail", "-N", "--no-buffer", "-g", "--globoff", "--compressed", "--http1.1", "--http2":
	case "-G", "--get":
		err = fmt.Errorf("option %s makes a GET of the data, and a delivery has a body", name)
	case "--url":
		err = c.to(value())
	default:
		if strings.HasPrefix(name, "-") {
			name, _, _ = strings.Cut(name, "=")
			return nil, fmt.Errorf("option %.40q of curl is not known here", name)
		}
		err = c.to(name)
	}
	if attached != "" {
		rest = append([]string{"-" + attached}, rest...)
	}
	return rest, err
}

func (c *curl) to(address string) error {
	if c.url != "" {
		return errors.New("there is a second URL, or a word that should be in quotes")
	}
	if c.url = address; !strings.Contains(address, "://") {
		c.url = "http://" + address
	}
	return nil
}

// header adds a field. "Name:" takes one away that curl would add, "Name;" has no value.
func (c *curl) header(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if bare, empty := strings.CutSuffix(line, ";"); !ok && empty {
		name, ok = bare, true
	} else if ok && strings.TrimSpace(value) == "" && isToken(name) {
		c.named = append(c.named, http.CanonicalHeaderKey(name))
		return nil
	}
	c.named = append(c.named, http.CanonicalHeaderKey(name))
	if !ok || !c.file.add(name, value) {
		return errors.New(`a header field is not of the form "Name: value"`)
	}
	return nil
}

// data adds to the body. All but --data-raw read the FILE of @FILE, --data without its line ends.
func (c *curl) data(option, value string) error {
	if file, ok := strings.CutPrefix(value, "@"); ok && option != "--data-raw" {
		text, err := c.read(file)
		if err != nil {
			return fmt.Errorf("the file of %s cannot be read", option)
		}
		value = string(text)
		if option != "--data-binary" && option != "--json" {
			value = strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(value)
		}
	}
	if len(c.bodies) > 0 && option != "--json" {
		value = "&" + value
	}
	c.bodies = append(c.bodies, option)
	c.file.Body = append(c.file.Body, value...)
	return nil
}

// end adds what all options mean together.
func (c *curl) end() error {
	method := http.MethodGet
	var defaults []string
	if len(c.bodies) > 0 {
		method, defaults = http.MethodPost, []string{"Content-Type", "application/x-www-form-urlencoded"}
	}
	if slices.Contains(c.bodies, "--json") {
		defaults = []string{"Content-Type", "application/json", "Accept", "application/json"}
	}
	for field := range slices.Chunk(defaults, 2) {
		if !slices.Contains(c.named, field[0]) {
			c.file.add(field[0], field[1])
		}
	}
	c.file.Method = cmp.Or(c.file.Method, method)
	if !c.file.address(c.url) {
		return errors.New("the method or the URL of the curl command is not one of HTTP")
	}
	return nil
}

// shellPart is a part of a word: in quotes, escaped or plain; or what is between words. A $ and a `
// in which the shell would put something else have no part.
var shellPart = regexp.MustCompile("(?s)^(?:'[^']*'|\\$'(?:[^'\\\\]|\\\\.)*'|\"(?:[^\"\\\\$`]|\\\\.)*\"|" +
	"\\\\\r?\n|\\\\.|[^\\s'\"\\\\$`|;&<>()]+|[ \t\r]+|\n)")

var (
	inQuotes = strings.NewReplacer("\\\n", "", `\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`")
	asInGo   = strings.NewReplacer(`\\`, `\\`, `\"`, `"`) // what $'...' has beside the escapes of Go
)

// shellWords returns the words of the only command, without quotes, or the line of an error.
// Nothing is expanded or run.
func shellWords(text string) (words []string, line int, err error) {
	inWord, ended := false, false
	for line = 1; text != ""; {
		if text[0] == '#' && !inWord {
			_, text, _ = strings.Cut(text, "\n")
			line++
			continue
		}
		part := shellPart.FindString(text)
		blank := strings.Trim(part, " \t\r\n") == "" || part == "\\\n" || part == "\\\r\n"
		switch {
		case part == "":
			return nil, line, fmt.Errorf("%q is not closed, or not in quotes '...': variables, redirections and "+
				"further commands are not read", text[0])
		case !blank && ended:
			return nil, line, errors.New("there is more than one command")
		case !blank && !inWord && len(words) == maxLines:
			return nil, line, fmt.Errorf("more than %d words", maxLines)
		case !blank && !inWord:
			words = append(words, "")
		}
		inWord = !blank
		ended = ended || part == "\n" && len(words) > 0
		line += strings.Count(part, "\n")
		text = text[len(part):]
		if blank {
			continue
		}
		plain, err := unquoted(part)
		if err != nil {
			return nil, line, err
		}
		words[len(words)-1] += plain
	}
	return words, 1, nil
}

// unquoted returns what a part of a word means.
func unquoted(part string) (string, error) {
	inner := part[min(1, len(part)-1) : len(part)-1]
	switch part[0] {
	case '\'':
		return inner, nil
	case '"':
		return inQuotes.Replace(inner), nil
	case '\\':
		return part[1:], nil
	case '$':
		var b []byte
		for rest := asInGo.Replace(inner[1:]); rest != ""; {
			char, multibyte, tail, err := strconv.UnquoteChar(rest, '\'')
			switch {
			case err != nil:
				return "", errors.New("an escape in $'...' is not known")
			case multibyte:
				b = append(b, string(char)...)
			default:
				b = append(b, byte(char))
			}
			rest = tail
		}
		return string(b), nil
	}
	return part, nil
}
