// Package config turns eyelet.yaml, the environment and flags into the configuration of a receiver.
package config

import (
	"cmp"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// settings is the configuration file, eyelet.yaml. Names are the tags `conf`. A *node remembers where the
// settings were written. Defaults that are not set here are those of package receiver.
type Settings struct {
	Node *node
	// Listen is where deliveries arrive. Defaults to 127.0.0.1:8080.
	Listen string `conf:"listen"`
	// Operations is where probes, metrics and the events are served: an address, or unix:PATH. Defaults to
	// 127.0.0.1:8081; "off" serves none.
	Operations string `conf:"operations"`
	// URL is the public base, as producers call it.
	URL string `conf:"url"`
	// Store is badger:DIR, relative to the file, or memory:.
	Store string `conf:"store"`
	// AcceptLoss opens a store whose end is missing.
	AcceptLoss bool `conf:"accept_loss"`
	// AcceptClock opens a store although the clock is before its last commit.
	AcceptClock bool `conf:"accept_clock"`
	// InsecureHTTP allows HTTP without TLS beyond loopback.
	InsecureHTTP bool `conf:"insecure_http"`
	// TrustedProxies are addresses whose X-Forwarded-* fields count.
	TrustedProxies []netip.Prefix `conf:"trusted_proxies"`
	Hosts          []string       `conf:"hosts"`
	// Via is our name in the field Via of what forward handlers send. See viaName for its default.
	Via string `conf:"via"`
	TLS *TLS   `conf:"tls"`
	// OperationsTLS is the certificate of the operations port.
	OperationsTLS *TLS `conf:"operations_tls"`
	// HTTP2 lets producers use HTTP/2, which needs TLS.
	HTTP2     bool       `conf:"http2"`
	Log       Log        `conf:"log"`
	Limits    Limits     `conf:"limits"`
	Producers []Producer `conf:"producers"`
	Handlers  []Handler  `conf:"handlers"`

	File string // where the settings were read from; paths are relative to its folder

	confidential []string // the files that secrets were read from, as they are named
}

// TLS names a certificate and its key.
type TLS struct {
	Node     *node
	CertFile string `conf:"cert_file"`
	KeyFile  string `conf:"key_file"`
}

// Log is the form of the log.
type Log struct {
	Node   *node
	Format string `conf:"format"` // text or json
	Level  string `conf:"level"`  // debug, info, warn or error
}

// Limits are bounds and timeouts.
type Limits struct {
	Node       *node
	MaxBody    size `conf:"max_body"`
	BodyBudget size `conf:"body_budget"`
	// Connections and ConnectionsPerAddress bound the connections of producers.
	Connections           int `conf:"connections"`
	ConnectionsPerAddress int `conf:"connections_per_address"`
	// Head bounds the head of a request, and HeadBudget all heads that are not complete.
	Head           size          `conf:"head"`
	HeadBudget     size          `conf:"head_budget"`
	HeaderTimeout  time.Duration `conf:"header_timeout"`
	BodyTimeout    time.Duration `conf:"body_timeout"`
	IdleTimeout    time.Duration `conf:"idle_timeout"`
	StoreTimeout   time.Duration `conf:"store_timeout"`
	Workers        int           `conf:"workers"`
	Attempts       int           `conf:"attempts"`
	BackoffBase    time.Duration `conf:"backoff_base"`
	BackoffCap     time.Duration `conf:"backoff_cap"`
	PostponeMax    time.Duration `conf:"postpone_max"`
	HandlerTimeout time.Duration `conf:"handler_timeout"`
	AnswerTimeout  time.Duration `conf:"answer_timeout"`
	InFlightWait   time.Duration `conf:"in_flight_wait"`
	Lease          time.Duration `conf:"lease"`
	RetryAfter     time.Duration `conf:"retry_after"`
	Drain          time.Duration `conf:"drain"`
	// BacklogBytes and BacklogEvents bound what waits for handlers.
	BacklogBytes  size `conf:"backlog_bytes"`
	BacklogEvents int  `conf:"backlog_events"`
	// MinFree is how much of the store's file system stays free.
	MinFree size `conf:"min_free"`
	// RememberSignatures bounds what is remembered of events beyond their window.
	RememberSignatures rememberSetting `conf:"remember_signatures"`
}

// producerConfig is one producer and its endpoint. Which settings it has depends on how it signs.
type Producer struct {
	Node *node
	Name string
	at   usage.Place // of the name

	Preset         string
	Scheme         string // rfc9421 or hmac
	common         commonConfig
	RFC9421        rfc9421Config
	hmac           hmacConfig
	PresetSettings preset.Settings
}

func (p *Producer) setName(name string, at usage.Place) { p.Name, p.at = name, at }

// headConfig says which kind of producer it is.
type headConfig struct {
	Preset string `conf:"preset"`
	Scheme string `conf:"scheme"`
}

// commonConfig is what every producer can be told. What is not set is the preset's, or the default of package
// producer.
type commonConfig struct {
	// What a delivery says.
	Type        string   `conf:"type"`
	Key         string   `conf:"key"`
	KeyRequired *bool    `conf:"key_required"`
	KeyFormat   string   `conf:"key_format"` // uuid, or a regular expression
	MaxBody     size     `conf:"max_body"`
	Methods     []string `conf:"methods"`
	MediaTypes  []string `conf:"media_types"`
	URL         string   `conf:"url"`
	QueryScope  *bool    `conf:"query_scope"`
	EarlyData   bool     `conf:"early_data"`
	EmptyBody   *bool    `conf:"empty_body"`
	LooseBinary *bool    `conf:"loose_binary"`

	// How much it may send.
	Rate        rateSetting `conf:"rate"` // 100/s, 6000/m, 3600/h
	Burst       int         `conf:"burst"`
	Concurrency int         `conf:"concurrency"`

	// What is remembered, and what is answered.
	Tolerance  toleranceSetting `conf:"tolerance"`
	Window     time.Duration    `conf:"window"`
	Contract   string           `conf:"contract"` // api or webhook
	Accepted   int              `conf:"accepted"` // status of an event that is kept
	InFlight   int              `conf:"in_flight"`
	StaleKnown *bool            `conf:"stale_known"`
	SameSigned string           `conf:"same_signed"` // off, aside, refuse or run
	// SameSignedMax bounds the occurrences, and SameSignedTypes is same_signed by event type.
	SameSignedMax   int               `conf:"same_signed_max"`
	SameSignedTypes map[string]string `conf:"same_signed_types"`
	Fingerprint     []string          `conf:"fingerprint"` // extractors
	// RememberSignatures is off where nothing is to be remembered beyond the window; EventTime is the extractor of when an
	// event happened.
	RememberSignatures string `conf:"remember_signatures"`
	EventTime          string `conf:"event_time"`
	DropBody           *bool  `conf:"drop_body"`

	// When the endpoint ends, and since when it is not to be used: dates (the start of the day in UTC) or times of RFC 3339.
	Retire     string `conf:"retire"`
	Deprecated string `conf:"deprecated"`
}

// rfc9421Config describes a producer that signs as RFC 9421 says.
type rfc9421Config struct {
	Label      string         `conf:"label"`
	Tag        string         `conf:"tag"`
	Keys       []Key          `conf:"keys"`
	JWKSURL    string         `conf:"jwks_url"`
	Algs       []string       `conf:"algs"`    // defaults to those of the profile
	Require    []string       `conf:"require"` // components beside those of the profile
	Nonce      string         `conf:"nonce"`   // off, required or unique
	AllowedIPs []netip.Prefix `conf:"allowed_ips"`
}

// keyConfig is one key of scheme rfc9421.
type Key struct {
	Node          *node
	ID            string `conf:"id"`
	Alg           string `conf:"alg"`
	PublicKey     string `conf:"public_key"`
	PublicKeyFile string `conf:"public_key_file"`
	Secret        secret `conf:"secret,secret"`
	Principal     string `conf:"principal"`
}

// hmacConfig describes how a producer that has no preset signs with a shared secret; verify.HMAC says what each
// setting means.
type hmacConfig struct {
	Header          []string          `conf:"header"`
	Separator       string            `conf:"separator"`
	Pattern         []string          `conf:"pattern"`
	Hash            string            `conf:"hash"`
	Hashes          []string          `conf:"hashes"`
	Encoding        string            `conf:"encoding"`
	SecretEncoding  string            `conf:"secret_encoding"`
	TimestampHeader []string          `conf:"timestamp_header"`
	TimestampUnit   string            `conf:"timestamp_unit"` // s or ms
	IDHeader        []string          `conf:"id_header"`
	Template        string            `conf:"template"`
	SignedURL       string            `conf:"signed_url"`
	Secret          secret            `conf:"secret,secret"`
	Secrets         []secret          `conf:"secrets,secret"`
	Keys            map[string]secret `conf:"keys,secret"`
	AllowedIPs      []netip.Prefix    `conf:"allowed_ips"`
}

// handlerConfig is one handler: exactly one of stdout, exec and forward.
type Handler struct {
	Node     *node
	Producer string   `conf:"producer"`
	Type     string   `conf:"type"` // exact, "prefix*" or "*"
	Stdout   bool     `conf:"stdout"`
	Exec     []string `conf:"exec"`
	Forward  string   `conf:"forward,target"`
	forwardConfig
	Answer    bool          `conf:"answer"` // of exec
	Name      string        `conf:"name"`
	Timeout   time.Duration `conf:"timeout"`
	Lane      string        `conf:"lane"`
	Blocks    *bool         `conf:"lane_blocks"` // a task that fails holds up its lane; the default
	Otherwise bool          `conf:"otherwise"`
	Env       []string      `conf:"env"` // of exec: names of variables to pass on
}

// Place returns where a setting at the top of the file was written.
func (c *Settings) Place(setting string) usage.Place { return c.Node.place(setting) }

func (c *Settings) defaults() {
	for _, d := range []struct {
		setting *string
		value   string
	}{
		{&c.Listen, DefaultListen}, {&c.Operations, DefaultOperations}, {&c.Store, defaultStore},
		{&c.Log.Format, "text"}, {&c.Log.Level, "info"},
	} {
		if *d.setting == "" {
			*d.setting = d.value
		}
	}
	c.Limits.Drain = cmp.Or(c.Limits.Drain, defaultDrain)
	c.Limits.HeaderTimeout = cmp.Or(c.Limits.HeaderTimeout, defaultHeaderTimeout)
	c.Limits.IdleTimeout = cmp.Or(c.Limits.IdleTimeout, defaultIdleTimeout)
}

// path returns the file that a setting names, relative to the configuration file.
func (c *Settings) Path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.File), name)
}
