package main

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// presetSetting is a setting of a preset as in eyelet.yaml. Its value may be a list or a mapping.
type presetSetting struct{ name, value string }

type settingList []presetSetting

// yaml returns the settings inside a mapping of one line.
func (s settingList) yaml() string {
	var parts []string
	for _, one := range s {
		parts = append(parts, one.name+": "+one.value)
	}
	return strings.Join(parts, ", ")
}

// text returns the settings for a person: without the quotes of YAML.
func (s settingList) text() string {
	var parts []string
	for _, one := range s {
		value, err := strconv.Unquote(one.value)
		if err != nil {
			value = one.value
		}
		parts = append(parts, one.name+" "+value)
	}
	return strings.Join(parts, ", ")
}

// freshSecret returns a new secret in the form that the vendor's have.
func freshSecret(vendor preset.Preset) string {
	switch vendor.Name {
	case "clerk", "gitlab-signed", "mcp-events", "openai", "resend", "standard-webhooks", "svix":
		return standardSecret()
	case "stripe":
		return "whsec_" + string(verify.GenerateSecret())
	case "adyen", "adyen-platform", "datatrans":
		raw := make([]byte, 32)
		_, _ = rand.Read(raw) // never fails
		return hex.EncodeToString(raw)
	}
	return string(verify.GenerateSecret())
}

// freshSettings are [settingsWith] of a new secret.
func freshSettings(vendor preset.Preset) (settingList, error) {
	return settingsWith(vendor, freshSecret(vendor))
}

// settingsWith returns the settings of a preset that needs nothing but a secret.
func settingsWith(vendor preset.Preset, secret string) (settingList, error) {
	quoted := strconv.Quote(secret)
	switch vendor.Name {
	case "aws-eventbridge":
		return settingList{{"header", "X-Api-Key"}, {"value", quoted}}, nil
	case "azure-event-grid":
		return settingList{{"query", "code"}, {"value", quoted}}, nil
	case "chargebee", "deepgram", "postmark":
		return settingList{{"username", vendor.Name}, {"password", quoted}}, nil
	case "strava":
		return settingList{{"query", "key"}, {"value", quoted}}, nil
	case "cloudevents":
		return settingList{{"bearer", quoted}}, nil
	case "swt":
		return settingList{{"secret", quoted}, {"issuers", "[https://shop.example]"}}, nil
	case "webengage":
		return settingList{{"license_code", "\"~17\""}, {"secret_key", quoted}}, nil
	case "worldpay", "xsolla":
		return settingList{{"keys", "{\"1\": " + quoted + "}"}}, nil
	case "yookassa":
		return settingList{{"allowed_ips", "[127.0.0.1/32]"}}, nil
	case "websub":
		token := sha256.Sum256([]byte("token " + secret))
		return settingList{{"subscriptions", "[{topic: \"" + vendor.Types()[0] + "\", secret: " + quoted +
			", token: " + hex.EncodeToString(token[:16]) + "}]"}}, nil
	}
	if !slices.Contains(vendor.Uses, "secret") || vendor.KeySigned() {
		return nil, usage.Errorf("configure it in a file, and name it with --config; preset "+vendor.Name+
			" has the settings "+strings.Join(vendor.Uses, ", "), "preset %s needs more than a secret", vendor.Name)
	}
	return settingList{{"secret", quoted}}, nil
}

// listenFolder is the folder in which listen keeps secrets (PRESET.txt), and for each preset the
// settings with which send signs for it (PRESET.yaml). Only the user can read it.
func listenFolder(environ []string) (string, error) {
	home, ok := (config.Source{Environ: environ}).Lookup("XDG_CONFIG_HOME")
	var err error
	if !ok || !filepath.IsAbs(home) {
		home, err = os.UserConfigDir()
	}
	return filepath.Join(home, "eyelet", "listen"), err
}

// orListening returns the flags, or if they have no key those that sign as a preset does for the
// last listen that served it. Another --url than that of listen is the one that is signed.
func (f senderFlags) orListening(environ []string, name string) senderFlags {
	folder, err := listenFolder(environ)
	file := filepath.Join(folder, name+".yaml")
	if err != nil || f.config+f.producer+f.keyFlag() != "" || !exists(file) {
		return f
	}
	f.config, f.producer = file, name
	if s, _ := (config.Source{File: file, Environ: environ}).Load(); s != nil && f.url != "" {
		_, port, _ := net.SplitHostPort(s.Listen)
		if to, err := url.Parse(f.url); err == nil && to.Port() != port {
			f.signedURL = cmp.Or(f.signedURL, f.url)
		}
	}
	return f
}
