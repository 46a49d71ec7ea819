package main

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
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

// freshSettings returns settings with new secrets, in the form that the vendor's have, for a
// preset that needs nothing else.
func freshSettings(vendor preset.Preset) (settingList, error) {
	text := string(verify.GenerateSecret())
	quoted := strconv.Quote(text)
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	switch vendor.Name {
	case "standard-webhooks", "svix", "gitlab-signed", "mcp-events":
		return settingList{{"secret", strconv.Quote(standardSecret())}}, nil
	case "stripe":
		return settingList{{"secret", strconv.Quote("whsec_" + text)}}, nil
	case "adyen", "adyen-platform", "datatrans":
		return settingList{{"secret", strconv.Quote(hex.EncodeToString(raw))}}, nil
	case "aws-eventbridge":
		return settingList{{"header", "X-Api-Key"}, {"value", quoted}}, nil
	case "azure-event-grid":
		return settingList{{"query", "code"}, {"value", quoted}}, nil
	case "chargebee":
		return settingList{{"username", "chargebee"}, {"password", quoted}}, nil
	case "cloudevents":
		return settingList{{"bearer", quoted}}, nil
	case "swt":
		return settingList{{"secret", quoted}, {"issuers", "[https://shop.example]"}}, nil
	case "webengage":
		return settingList{{"license_code", "\"~17\""}, {"secret_key", quoted}}, nil
	case "worldpay":
		return settingList{{"keys", "{\"1\": " + quoted + "}"}}, nil
	case "yookassa":
		return settingList{{"allowed_ips", "[127.0.0.1/32]"}}, nil
	case "websub":
		return settingList{{"subscriptions", "[{topic: \"" + vendor.Types()[0] + "\", secret: " + quoted +
			", token: " + strconv.Quote(string(verify.GenerateSecret())) + "}]"}}, nil
	}
	if !slices.Contains(vendor.Uses, "secrets") || vendor.KeySigned() {
		return nil, usage.Errorf("configure it in a file, and name it with --config; preset "+vendor.Name+
			" has the settings "+strings.Join(vendor.Uses, ", "), "preset %s needs more than a secret", vendor.Name)
	}
	return settingList{{"secret", quoted}}, nil
}
