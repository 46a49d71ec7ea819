package producer

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

func hexHMAC(secrets ...string) *verify.HMAC {
	return &verify.HMAC{Headers: []string{"X-Sig"}, Content: "{body}", Encoding: verify.Hex,
		Secrets: verify.Secrets(secrets...)}
}

func withScheme(f func(secrets ...string) verify.Scheme) func(...string) Producer {
	return func(secrets ...string) Producer {
		return Producer{Name: "shop", Scheme: f(secrets...), Key: BodyDigest(), Contract: Webhook}
	}
}

// namedScheme is one of a program, which proves the producer.
type namedScheme struct{ verify.Scheme }

func TestTenantsAreVerifiedByTheirSecretAlone(t *testing.T) {
	t.Parallel()
	list := func(context.Context) (map[string][]verify.Secret, error) { return nil, nil }
	lookup := func(context.Context, string) ([]verify.Secret, error) { return nil, nil }
	own := withScheme(func(s ...string) verify.Scheme { return hexHMAC(s...) })
	const alone, sources = "by a secret of their tenant alone", "set With, and either List or Lookup"
	for name, c := range map[string]struct {
		t    Tenants
		want string
	}{
		"a secret":     {Tenants{With: own, List: list}, ""},
		"monitored":    {Tenants{With: own, List: list}, "which tenant sent a delivery that does not verify"},
		"looked up":    {Tenants{With: own, Lookup: lookup}, ""},
		"two sources":  {Tenants{With: own, List: list, Lookup: lookup}, sources},
		"no source":    {Tenants{With: own}, sources},
		"without With": {Tenants{List: list}, "With is missing"},
		"a program's scheme": {Tenants{With: withScheme(func(s ...string) verify.Scheme {
			return namedScheme{hexHMAC(s...)}
		}), List: list}, ""},
		"a password": {Tenants{With: withScheme(func(s ...string) verify.Scheme {
			return verify.Basic("user", s...)
		}), List: list}, ""},
		"two proofs": {Tenants{With: withScheme(func(s ...string) verify.Scheme {
			return verify.All{hexHMAC(s...), verify.BearerToken(s...)}
		}), List: list}, ""},
		"a shared secret": {Tenants{With: withScheme(func(s ...string) verify.Scheme {
			return hexHMAC(append(s, "a secret that all have")...)
		}), List: list}, alone},
		"or a shared secret": {Tenants{With: withScheme(func(s ...string) verify.Scheme {
			return verify.Any{hexHMAC(s...), verify.BearerToken("a token that all have")}
		}), List: list}, alone},
		"keys": {Tenants{With: withScheme(func(...string) verify.Scheme {
			return &verify.RFC9421{Keys: verify.StaticKeys()}
		}), List: list}, alone},
	} {
		p := c.t.Producer()
		p.Name, p.Key = "shop", BodyDigest()
		if name == "monitored" {
			p.MonitorUntil = time.Now()
		}
		var all []string
		for _, err := range p.Check() {
			all = append(all, err.Error())
		}
		if got := strings.Join(all, "\n"); !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestATenantHasTheSettingsOfItsProducer(t *testing.T) {
	t.Parallel()
	p := Tenants{With: withScheme(func(s ...string) verify.Scheme { return hexHMAC(s...) }),
		List: func(context.Context) (map[string][]verify.Secret, error) { return nil, nil }}.Producer()
	p.MaxBody, p.Pings = 77, []string{"GET"}
	p = p.WithDefaults().WithDefaults()
	own, shared, err := p.Tenants.Of("acme", "a secret", "another one")
	if err != nil || own.MaxBody != 77 || own.Challenge == nil || own.Tenants.On() || len(shared) != 2 {
		t.Errorf("%+v, %v, %v", own, shared, err)
	}
	if _, _, err := p.Tenants.Of("acme", verify.Secrets(make([]string, 17)...)...); err == nil {
		t.Error("17 secrets are not too many")
	}
	url := Tenants{With: withScheme(func(s ...string) verify.Scheme {
		h := hexHMAC(s...)
		h.Content = "{url}{body}"
		h.Malleable = true
		return h
	})}.Producer().WithDefaults()
	if _, shared, err = url.Tenants.Of("acme", "a secret"); err != nil || len(shared) != 0 {
		t.Error("the URL is signed, and secrets may be equal:", shared, err)
	}
}

func TestTenantsAreInAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := TenantsIn(filepath.Join(dir, "tenants"))
	if _, err := list(t.Context()); err == nil {
		t.Error("no folder is not a failure")
	}
	for name, text := range map[string]string{
		"..data/acme": "first\r\n\n second \n", "empty": "", ".swp": "x",
		"large": strings.Repeat("a", maxTenantFile+1),
	} {
		path := filepath.Join(dir, "tenants", name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	at := filepath.Join(dir, "tenants")
	if err := os.Symlink(filepath.Join("..data", "acme"), filepath.Join(at, "acme")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("none", filepath.Join(at, "removed")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(at, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := list(t.Context())
	want := map[string][]verify.Secret{
		"acme": verify.Secrets("first", "second"), "empty": nil, "large": nil, "folder": nil,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%d, %v", len(got), err)
	}
}

func FuzzNamesOfTenants(f *testing.F) {
	long := strings.Repeat("a", 64)
	for _, name := range []string{"acme", "", "-a", "_a", "9", "A", "a~1", "..", "%61", "a\n", long[1:], long} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		const all = "abcdefghijklmnopqrstuvwxyz0123456789-_"
		good := name != "" && len(name) <= 63 && strings.Trim(name, all) == "" && !strings.ContainsAny(name[:1], "-_")
		if IsTenant(name) != good {
			t.Errorf("%q", name)
		}
	})
}
