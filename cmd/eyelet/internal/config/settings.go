// Package config turns eyelet.yaml, the environment and flags into the configuration of a receiver.
package config

import (
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/httpserver"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// Settings is the content of eyelet.yaml. Defaults that are not named here are package receiver's.
type Settings struct {
	Node   *conf.Node
	Listen string `conf:"listen" default:"127.0.0.1:8080"` // address for deliveries; defaults to 127.0.0.1:8080
	// Operations is the address for probes, metrics and events: HOST:PORT, unix:PATH, or off.
	// Defaults to 127.0.0.1:8081.
	Operations string `conf:"operations" default:"127.0.0.1:8081"`
	URL        string `conf:"url"` // the public base as producers call it
	// Store is badger:DIR, relative to the file, postgres://..., or memory:. Defaults to
	// badger:./data.
	Store  string `conf:"store,dsn" default:"badger:./data"`
	Schema string `conf:"schema"` // of the tables in PostgreSQL; defaults to eyelet
	// State is the folder of what belongs to this receiver alone. Defaults to the store's folder,
	// to ./state beside the file for PostgreSQL, and to one in the user's cache for memory.
	State          string         `conf:"state"`
	AcceptLoss     bool           // a flag alone: open a store that has lost acknowledged commits
	AcceptClock    bool           // a flag alone: open a store although the clock is before its last commit
	InsecureHTTP   bool           `conf:"insecure_http"`   // allow HTTP without TLS beyond loopback
	TrustedProxies []netip.Prefix `conf:"trusted_proxies"` // addresses whose X-Forwarded-* fields are trusted
	ProxyProtocol  bool           `conf:"proxy_protocol"`  // they begin their connections with a PROXY header
	Hosts          []string       `conf:"hosts,nonempty"`
	// Via is the name in the field Via of forwarded requests. Defaults to a stable pseudonym.
	Via           string    `conf:"via"`
	TLS           *TLS      `conf:"tls"`
	ACME          *ACME     `conf:"acme"`
	OperationsTLS *TLS      `conf:"operations_tls"`
	HTTP2         bool      `conf:"http2"` // offered to producers; needs TLS
	Inspector     Inspector `conf:"inspector"`
	Log           Log       `conf:"log"`
	Refused       Refused   `conf:"refused"`
	Redact        []string  `conf:"redact"`                         // places of credentials, which nothing shows
	Explain       string    `conf:"explain,off|log" default:"off"`  // log explains refused deliveries
	Reload        string    `conf:"reload,off|watch" default:"off"` // watch: when a file changed
	Tracing       Tracing   `conf:"tracing"`
	Limits        Limits    `conf:"limits"`
	// Presets is a file of the user's own presets, in the form of producer/preset/presets.yaml.
	Presets   string     `conf:"presets"`
	Producers []Producer `conf:"producers"`
	Handlers  []Handler  `conf:"handlers"`

	OwnPresets   []preset.Preset // of the file Presets
	File         string          // paths are relative to its folder
	confidential []string        // files that secrets were read from, as written
	unread       usage.Errors    // about what could not be read
	files        *conf.Reader
	variables    conf.Variables
}

// TLS names a certificate and its key.
type TLS struct {
	Node         *conf.Node
	CertFile     string `conf:"cert_file"`
	KeyFile      string `conf:"key_file"`
	ClientCAFile string `conf:"ca_file"` // the authorities of client certificates
}

// Inspector is the page on the operations port.
type Inspector struct {
	Node *conf.Node
	// Mode is off, read (it changes nothing), change, or send: deliveries can be edited and sent.
	Mode   string `conf:"mode,short,off|read|change|send" default:"change"`
	Prefix string `conf:"prefix" default:"/ui"` // of its paths; defaults to /ui
	// Redact are places in requests that the page does not show, in the form of Settings.Redact.
	Redact []string `conf:"redact"`
}

// Log is the format and the level of the log, and what is left out of it.
type Log struct {
	Node       *conf.Node
	Format     string `conf:"format,text|json" default:"text"` // text or json
	Level      string `conf:"level" default:"info"`            // debug, info, warn or error
	OmitErrors bool   `conf:"omit_errors"`                     // texts of errors of handlers may quote payloads
}

// Limits are bounds and timeouts.
type Limits struct {
	Node       *conf.Node
	MaxBody    int64 `conf:"max_body" default:"1MiB"`
	BodyBudget int64 `conf:"body_budget" default:"256MiB"`
	// Connections and ConnectionsPerAddress bound the connections of producers.
	Connections           int           `conf:"connections"`
	ConnectionsPerAddress int           `conf:"connections_per_address"`
	Head                  int64         `conf:"head" default:"16KiB"` // of one request
	HeaderTimeout         time.Duration `conf:"header_timeout" default:"10s"`
	BodyTimeout           time.Duration `conf:"body_timeout" default:"30s"`
	IdleTimeout           time.Duration `conf:"idle_timeout" default:"2m"`
	Workers               int           `conf:"workers"`
	Attempts              int           `conf:"attempts" default:"16"`
	BackoffBase           time.Duration `conf:"backoff_base" default:"1s"`
	BackoffCap            time.Duration `conf:"backoff_cap" default:"10m"`
	PostponeMax           time.Duration `conf:"postpone_max" default:"7d"`
	HandlerTimeout        time.Duration `conf:"timeout" default:"30s"`
	InFlightWait          time.Duration `conf:"in_flight_wait,zero" default:"2s"`
	Lease                 time.Duration `conf:"lease" default:"30s"`
	OrphanAfter           time.Duration `conf:"orphan_after,zero"`
	RetryAfter            time.Duration `conf:"retry_after" default:"5s"`
	Drain                 time.Duration `conf:"drain" default:"30s"`
	BacklogBytes          int64         `conf:"backlog_bytes,zero"`  // of events that wait for handlers
	BacklogEvents         int           `conf:"backlog_events,zero"` // that wait for handlers
	MinFree               int64         `conf:"min_free"`            // space to keep free on the store's disk

	RememberSignatures rememberSetting `conf:"remember_signatures"`
}

// Defaults of the binary. Those of receiving are in package receiver.
const (
	DefaultFile       = "eyelet.yaml"
	DefaultListen     = "127.0.0.1:8080"
	DefaultOperations = "127.0.0.1:8081"
	DefaultHead       = httpserver.DefaultHead
)

// Place returns where a top-level setting was written.
func (s *Settings) Place(setting string) usage.Place { return s.Node.Place(setting) }

// Files returns the files that were read by Load, and then by Build, and those with the authorities
// of client certificates. Key files and certificates are left out: they are read again by
// themselves.
func (s *Settings) Files() conf.Files {
	all := s.files.Files()
	for _, t := range []*TLS{s.TLS, s.OperationsTLS} {
		if t != nil && t.ClientCAFile != "" {
			_, _ = all.Read(s.Path(t.ClientCAFile)) // its absence is noted, too
		}
	}
	return all
}

// Path returns the file that a setting names, which may be relative to the configuration file.
func (s *Settings) Path(name string) string { return conf.PathIn(filepath.Dir(s.File), name) }

// LogLevel returns the level of the log.
func (s *Settings) LogLevel() (level slog.Level, err error) {
	err = level.UnmarshalText([]byte(s.Log.Level))
	return level, err
}

// readable reports whether a producer or handler was read without an error.
func (s *Settings) readable(n *conf.Node) bool {
	return len(s.unread) == 0 ||
		n != nil && !slices.ContainsFunc(s.unread, func(e *usage.Error) bool { return n.Spans(e.At) })
}

// producer returns the settings of the named producer, or nil.
func (s *Settings) producer(name string) *Producer {
	if i := slices.IndexFunc(s.Producers, func(p Producer) bool { return p.Name == name }); i >= 0 {
		return &s.Producers[i]
	}
	return nil
}

// ProducerNames returns the names of the producers.
func (s *Settings) ProducerNames() (names []string) {
	for i := range s.Producers {
		names = append(names, s.Producers[i].Name)
	}
	return names
}

// HandlerNames returns the names of the handlers.
func (s *Settings) HandlerNames() (names []string) {
	for i := range s.Handlers {
		if kinds := s.Handlers[i].kinds(); len(kinds) == 1 {
			names = append(names, s.Handlers[i].name(kinds[0]))
		}
	}
	return names
}

// EventTypes returns the types of the handlers, and those that are known of the presets.
func (s *Settings) EventTypes() (types []string) {
	for i := range s.Handlers {
		types = append(types, s.Handlers[i].Type)
	}
	for i := range s.Producers {
		vendor, _ := s.Producers[i].Vendor()
		types = append(types, vendor.Types()...)
	}
	slices.Sort(types)
	return slices.Compact(types)
}
