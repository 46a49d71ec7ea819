package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

// carelessShop is a good configuration; what follows it is what somebody wrote without care.
const carelessShop = "producers:\n  shop:\n    scheme: rfc9421\n    keys: [{id: k, alg: hmac-sha256, secret: 0123456789abcdefghij}]\nurl: http://x\n"

func TestWhatSaysNothingIsAMistake(t *testing.T) {
	t.Parallel()
	handler := carelessShop + "handlers:\n  - {producer: shop, type: a, forward: \"http://x\", "
	tests := map[string]struct{ yaml, want string }{
		"an item of handlers":    {carelessShop + "handlers:\n  -\n", "e.yaml:7: handlers[0] is empty"},
		"an item of keys":        {"url: http://x\nproducers:\n  shop:\n    scheme: rfc9421\n    keys:\n      - {id: k, alg: hmac-sha256, secret: 0123456789abcdefghij}\n      -\n", "e.yaml:7: producers.shop.keys[1] is empty"},
		"an address":             {strings.Replace(carelessShop, "scheme: rfc9421", "scheme: rfc9421\n    allowed_ips: [~]", 1), "e.yaml:4: producers.shop.allowed_ips[0] is empty"},
		"no addresses":           {strings.Replace(carelessShop, "scheme: rfc9421", "scheme: rfc9421\n    allowed_ips:", 1), "e.yaml:4: producers.shop.allowed_ips is empty"},
		"an empty list":          {strings.Replace(carelessShop, "scheme: rfc9421", "scheme: rfc9421\n    allowed_ips: []", 1), "e.yaml:4: producers.shop.allowed_ips is empty"},
		"no hosts":               {carelessShop + "hosts: []\n", "e.yaml:6: hosts is empty"},
		"the file of a bearer":   {handler + "bearer_file: }\n", "e.yaml:7: handlers[0].bearer_file is empty"},
		"a bearer":               {handler + "bearer: }\n", "e.yaml:7: handlers[0].bearer is empty"},
		"a signature":            {handler + "sign: }\n", "e.yaml:7: handlers[0].sign is empty"},
		"the files of secrets":   {"producers:\n  gh: {preset: github, secret_files: }\n", "e.yaml:2: producers.gh.secret_files is empty"},
		"a word of a program":    {carelessShop + "handlers:\n  - {producer: shop, type: a, exec: [cat, ~]}\n", "e.yaml:7: handlers[0].exec[1] is empty"},
		"sections and no values": {carelessShop + "limits:\nlog:\nhandlers:\n", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := firstMistake(built(t, t.TempDir(), tt.yaml)); got != tt.want {
				t.Errorf("mistake is %q, want %q", got, tt.want)
			}
		})
	}
}

// firstMistake is the first line of err without the folder.
func firstMistake(err error) string {
	ms, ok := usage.Find(err)
	if !ok {
		if err != nil {
			return err.Error()
		}
		return ""
	}
	first := *ms[0]
	first.At.File = filepath.Base(first.At.File)
	return first.Error()
}

