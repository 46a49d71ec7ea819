package httpfile

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

const byteOrderMark = "\ufeff"

// How a recording begins: as an *.http file, as a HAR file, and as a curl command.
var (
	startOfHTTP = regexp.MustCompile(`^(?:#[^\n]*\n)*[A-Z]+ \S+ HTTP/1\.[01]\r?\n`)
	startOfHAR  = regexp.MustCompile(`^\x{feff}?\s*\{\s*"log"\s*:\s*\{(?s:.*)"entries"`)
	startOfCurl = regexp.MustCompile(`^\x{feff}?(?:\s|#[^\n]*\n)*(?:\$ ?)?curl(?:\.exe)?\s`)
)

// IsRecording reports whether data begins as a recording of a form that [ParseAll] reads.
func IsRecording(data []byte) bool {
	return startOfHTTP.Match(data) || startOfHAR.Match(data) || startOfCurl.Match(data)
}

// ParseAll parses the recordings of data: those of a HAR file (see [ParseHAR]), a curl command, or
// an *.http file.
func ParseAll(name string, data []byte, number int) ([]*File, error) {
	if startOfHAR.Match(data) {
		return ParseHAR(name, data, number)
	}
	if startOfCurl.Match(data) {
		one, err := ParseCurl(name, data, os.ReadFile)
		return []*File{one}, err
	}
	one, err := Parse(name, data)
	return []*File{one}, err
}

var connectionFields = []string{"Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Trailer",
	"Upgrade", "Te", "Proxy-Connection"}

// OfConnection reports whether a field belongs to the connection on which a request is sent, and
// not to the delivery.
func OfConnection(name string) bool {
	return slices.Contains(connectionFields, http.CanonicalHeaderKey(name))
}

// add adds a field, unless it is one of the connection or a pseudo field of HTTP/2. It reports
// whether it is a field of one line.
func (f *File) add(name, value string) bool {
	if strings.HasPrefix(name, ":") || OfConnection(name) {
		return true
	}
	f.Fields = append(f.Fields, Field{Name: name, Value: strings.Trim(value, " \t")})
	return isToken(name) && !strings.ContainsFunc(value, forbidden)
}

// address sets the target, and the Host if no field has it. It reports whether method and URL are
// those of a request.
func (f *File) address(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !isToken(f.Method) {
		return false
	}
	f.Target = u.RequestURI()
	if f.Host() == "" {
		f.Fields = append([]Field{{Name: "Host", Value: u.Host}}, f.Fields...)
	}
	return !strings.ContainsFunc(f.Target+u.Host, func(r rune) bool { return r <= ' ' || r == 0x7f })
}
