package config

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/testdata"
)

// unpacked writes the test data to a folder and returns it.
func unpacked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.CopyFS(dir, testdata.Files()))
	return dir
}

// buildText loads and builds a configuration.
func buildText(t *testing.T, dir, yaml string, environ ...string) error {
	t.Helper()
	file := filepath.Join(dir, "e.yaml")
	c, err := Source{Environ: environ}.Parse(file, []byte(yaml))
	if err != nil {
		return err
	}
	_, err = c.Build(context.Background(), BuildOptions{Stdout: os.Stdout})
	return err
}

func TestBuildErrorsNameTheirLine(t *testing.T) {
	t.Parallel()
	const shop = "producers:\n  shop:\n    scheme: rfc9421\n" +
		"    keys: [{id: k, alg: hmac-sha256, secret: 0123456789abcdefghij}]\nurl: http://x\n"
	const beyond = "e.yaml:6: deliveries would come over HTTP without TLS from beyond this machine | " +
		"add tls: {cert_file: ..., key_file: ...}, or acme: {hosts: [...]}, or trusted_proxies, " +
		"or insecure_http: true on a private network"
	const operationsBeyond = "e.yaml:6: the token and the events of the operations port would go over HTTP " +
		"without TLS beyond this machine | " +
		"add operations_tls: {cert_file: ..., key_file: ...}, or insecure_http: true on a private network"
	tests := map[string]struct{ yaml, want string }{
		"none": {
			"url: http://x\n",
			"e.yaml:1: there are no producers | add one under producers: `eyelet keygen` prints a first one",
		},
		"unknown preset": {
			"producers:\n  gh: {preset: githb, secret: x}\n",
			`e.yaml:2: unknown preset "githb" | did you mean "github"?`,
		},
		"unknown scheme": {
			"producers:\n  gh: {scheme: rfc9412}\n",
			`e.yaml:2: unknown scheme "rfc9412" | did you mean "rfc9421"?`,
		},
		"neither": {
			"producers:\n  gh:\n    window: 24h\n",
			"e.yaml:2: producers.gh has neither a scheme nor a preset | write scheme: rfc9421 with keys, or " +
				"preset: github with secrets, ...",
		},
		"both": {
			"producers:\n  gh: {preset: github, scheme: hmac}\n",
			"e.yaml:2: producers.gh has both a preset and a scheme | remove one of them",
		},
		"preset, no key": {"producers:\n  gh: {preset: github}\n", `e.yaml:2: producer "gh": secrets: none is set | ` +
			`write a variable, as in secret: "${NAME}", or secret_file: FILE`},
		"types": {"producers:\n  gh: {preset: github, secret: 0123456789abcdef}\nhandlers:\n" +
			"  - {producer: gh, type: [push, ping], stdout: true}\n",
			"e.yaml:4: handlers[0].type is a list, want a single value | write one handler for each type"},
		"no keys": {
			"producers:\n  shop: {scheme: rfc9421}\n",
			"e.yaml:2: producer \"shop\" has no keys | add keys: [{id: ..., alg: ..., public_key_file: ...}], " +
				"a jwks_url, or directories",
		},
		"no key file": {
			"producers:\n  shop:\n    scheme: rfc9421\n    keys:\n" +
				"      - {id: k, alg: ed25519, public_key_file: none.pem}\n",
			"e.yaml:5: key file none.pem: no such file or directory | the name is relative to the configuration " +
				"file; `eyelet keygen` makes a key pair",
		},
		"malformed file": {
			"producers:\n  shop:\n    scheme: rfc9421\n    keys:\n" +
				"      - {id: k, alg: ed25519, public_key_file: bad.pem}\n",
			"e.yaml:5: key file bad.pem: key \"k\": the text is neither PEM nor a JSON Web Key | a key file " +
				"holds a PEM block PUBLIC KEY or CERTIFICATE, or a JSON Web Key",
		},
		"no secret file": {
			"producers:\n  gh:\n    preset: github\n    secret_file: none\n",
			"e.yaml:4: secret file none: no such file or directory | the name is relative to the configuration file",
		},
		"empty secret file": {
			"producers:\n  gh:\n    preset: github\n    secret_file: empty\n",
			"e.yaml:4: secret file empty is empty",
		},
		"algorithm": {
			"producers:\n  shop:\n    scheme: rfc9421\n    keys: [{id: k, alg: ed25591, public_key_file: bad.pem}]\n",
			`e.yaml:4: key "k": unknown algorithm "ed25591" | did you mean "ed25519"?`,
		},
		"short secret": {
			"producers:\n  shop:\n    scheme: rfc9421\n    keys: [{id: k, alg: hmac-sha256, secret: short}]\n",
			`e.yaml:4: key "k": the secret has 5 bytes and needs at least 16`,
		},
		"window": {
			strings.Replace(shop, "scheme: rfc9421", "scheme: rfc9421\n    window: 1m", 1),
			`e.yaml:2: producer "shop": window 1m0s is shorter than the tolerance (5m0s back, 1m0s ahead): a ` +
				`replay would outlive its record`,
		},
		"test key": {
			"producers:\n  shop:\n    scheme: rfc9421\n" +
				"    keys: [{id: k, alg: ed25519, public_key_file: keys/shop.pub.pem}]\nurl: http://x\n",
			`e.yaml:4: key "k" is published for tests: anyone can sign with it | make one of your own: eyelet keygen`,
		},
		"directories": {
			"producers:\n  bots:\n    scheme: rfc9421\n    directories: [http://a.example, b.example]\n" +
				"    jwks_url: https://c.example\n  old: {scheme: rfc9421, legacy_agent: true}\n" +
				"  none: {scheme: rfc9421, directories: []}\nurl: http://x\n",
			"e.yaml:4: directory 1: not an https URL; directory 2: not an https URL | list origins: " +
				"[https://bot.example, ...]\n" +
				"e.yaml:5: jwks_url and directories exclude each other: agents are known by their directories | use " +
				"another producer for it\n" +
				"e.yaml:6: legacy_agent has no meaning without directories | remove it\n" +
				"e.yaml:6: producer \"old\" has no keys | add keys: [{id: ..., alg: ..., public_key_file: ...}], " +
				"a jwks_url, or directories\n" +
				"e.yaml:7: no directory is listed | list origins: [https://bot.example, ...]",
		},
		"test secret": {
			"producers:\n  gh: {preset: github, secret_file: keys/github.secret}\n",
			`e.yaml:2: producer "gh" uses a published secret of the test data | make one of your own: eyelet ` +
				`keygen --alg hmac-sha256`,
		},
		"ambiguous content": {
			"url: http://x\nproducers:\n  pay: {scheme: hmac, header: X-Sig, secret: 0123456789abcdef, template: " +
				"\"{url}{body}\"}\n",
			`e.yaml:3: producer "pay": content "{url}{body}": {url} has no boundary to what follows it: put text ` +
				`between them that it cannot hold, such as a line break`,
		},
		"signed URL": {
			"url: http://x\nproducers:\n  pay: {scheme: hmac, header: X-Sig, secret: 0123456789abcdef, template: " +
				"\"{url}{body}\", signed_url: hooks}\n",
			`e.yaml:3: producer "pay": content "{url}{body}": the URL is not absolute, or there is no {url}`,
		},
		"setting that the preset does not use": {
			"producers:\n  gh: {preset: github, secret: x, " +
				"verify_token: y}\n", `e.yaml:2: producer "gh": preset github has no setting "verify_token"; it ` +
				`has secrets, allow_sha1, algs`,
		},
		"setting of another scheme": {
			"producers:\n  gh: {preset: github, secret: x, label: y}\n",
			`e.yaml:2: unknown setting "label" in producers.gh`,
		},
		"extractors": {
			strings.Replace(shop, "scheme: rfc9421", "scheme: rfc9421\n    key: hedaer:X\n"+
				"    type: json", 1) + "handlers:\n  - {producer: shop, type: a, stdout: true, lane: x}\n",
			"e.yaml:4: key: extractor \"hedaer:X\": unknown kind \"hedaer\"; want header, idempotency-key, query, " +
				"json, form, jwt, link, digest, cloudevent or const | write header:X-Event-Id, json:data.id, " +
				"idempotency-key, digest:body, ...\n" +
				"e.yaml:5: type: extractor \"json\": want KIND:NAME, such as header:X-Id or json:data.id | write " +
				"header:X-Event-Id, json:data.id, idempotency-key, digest:body, ...\n" +
				"e.yaml:9: lane: extractor \"x\": want KIND:NAME, such as header:X-Id or json:data.id",
		},
		"addresses": {shop + "listen: 0.0.0.0:80\noperations: nowhere\nstore: bager:x\n" +
			"log: {format: xml, level: loud}\n", beyond + "\n" +
			"e.yaml:7: operations is not an address: nowhere | write 127.0.0.1:8081, unix:eyelet.sock, or off\n" +
			"e.yaml:8: store is neither badger:DIR, postgres://..., nor memory | " +
			"write badger:./data, postgres://user@host/database, or memory: for trying out\n" +
			"e.yaml:9: log.format is neither text nor json\n" +
			"e.yaml:9: log.level is not debug, info, warn or error"},
		"open to all": {shop + "listen: :8080\n", beyond},
		"PROXY headers of anyone": {
			shop + "proxy_protocol: true\n",
			"e.yaml:6: proxy_protocol needs trusted_proxies: anyone else could claim any address | " +
				"name the proxies, as in trusted_proxies: [10.0.0.5/32]",
		},
		"PROXY headers without TLS": {
			shop + "proxy_protocol: true\ntrusted_proxies: [10.0.0.0/8]\nlisten: :8080\n",
			"e.yaml:6: with proxy_protocol deliveries without TLS are those of clients, not of the proxy | " +
				"add tls or acme and let the proxy pass TLS on, or insecure_http: true on a private network",
		},
		"operations open to all": {shop + "operations: 0.0.0.0:8081\n", operationsBeyond},
		"operations by a name": {
			shop + "trusted_proxies: [10.0.0.0/8]\noperations: eyelet.internal:8081\n",
			strings.Replace(operationsBeyond, ":6:", ":7:", 1),
		},
		"operations without TLS": {shop + "insecure_http: true\noperations: \":8081\"\n", "<nil>"},
		"operations over TLS": {
			shop + "operations: \":8081\"\noperations_tls: {cert_file: c.pem, key_file: k.pem}\n",
			"<nil>",
		},
		"certificate without key": {
			shop + "operations_tls: {cert_file: c.pem}\n",
			"e.yaml:6: operations_tls needs a cert_file and a key_file",
		},
		"a certificate for a socket": {
			shop + "operations: unix:eyelet.sock\noperations_tls: {cert_file: c.pem, key_file: k.pem}\n",
			"e.yaml:7: operations_tls has no meaning for operations: unix:eyelet.sock | leave it out",
		},
		"bounds of connections": {
			shop + "http2: true\nlimits:\n  connections: -1\n  connections_per_address: -1\n  head: 4KiB\n",
			"e.yaml:6: http2 has no meaning without tls | leave it out: a proxy offers HTTP/2 to producers itself\n" +
				"e.yaml:8: limits.connections is less than 0\n" +
				"e.yaml:9: limits.connections_per_address is less than 0\n" +
				"e.yaml:10: limits.head is not between 8KiB and 1MiB",
		},
		"good": {
			shop + "listen: \"localhost:1\"\nhandlers:\n" +
				"  - {producer: shop, type: a, exec: [cat], answer: true, timeout: 1m}\n",
			"<nil>",
		},
		"unknown producer": {
			shop + "handlers:\n  - {producer: shpo, type: a, stdout: true}\n",
			`e.yaml:7: handler for the unknown producer "shpo" | did you mean "shop"?`,
		},
		"two sinks": {
			shop + "handlers:\n  - {producer: shop, type: a, stdout: true, forward: \"http://x\"}\n",
			"e.yaml:7: a handler needs one of stdout, exec and forward, and this one has stdout and forward",
		},
		"no sink": {
			shop + "handlers:\n  - {producer: shop, type: a}\n",
			"e.yaml:7: a handler needs one of stdout, exec and forward, and this one has none",
		},
		"no type": {
			shop + "handlers:\n  - {producer: shop, stdout: true}\n",
			`e.yaml:7: a handler needs a type | write an event type, "prefix*", or "*"`,
		},
		"no program": {
			shop + "handlers:\n  - {producer: shop, type: a, exec: [./none.sh]}\n",
			`e.yaml:7: no program ./none.sh: no such file or directory | the first word is a program, relative ` +
				`to the configuration file; chmod +x makes a file executable`,
		},
		"duplicate": {
			shop + "handlers:\n  - {producer: shop, type: a, stdout: true}\n" +
				"  - {producer: shop, type: a, stdout: true}\n",
			`e.yaml:8: two handlers are called "shop/a/stdout", the first in line 7 | give one of them a name of ` +
				`its own: name: ...`,
		},
		"forward": {
			shop + "handlers:\n  - {producer: shop, type: a, forward: localhost}\n",
			"e.yaml:7: forward is not a URL of http or https | write it in full, as in http://127.0.0.1:9000/deploy",
		},
		"mode": {
			shop + "handlers:\n  - {producer: shop, type: a, forward: \"http://x\", mode: stor}\n",
			`e.yaml:7: mode is "stor", want relay or store | did you mean "store"?`,
		},
		"forward_headers": {
			shop + "handlers:\n  - {producer: shop, type: a, forward: \"http://x\", forward_headers: [X-Shop-*, " +
				"X-*, Host]}\n  - {producer: shop, type: b, stdout: true, forward_headers: [X-A]}\n",
			"e.yaml:7: forward_headers: \"X-*\" is too wide: write the prefix that the fields of one sender " +
				"share, as in X-Shop-* the field Host is never forwarded | name the fields that the target needs, " +
				"as in [X-Shop-Region, X-Trace-*]\n" +
				"e.yaml:8: forward_headers is a setting of forward",
		},
		"via": {
			shop + "via: a b\n",
			"e.yaml:6: via is not a token of at most 64 characters | write a name that no other hop has, as in " +
				"via: eyelet-berlin",
		},
		"answers overlap": {
			shop + "handlers:\n  - {producer: shop, type: \"*\", forward: \"http://x\"}\n" +
				"  - {producer: shop, type: b, stdout: true}\n",
			`e.yaml:7: handlers "shop/*/forward" and "shop/b/stdout": an Answer handler takes its events alone, and ` +
				`both would take "b" | forward answers for producers of scheme rfc9421: with mode: store it is one ` +
				`handler among others`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := unpacked(t)
			for file, text := range map[string]string{"bad.pem": "nonsense", "empty": " \n"} {
				check(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			err := buildText(t, dir, tt.yaml)
			got := strings.ReplaceAll(withHints(err), dir+string(filepath.Separator), "")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPresetsNeedTheirSecret(t *testing.T) {
	t.Parallel()
	for _, vendor := range preset.All() {
		err := buildText(t, t.TempDir(), "url: https://hooks.example\nproducers:\n  x:\n    preset: "+vendor.Name+"\n")
		ms, ok := usage.Find(err)
		if !ok || len(ms) == 0 || ms[0].At.Line != 3 {
			t.Errorf("%s: %v", vendor.Name, err)
		}
	}
}

func TestInFlightWaitOfZeroDoesNotWait(t *testing.T) {
	t.Parallel()
	c, err := parse(t, "limits: {in_flight_wait: 0s}\n")
	check(t, err)
	var rc receiver.Config
	if c.applyLimits(&rc); rc.InFlightWait >= 0 {
		t.Errorf("in_flight_wait: 0s waits: %v, which is the default %v "+
			"where it is 0", rc.InFlightWait, receiver.DefaultInFlightWait)
	}
}

func TestOrphanAfterOfZeroDoesNotWait(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"limits: {orphan_after: 0s}\n": -1, "limits: {orphan_after: 2h}\n": 2 * time.Hour, "limits: {attempts: 3}\n": 0,
	} {
		c, err := parse(t, text)
		check(t, err)
		var rc receiver.Config
		if c.applyLimits(&rc); rc.OrphanAfter != want {
			t.Errorf("%q waits %v, want %v", text, rc.OrphanAfter, want)
		}
	}
}

func TestErrorsOfHandlersCanBeLeftOutOfTheLog(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"log: {level: info}\n": false, "log: {omit_errors: true}\n": true} {
		c, err := parse(t, text)
		check(t, err)
		var rc receiver.Config
		if c.applyLimits(&rc); rc.OmitErrors != want {
			t.Errorf("%q: OmitErrors is %v", text, rc.OmitErrors)
		}
	}
}

// validShop is a configuration without errors, to which tests add some.
const validShop = "producers:\n  shop:\n    scheme: rfc9421\n" +
	"    keys: [{id: k, alg: hmac-sha256, secret: 0123456789abcdefghij}]\nurl: http://x\n"