func TestANumberThatCountsForNothingIsAMistake(t *testing.T) {
	t.Parallel()
	producer := func(setting string) string {
		return strings.Replace(carelessShop, "scheme: rfc9421", "scheme: rfc9421\n    "+setting, 1)
	}
	tests := map[string]struct{ yaml, want string }{
		"tolerance":        {producer("tolerance: {future: 0s}"), "e.yaml:4: producers.shop.tolerance.future is 0"},
		"short tolerance":  {producer("tolerance: 0s"), "e.yaml:4: producers.shop.tolerance is 0"},
		"window":           {producer("window: 0d"), "e.yaml:4: producers.shop.window is 0"},
		"attempts":         {carelessShop + "limits: {attempts: 0}\n", "e.yaml:6: limits.attempts is 0"},
		"drain":            {carelessShop + "limits: {drain: 0s}\n", "e.yaml:6: limits.drain is 0"},
		"minimum":          {carelessShop + "limits: {min_free: 0}\n", "e.yaml:6: limits.min_free is 0"},
		"timeout":          {carelessShop + "handlers: [{producer: shop, type: a, exec: [cat], timeout: 0s}]\n", "e.yaml:6: handlers[0].timeout is 0"},
		"none is none":     {carelessShop + "limits: {backlog_events: 0, backlog_bytes: 0, in_flight_wait: 0s}\n", ""},
		"no concurrency":   {producer("concurrency: 0"), ""},
		"beyond any clock": {producer("window: 2200000h"), `e.yaml:4: producers.shop.window is "2200000h", want a duration`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := firstMistake(built(t, t.TempDir(), tt.yaml)); got != tt.want {
				t.Errorf("mistake is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestADuplicateNeedNotWait(t *testing.T) {
	t.Parallel()
	c, err := parse(t, "limits: {in_flight_wait: 0s}\n")
	if err != nil {
		t.Fatal(err)
	}
	var rc receiver.Config
	if c.applyLimits(&rc); rc.InFlightWait >= 0 {
		t.Errorf("in_flight_wait: 0s waits: %v, which is the default %v where it is 0", rc.InFlightWait, receiver.DefaultInFlightWait)
	}
}

func TestASecretThatIsNoYAMLIsNotQuoted(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"abc${s3cret", "abc${s3cret-more}", "*s3cret", "&s3cret", "!s3cret", "'s3cret", "\"s3cret", "@s3cret", "%s3cret", "`s3cret", "{s3cret", "[s3cret", "|s3cret", "!s3cret!x", "\"\\s3cret\"", "a: s3cret"} {
		err := built(t, t.TempDir(), "url: http://x\nproducers:\n  gh:\n    preset: github\n    secret: "+value+"\n")
		if err == nil {
			continue // it is a secret
		}
		if strings.Contains(withHints(err), "s3cret") {
			t.Errorf("secret: %s is quoted in\n%s", value, withHints(err))
		}
	}
}

func TestSettingsOfExecAreForExec(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ handler, want string }{
		"env of stdout":  {"stdout: true, env: [HOME]", "e.yaml:7: env is a setting of exec"},
		"env of forward": {"forward: \"http://x\", env: [HOME]", "e.yaml:7: env is a setting of exec"},
		"a value in env": {"exec: [cat], env: [\"A=b\"]", "e.yaml:7: env names variables, and \"A\" has a value"},
		"a NUL":          {`exec: [cat, "a\0b"]`, "e.yaml:7: a word of exec holds a NUL, which no program can be given"},
		"good":           {"exec: [cat], env: [A]", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			yaml := carelessShop + "handlers:\n  - {producer: shop, type: a, " + tt.handler + "}\n"
			if got := firstMistake(built(t, t.TempDir(), yaml)); got != tt.want {
				t.Errorf("mistake is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAddressesThatServeCannotBindAreMistakes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ yaml, want string }{
		"a port too high":   {"listen: 127.0.0.1:99999\n", "e.yaml:6: listen is not an address: 127.0.0.1:99999"},
		"of operations":     {"operations: 127.0.0.1:65536\n", "e.yaml:6: operations is not an address: 127.0.0.1:65536"},
		"of no socket":      {"operations: \"unix:\"\n", "e.yaml:6: operations is not an address: unix:"},
		"of a socket":       {"operations: unix:eyelet.sock\n", ""},
		"one for both":      {"listen: 127.0.0.1:9\noperations: 127.0.0.1:9\n", "e.yaml:7: listen and operations are the same address"},
		"any port for both": {"listen: 127.0.0.1:0\noperations: 127.0.0.1:0\n", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := firstMistake(built(t, t.TempDir(), carelessShop+tt.yaml)); got != tt.want {
				t.Errorf("mistake is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestASectionThatIsNoneStaysAMistake(t *testing.T) {
	t.Parallel()
	_, err := parse(t, "log: text\n", "EYELET_LOG_LEVEL=warn")
	if got := firstMistake(err); got != "eyelet.yaml:1: log is a single value, want a mapping" {
		t.Errorf("mistake is %q", got)
	}
}

func TestNoMistakeQuotesASecret(t *testing.T) {
	t.Parallel()
	const value = "s3cret-Zz%~\\x07 not=any:form"
	secrets := secretNames()
	for _, vendor := range preset.All() {
		for _, name := range vendor.Uses {
			form := "\"" + value + "\""
			switch {
			case name == "keys":
				form = "{id: \"" + value + "\"}"
			case name == "subscriptions":
				form = "[{topic: \"http://x/\", mode: x, secret: \"" + value + "\", token: \"" + value + "\"}]"
			case !slices.Contains(secrets, name):
				continue
			}
			err := built(t, t.TempDir(), "url: http://x\nproducers:\n  p:\n    preset: "+vendor.Name+"\n    "+name+": "+form+"\n")
			if text := withHints(err); strings.Contains(text, "s3cret") || strings.Contains(text, "Zz%") {
				t.Errorf("preset %s, %s: %s", vendor.Name, name, text)
			}
		}
	}
	for _, encoding := range []string{"raw", "hex", "base64", "whsec"} {
		for _, setting := range []string{"secret: \"" + value + "\"", "secrets: [\"" + value + "\"]", "keys: {k: \"" + value + "\"}"} {
			err := built(t, t.TempDir(), "producers:\n  p: {scheme: hmac, header: [X], pattern: [\"{kid}={sig}\"], secret_encoding: "+encoding+", "+setting+"}\n")
			if text := withHints(err); strings.Contains(text, "s3cret") || strings.Contains(text, "Zz%") || strings.Contains(text, "invalid byte") {
				t.Errorf("%s %s: %s", encoding, setting, text)
			}
		}
	}
	for _, handler := range []string{
		"forward: \"http://u:s3cret@x y/\"", "forward: \"http://u:s3cret@/\"", "forward: \"ftp://u:s3cret@h/?k=s3cret\"", "forward: \"http://h/%zz?k=s3cret\"",
		"forward: \"http://u:s3cret@127.0.0.1/?k=s3cret\", deny_private: true",
		"forward: \"http://x\", bearer: \"s3cret\\n\\x01\"", "forward: \"http://x\", sign: {id: k, secret: s3cret}", "forward: \"http://x\", sign: {id: k, alg: ed25519, secret: s3cret-0123456789abcdef}",
	} {
		err := built(t, t.TempDir(), carelessShop+"handlers:\n  - {producer: shop, type: a, "+handler+"}\n")
		if text := withHints(err); err == nil || strings.Contains(text, "s3cret") {
			t.Errorf("%s: %s", handler, text)
		}
	}
	for _, key := range []string{"jwks_url: \"http://elsewhere.example/?k=s3cret\"", "jwks_url: \"https://u:s3cret@elsewhere.example/\"", "jwks_url: \"http://%zz?k=s3cret\"", "url: \"ftp://u:s3cret@x/\"", "url: \"http://u:s3cret@x y/\""} {
		err := built(t, t.TempDir(), strings.Replace(carelessShop, "scheme: rfc9421", "scheme: rfc9421\n    "+key, 1))
		if text := withHints(err); err == nil || strings.Contains(text, "s3cret") {
			t.Errorf("%s: %s", key, text)
		}
	}
}
