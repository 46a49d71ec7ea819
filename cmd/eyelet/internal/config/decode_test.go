package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

func TestEmptySettingsAreRefused(t *testing.T) {
	t.Parallel()
	handler := validShop + "handlers:\n  - {producer: shop, type: a, forward: \"http://x\", "
	tests := map[string]struct{ yaml, want string }{
		"item of handlers": {validShop + "handlers:\n  -\n", "e.yaml:7: handlers[0] is empty"},
		"an item of keys": {
			"url: http://x\nproducers:\n  shop:\n    scheme: rfc9421\n    keys:\n" +
				"      - {id: k, alg: hmac-sha256, secret: 0123456789abcdefghij}\n      -\n",
			"e.yaml:7: producers.shop.keys[1] is empty",
		},
		"an address": {
			strings.Replace(validShop, "scheme: rfc9421", "scheme: rfc9421\n    allowed_ips: [~]", 1),
			"e.yaml:4: producers.shop.allowed_ips[0] is empty",
		},
		"no address": {
			strings.Replace(validShop, "scheme: rfc9421", "scheme: rfc9421\n    allowed_ips:", 1),
			"e.yaml:4: producers.shop.allowed_ips is empty",
		},
		"an empty list": {
			strings.Replace(validShop, "scheme: rfc9421", "scheme: rfc9421\n    allowed_ips: []", 1),
			"e.yaml:4: producers.shop.allowed_ips is empty",
		},
		"no hosts":             {validShop + "hosts: []\n", "e.yaml:6: hosts is empty"},
		"the file of a bearer": {handler + "bearer_file: }\n", "e.yaml:7: handlers[0].bearer_file is empty"},
		"a bearer":             {handler + "bearer: }\n", "e.yaml:7: handlers[0].bearer is empty"},
		"a signature":          {handler + "sign: }\n", "e.yaml:7: handlers[0].sign is empty"},
		"the files of secrets": {
			"producers:\n  gh: {preset: github, secret_files: }\n",
			"e.yaml:2: producers.gh.secret_files is empty",
		},
		"a word of a program": {
			validShop + "handlers:\n  - {producer: shop, type: a, exec: [cat, ~]}\n",
			"e.yaml:7: handlers[0].exec[1] is empty",
		},
		"empty sections": {validShop + "limits:\nlog:\nhandlers:\n", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := firstError(buildText(t, t.TempDir(), tt.yaml)); got != tt.want {
				t.Errorf("error is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestZeroIsRefusedWhereItWouldMeanTheDefault(t *testing.T) {
	t.Parallel()
	producer := func(setting string) string {
		return strings.Replace(validShop, "scheme: rfc9421", "scheme: rfc9421\n    "+setting, 1)
	}
	tests := map[string]struct{ yaml, want string }{
		"tolerance":       {producer("tolerance: {future: 0s}"), "e.yaml:4: producers.shop.tolerance.future is 0"},
		"short tolerance": {producer("tolerance: 0s"), "e.yaml:4: producers.shop.tolerance is 0"},
		"window":          {producer("window: 0d"), "e.yaml:4: producers.shop.window is 0"},
		"attempts":        {validShop + "limits: {attempts: 0}\n", "e.yaml:6: limits.attempts is 0"},
		"drain":           {validShop + "limits: {drain: 0s}\n", "e.yaml:6: limits.drain is 0"},
		"minimum":         {validShop + "limits: {min_free: 0}\n", "e.yaml:6: limits.min_free is 0"},
		"timeout": {
			validShop + "handlers: [{producer: shop, type: a, exec: [cat], timeout: 0s}]\n",
			"e.yaml:6: handlers[0].timeout is 0",
		},
		"zero allowed":   {validShop + "limits: {backlog_events: 0, backlog_bytes: 0, in_flight_wait: 0s}\n", ""},
		"zero orphans":   {validShop + "limits: {orphan_after: 0s}\n", ""},
		"no concurrency": {producer("concurrency: 0"), ""},
		"too long": {
			producer("window: 2200000h"),
			`e.yaml:4: producers.shop.window is "2200000h", want a duration`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := firstError(buildText(t, t.TempDir(), tt.yaml)); got != tt.want {
				t.Errorf("error is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestOverridesDoNotHideAMalformedSection(t *testing.T) {
	t.Parallel()
	_, err := parse(t, "log: text\n", "EYELET_LOG_LEVEL=warn")
	if got := firstError(err); got != "eyelet.yaml:1: log is a single value, want a mapping" {
		t.Errorf("error is %q", got)
	}
}

// firstError returns the first error without the folder.
func firstError(err error) string {
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
