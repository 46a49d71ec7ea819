package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestRareSettingsReachTheProducer: settings that no other test writes in a file.
func TestRareSettingsReachTheProducer(t *testing.T) {
	t.Parallel()
	const signed = "scheme: hmac, header: X-Sig, secret: 0123456789abcdef-own, "
	const token = "scheme: jwt, jwks_url: https://login.example/keys, issuers: [https://login.example], "
	for settings, holds := range map[string]func(producer.Producer) bool{
		signed + "early_data: true":   func(p producer.Producer) bool { return p.EarlyData },
		signed + "expect_every: 2h":   func(p producer.Producer) bool { return p.ExpectEvery == 2*time.Hour },
		signed + "form_member: data":  func(p producer.Producer) bool { return p.FormMember == "data" },
		signed + "loose_binary: true": func(p producer.Producer) bool { return p.LooseBinary },
		signed + "query_scope: true":  func(p producer.Producer) bool { return p.QueryScope },
		signed + "key_format: 'o-\\d+'": func(p producer.Producer) bool {
			return formed(p, "o-17") && !formed(p, "17")
		},
		signed + "key_format: uuid": func(p producer.Producer) bool {
			return formed(p, "0b5a2b1e-8d3c-4f60-9a57-2f1c0e6d7b89") && !formed(p, "o-17")
		},
		signed + "challenge: {json: token, reply: json, as: answer}": func(p producer.Producer) bool {
			return p.Echo.Member == "token" && p.Echo.Reply == "json" && p.Echo.As == "answer"
		},
		token + "audience: [us], no_expiry: true": func(p producer.Producer) bool {
			scheme, ok := p.Scheme.(*verify.JWT)
			return ok && scheme.NoExpiry
		},
	} {
		p, errs := buildRate(t, settings)
		if errs != "" || !holds(p) {
			t.Errorf("%s: %s%+v", settings, errs, p)
		}
	}
	s := loadText(t, filepath.Join(t.TempDir(), "e.yaml"), "limits: {body_budget: 8MiB}\ninspector: {prefix: /hooks}\n"+
		"handlers: [{producer: gh, type: \"*\", stdout: true, otherwise: true}]\n")
	if s.Limits.BodyBudget != 8<<20 || s.Inspector.Prefix != "/hooks" || !s.Handlers[0].Otherwise {
		t.Errorf("settings are %+v", s)
	}
}

func formed(p producer.Producer, key string) bool { return p.KeyFormat.Check(key) == nil }

// TestEverySettingIsWrittenSomewhere: no setting is only a row of a table. A test, a recorded
// configuration or a page shows how it is written.
func TestEverySettingIsWrittenSomewhere(t *testing.T) {
	t.Parallel()
	const root = "../../../.."
	written := map[string]bool{}
	use := regexp.MustCompile(`(?m)(?:^|[\s{,"'\x60])([a-z][a-z0-9_]*):`)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		kind := filepath.Ext(name)
		if err != nil || d.IsDir() || !slices.Contains([]string{".md", ".yaml", ".txtar", ".go"}, kind) ||
			kind == ".go" && !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, found := range use.FindAllSubmatch(text, -1) {
			written[strings.TrimSuffix(string(found[1]), "_file")] = true
		}
		return err
	})
	check(t, err)
	for section, rows := range conf.Describe(settingsText) {
		for _, row := range rows {
			for _, name := range row.Names {
				last := name[strings.LastIndex(name, ".")+1:]
				if !written[strings.TrimSuffix(last, "_file")] {
					t.Errorf("[%s] %s: no test, recorded configuration or page sets it", section, name)
				}
			}
		}
	}
}
