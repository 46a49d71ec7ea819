package conform

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Profile says how the deliveries of a program are made, and what it claims to follow. Texts with
// braces are templates: {id}, {timestamp} (seconds since 1970), {body}, {n} (a number), {origin}
// (scheme and authority of the target), and in fields {hex} and {base64}, the HMAC-SHA256 of Over.
type Profile struct {
	Name string `yaml:"name"`
	// Base is the built-in profile, or the file, that this one completes.
	Base string `yaml:"base"`
	// Claims are the documents that the program claims to follow. http is always among them.
	Claims []string `yaml:"claims"`
	// Scheme is hmac, rfc9421, bearer, or none.
	Scheme string `yaml:"scheme"`
	// Secret signs deliveries. Encoding is text (the default), hex or base64; of whsec_ secrets it
	// is base64 of what follows. ${NAME} is that variable of the environment, here and in Fields.
	Secret   string `yaml:"secret"`
	Encoding string `yaml:"encoding"`
	// Over is what an HMAC is made of, such as "{timestamp}.{body}".
	Over string `yaml:"over"`
	// Fields are sent with each delivery.
	Fields map[string]string `yaml:"fields"`
	// Key is where the identifier is: field:NAME, body:MEMBER.MEMBER, or empty for nowhere.
	Key string `yaml:"key"`
	// Signature describes that of RFC 9421.
	Signature *Signature `yaml:"signature"`
	Method    string     `yaml:"method"`
	Type      string     `yaml:"type"` // media type of bodies
	Body      string     `yaml:"body"`
	Batch     string     `yaml:"batch"` // media type of batches of CloudEvents, if they are taken
	// Accepted are the statuses of an accepted delivery. Defaults to 200, 201, 202 and 204.
	Accepted []int `yaml:"accepted"`
	// Conflict is the status for a known identifier with another payload. Defaults to 422.
	Conflict int `yaml:"conflict"`
	// Answers says that a delivery is answered by its handler. Otherwise it is answered when it is
	// accepted.
	Answers bool `yaml:"answers"`
	// Members are those of a JSON body that the handler obeys: wait is how long it takes, in
	// milliseconds, and fail is how it fails the first time: "transient" or "terminal".
	Members []string `yaml:"members"`
	// Old is another credential of the same producer, and Other one of another producer. Each has a
	// secret, or a keyid with the secret or the file of its key.
	Old   *Credential `yaml:"old"`
	Other *Credential `yaml:"other"`
	// OtherURL is another endpoint of the program, for the same producer.
	OtherURL string `yaml:"other_url"`
	// Tolerance is how old a signed time may be, and how far ahead. Defaults to five minutes. If it
	// is negative, the program does not check it.
	Tolerance time.Duration `yaml:"tolerance"`
	// Window is how long an identifier is remembered. It is tested if it is at most a minute, or
	// with a Clock.
	Window time.Duration `yaml:"window"`
	// MaxBody is the largest accepted body, in bytes. Zero is unknown.
	MaxBody int `yaml:"max_body"`
	// Effects are where the identifier of each handled event is seen: in a line for each time, or
	// in an element of one JSON array.
	Effects *Effects `yaml:"effects"`
	// Settle is how long handling takes at most. Defaults to two seconds.
	Settle time.Duration `yaml:"settle"`
	// Restart is a command that kills the program and starts it again. Power cuts its storage, too.
	Restart string `yaml:"restart"`
	Power   string `yaml:"power"`
	// Clock is a command that moves the program's clock by $SECONDS.
	Clock string `yaml:"clock"`
	// Trigger is a command that makes a producer send an event to $URL.
	Trigger string `yaml:"trigger"`
	// Timeout is how long a response may take. Defaults to ten seconds.
	Timeout time.Duration `yaml:"timeout"`

	variables []string // values of variables of the environment
}

// Credential is what a producer signs with.
type Credential struct {
	Secret string `yaml:"secret"` // with the encoding of the profile
	KeyID  string `yaml:"keyid"`
	Key    string `yaml:"key"` // a file, as in Signature
}

// with returns the profile with another credential.
func (p *Profile) with(c *Credential) *Profile {
	other := *p
	other.Secret = c.Secret
	if p.Signature != nil {
		signature := *p.Signature
		signature.KeyID, signature.Key = cmp.Or(c.KeyID, signature.KeyID), cmp.Or(c.Key, signature.Key)
		other.Signature = &signature
	}
	return &other
}

