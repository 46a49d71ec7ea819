// Package opsapi is shared by the operations API and its client: the files that announce a running
// server, and the JSON of the responses. The events API is in package inspect.
package opsapi

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// What the commands of this program need to find a running server and to know it: the files that
// it writes, the start of the address of a Unix socket, and the realm of its 401 responses.
const (
	TokenFile     = "operations.token"
	ReadTokenFile = "operations.read.token" // for reading only
	AddressFile   = "operations.addr"
	UnixScheme    = "unix:"
	Realm         = "eyelet operations"
)

// ReadState reads the address, and the token in a file, that a server wrote to the folder.
func ReadState(dir, tokenFile string) (address, token string, err error) {
	first, err := os.ReadFile(filepath.Join(dir, tokenFile))
	if err != nil {
		return "", "", err
	}
	second, err := os.ReadFile(filepath.Join(dir, AddressFile))
	return strings.TrimSpace(string(second)), strings.TrimSpace(string(first)), err
}

// TailEntry is a line of the tail: a delivery that was answered, or an attempt of a handler. It
// holds no payload and no text of a handler's error.
type TailEntry struct {
	Time     time.Time `json:"time"`
	Receiver string    `json:"receiver,omitempty"` // which one, where several share the store
	Kind     string    `json:"kind"`               // delivery, attempt, hanging, or lost
	Endpoint string    `json:"endpoint,omitempty"`
	Type     string    `json:"type,omitempty"`
	ID       string    `json:"id,omitempty"`
	Event    string    `json:"event,omitempty"`
	Status   int       `json:"status,omitempty"`
	Code     string    `json:"code,omitempty"`
	Why      string    `json:"why,omitempty"` // of a refused delivery, as in the log
	Handler  string    `json:"handler,omitempty"`
	Attempt  int       `json:"attempt,omitempty"`
	State    string    `json:"state,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Took     float64   `json:"took,omitempty"` // seconds
	Lost     int       `json:"lost,omitempty"`
}

// Target is the state of a target.
type Target struct {
	Name      string    `json:"name"`
	On        bool      `json:"on"`
	Since     time.Time `json:"since,omitzero"` // off since
	Reason    string    `json:"reason,omitempty"`
	Terminals int       `json:"terminals"`
	Moved     string    `json:"moved,omitempty"` // redacted
	Sunset    time.Time `json:"sunset,omitzero"`
	Legal     time.Time `json:"legal,omitzero"`
}

// Reload is the result of a reload of the configuration. It was refused if there are errors.
type Reload struct {
	Reloaded  bool      `json:"reloaded"`
	Took      float64   `json:"took,omitempty"` // seconds
	Producers int       `json:"producers,omitempty"`
	Handlers  int       `json:"handlers,omitempty"`
	Retired   []string  `json:"retired,omitempty"` // handlers that were removed and finish their tasks
	Warnings  []string  `json:"warnings,omitempty"`
	Errors    []Finding `json:"errors,omitempty"`
}

// Finding is a mistake in the configuration. File is a variable or a flag if Line is 0.
type Finding struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// CheckReport is the report of a check, with what was repaired before it.
type CheckReport struct {
	badgerstore.Report
	Repaired []badgerstore.Repair `json:"repaired,omitempty"`
}

// BackupTrailer follows a backup; one without it is incomplete.
const BackupTrailer = "Eyelet-Backup-Complete"