// Effects are where those of handled events are seen. Exactly one of them is set.
type Effects struct {
	File    string `yaml:"file"`
	URL     string `yaml:"url"`
	Command string `yaml:"command"`
}

// Signature is how requests are signed with RFC 9421.
type Signature struct {
	Label string `yaml:"label"` // defaults to sig1
	KeyID string `yaml:"keyid"`
	// Alg is hmac-sha256, ed25519, ecdsa-p256-sha256, rsa-pss-sha512 or rsa-v1_5-sha256.
	Alg string `yaml:"alg"`
	// Key is a file with the private key (PEM), unless Alg is hmac-sha256: then the secret is. For
	// producers and intermediaries it may be the public key.
	Key string `yaml:"key"`
	Tag string `yaml:"tag"`
	// Components are covered, as they are written in Signature-Input.
	Components []string `yaml:"components"`
	// Omit are parameters that are not sent: alg or created.
	Omit  []string `yaml:"omit"`
	Nonce bool     `yaml:"nonce"`
}

//go:embed profiles
var profileFiles embed.FS

// Profiles returns the names of the built-in profiles.
func Profiles() []string {
	names, _ := fs.Glob(profileFiles, "profiles/*.yaml") // the pattern is right
	for i, name := range names {
		names[i] = strings.TrimSuffix(path.Base(name), ".yaml")
	}
	return names
}

// ReadProfile returns a built-in profile, or that of a YAML file.
func ReadProfile(name string) (*Profile, error) {
	var p Profile
	if err := p.read(name, 0); err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	if err := p.complete(); err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	return &p, nil
}

// maxBases bounds the chain of profiles.
const maxBases = 4

func (p *Profile) read(name string, depth int) error {
	data, err := profileFiles.ReadFile(path.Join("profiles", name+".yaml"))
	if err != nil {
		if data, err = os.ReadFile(name); err != nil {
			return fmt.Errorf("no such file, nor a built-in profile (%s): %w", strings.Join(Profiles(), ", "), err)
		}
	}
	var head struct {
		Base string `yaml:"base"`
	}
	if err := yaml.Unmarshal(data, &head); err != nil {
		return err
	}
	if head.Base != "" {
		if depth == maxBases {
			return errors.New("its base has too many bases")
		}
		if err := p.read(head.Base, depth+1); err != nil {
			return err
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	return d.Decode(p)
}

// variable is one of the environment.
var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// readEnvironment fills in variables of secrets and fields.
func (p *Profile) readEnvironment() (err error) {
	fill := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(v string) string {
			value := os.Getenv(v[2 : len(v)-1])
			if value == "" {
				err = fmt.Errorf("the secret is empty: set %s in the environment", v)
			}
			p.variables = append(p.variables, value)
			return value
		})
	}
	for _, secret := range p.secrets() {
		*secret = fill(*secret)
	}
	for name, value := range p.Fields {
		p.Fields[name] = fill(value)
	}
	return err
}

func (p *Profile) complete() error {
	if err := p.readEnvironment(); err != nil {
		return err
	}
	p.Method = cmp.Or(p.Method, http.MethodPost)
	p.Type = cmp.Or(p.Type, "application/json")
	p.Body = cmp.Or(p.Body, `{"id":"{id}","type":"conform.checked","n":{n}}`)
	p.Conflict = cmp.Or(p.Conflict, http.StatusUnprocessableEntity)
	p.Tolerance, p.Settle = cmp.Or(p.Tolerance, 5*time.Minute), cmp.Or(p.Settle, 2*time.Second)
	p.Timeout = cmp.Or(p.Timeout, 10*time.Second)
	if len(p.Accepted) == 0 {
		p.Accepted = []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent}
	}
	if !slices.Contains(p.Claims, "http") {
		p.Claims = append([]string{"http"}, p.Claims...)
	}
	for _, claim := range p.Claims {
		if documents[claim] == "" {
			return fmt.Errorf("there is no document %q to claim. There are: %s", claim,
				strings.Join(slices.Sorted(maps.Keys(documents)), ", "))
		}
	}
	if err := p.completeScheme(); err != nil {
		return err
	}
	if min(p.Settle, p.Timeout, p.Window, time.Duration(p.MaxBody)) < 0 {
		return errors.New("settle, timeout, window and max_body cannot be negative")
	}
	if e := p.Effects; e != nil {
		given := []string{e.File, e.URL, e.Command}
		if given = slices.DeleteFunc(given, func(text string) bool { return text == "" }); len(given) != 1 {
			return errors.New("effects is one of file, url and command")
		}
	}
	for _, c := range []*Credential{p.Old, p.Other} {
		if c != nil && c.Secret == "" && c.Key == "" {
			return errors.New("another credential has neither a secret nor a key: set it, or its variable")
		}
	}
	for _, name := range p.Members {
		if name != "wait" && name != "fail" {
			return fmt.Errorf("member %q is neither wait nor fail", name)
		}
	}
	place, name, _ := strings.Cut(p.Key, ":")
	if p.Key != "" && (place != "field" && place != "body" || name == "") {
		return fmt.Errorf("key %q is neither field:NAME nor body:MEMBER", p.Key)
	}
	_, err := p.secret()
	return err
}

func (p *Profile) completeScheme() error {
	switch p.Scheme {
	case "none":
	case "hmac", "bearer":
		if p.Secret == "" {
			return errors.New("the secret is empty: set it, or the variable that it names")
		}
	case "rfc9421":
		if p.Signature == nil {
			return errors.New("scheme rfc9421 needs signature")
		}
		p.Signature.Label = cmp.Or(p.Signature.Label, "sig1")
		if p.Signature.Alg != "hmac-sha256" && p.Signature.Key == "" {
			return fmt.Errorf("alg %q needs the file of a key", p.Signature.Alg)
		}
	default:
		return fmt.Errorf("scheme %q is not hmac, rfc9421, bearer or none", p.Scheme)
	}
	return nil
}

func (p *Profile) claims(document string) bool {
	return document == profileDocument || slices.Contains(p.Claims, document)
}

// credentialField matches a field that has a credential.
var credentialField = regexp.MustCompile(
	`(?im)^([\w-]*(?:auth|authorization|cookie|token|secret|password|api-?key)): .*`)

// hidden returns the texts that no report has: secrets, also as the octets that tokens are,
// variables of the environment, and credentials in fields.
func (p *Profile) hidden() []string {
	all := slices.Clone(p.variables)
	for _, secret := range p.secrets() {
		octets, _ := p.with(&Credential{Secret: *secret}).secret() // it is text if it does not decode
		all = append(all, strings.TrimPrefix(*secret, "whsec_"), string(octets))
	}
	for name, value := range p.Fields {
		if credentialField.MatchString(name+": ") && !strings.Contains(value, "{") {
			_, token, _ := strings.Cut(value, " ") // after its scheme
			all = append(all, value, token)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // the longest first
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}

// secrets returns those of the profile, to be filled in.
func (p *Profile) secrets() []*string {
	all := []*string{&p.Secret}
	for _, c := range []*Credential{p.Old, p.Other} {
		if c != nil {
			all = append(all, &c.Secret)
		}
	}
	return all
}

// secret returns the octets of the secret.
func (p *Profile) secret() ([]byte, error) {
	text, isWhsec := strings.CutPrefix(p.Secret, "whsec_")
	switch {
	case p.Encoding == "hex":
		return hex.DecodeString(p.Secret)
	case p.Encoding == "base64" || isWhsec && p.Encoding == "":
		return base64.StdEncoding.DecodeString(text)
	case p.Encoding == "" || p.Encoding == "text":
		return []byte(p.Secret), nil
	}
	return nil, fmt.Errorf("encoding %q is not text, hex or base64", p.Encoding)
}

// field returns the template of a field, or "".
func (p *Profile) field(name string) string {
	for other, value := range p.Fields {
		if strings.EqualFold(name, other) {
			return value
		}
	}
	return ""
}

// keyField returns the field of the identifier, or "".
func (p *Profile) keyField() string {
	name, _ := strings.CutPrefix(p.Key, "field:")
	if name == p.Key {
		return ""
	}
	return name
}

// hasTime reports whether a time is signed.
func (p *Profile) hasTime() bool {
	if p.Scheme == "rfc9421" {
		return !slices.Contains(p.Signature.Omit, "created")
	}
	return strings.Contains(p.Over, "{timestamp}")
}

// signsBody reports whether the body is signed.
func (p *Profile) signsBody() bool {
	return p.Scheme == "hmac" && strings.Contains(p.Over, "{body}") || p.covers("content-digest")
}

// covers reports whether a component is signed with RFC 9421.
func (p *Profile) covers(names ...string) bool {
	return p.Scheme == "rfc9421" && slices.ContainsFunc(p.Signature.Components, func(c string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(c, quoted(name)) })
	})
}
