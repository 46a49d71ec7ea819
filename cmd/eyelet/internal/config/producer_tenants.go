package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// tenantsSettings say where the secrets of tenants are.
type tenantsSettings struct {
	Dir     string   `conf:"dir"`
	Command []string `conf:"command"`
}

// secretSettings are those of a scheme with shared secrets.
type secretSettings interface {
	// with returns the producer with other secrets, after reporting errors.
	with(b *producerBuilder, p *Producer, secrets []verify.Secret) producer.Producer
}

// tenants returns a producer with tenants. Each is like a producer of these settings with its
// secrets.
func (p *Producer) tenants(b *producerBuilder) (made producer.Producer, ok bool) {
	t, all := p.common.Tenants, producer.Tenants{}
	vendor, isPreset := b.findPreset(p)
	scheme, isScheme := p.settings.(secretSettings)
	switch {
	case p.Preset != "" && !isPreset:
		return made, false
	case !isPreset && !isScheme:
		b.errs.Add(p.Node.Place("tenants"), "use a preset with a secret, or scheme hmac, bearer, basic or static",
			"scheme %s has no secrets of tenants", p.Scheme)
		return made, false
	case (t.Dir == "") == (len(t.Command) == 0):
		b.errs.Add(p.Node.Place("tenants"), "write tenants: {dir: FOLDER}, or tenants: {command: [PROGRAM]}",
			"tenants of producer %q need either a folder or a command", p.Name)
		return made, false
	case t.Dir != "":
		all.List = producer.TenantsIn(b.Path(t.Dir))
	default:
		all.List = listedBy(t.Command, filepath.Dir(b.File))
	}
	for _, own := range []string{"secret", "secret_file", "password", "password_file"} {
		if p.Node.Member(own) != nil {
			b.errs.Add(p.Node.Place(own), "remove it", "%s and tenants exclude each other", own)
		}
	}
	all.With = func(secrets ...string) (made producer.Producer) {
		own := &producerBuilder{Settings: b.Settings, testKeys: b.testKeys}
		if isPreset {
			set := p.PresetSettings
			set.Name, set.Secrets = p.Name, secrets
			own.secrets(p, verify.Secrets(secrets...))
			made = vendor.Open(set)
		} else {
			made = scheme.with(own, p, verify.Secrets(secrets...))
		}
		made.Err = errors.Join(made.Err, own.errs.Err())
		return made
	}
	made = all.Producer()
	b.addAll(p, made.Err)
	made.Err = nil
	return made, true
}

// The bounds of a command that prints secrets, in bytes and time.
const (
	maxListed = 8 << 20
	listWait  = 2 * time.Second // for children of a killed program
)

// listedBy returns the secrets of tenants that a program prints. Its standard error may hold a
// secret, and is dropped.
func listedBy(argv []string, dir string) func(context.Context) (map[string][]verify.Secret, error) {
	return func(ctx context.Context) (all map[string][]verify.Secret, err error) {
		cmd, out := exec.CommandContext(ctx, argv[0], argv[1:]...), &atMost{}
		cmd.Dir, cmd.Stdout, cmd.WaitDelay = dir, out, listWait
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w", argv[0], err)
		}
		var texts map[string][]string
		if json.Unmarshal(out.Bytes(), &texts) != nil {
			return nil, fmt.Errorf(`%s does not print a JSON object such as {"acme": ["SECRET"]}`, argv[0])
		}
		all = make(map[string][]verify.Secret, len(texts))
		for name, secrets := range texts {
			all[name] = verify.Secrets(secrets...)
		}
		return all, nil
	}
}

// atMost is a buffer that fails when it is full.
type atMost struct{ bytes.Buffer }

func (b *atMost) Write(text []byte) (int, error) {
	if b.Len()+len(text) > maxListed {
		return 0, errors.New("it prints more than 8 MiB")
	}
	return b.Buffer.Write(text)
}

// AsTenant makes of a producer that of one of its tenants, and returns the secrets.
func AsTenant(ctx context.Context, p *producer.Producer, name string) (secrets []string, err error) {
	if !p.Tenants.On() {
		return nil, usage.Errorf("leave out --tenant", "producer %q has no tenants", p.Name)
	}
	d := p.WithDefaults()
	all, err := d.Tenants.List(ctx)
	if err == nil && all[name] == nil {
		return nil, usage.Errorf("name one with --tenant, or by the path", "producer %q has no tenant %q", p.Name, name)
	}
	own, _, wrong := d.Tenants.Of(name, all[name]...)
	if err = errors.Join(err, wrong); err != nil {
		return nil, usage.Errorf("", "tenant %q of producer %q: %v", name, p.Name, err)
	}
	if own.URL != "" {
		own.URL += "/" + name
	}
	*p = own
	for _, one := range all[name] {
		secrets = append(secrets, string(one))
	}
	return secrets, nil
}

// CheckTenants reads the tenants of all producers. It returns how many there are, and what is wrong
// with them.
func (p *Plan) CheckTenants(ctx context.Context) (count int, found usage.Errors) {
	ctx, cancel := context.WithTimeout(ctx, 5*listWait)
	defer cancel()
	for i := range p.Producers {
		from := p.Producers[i].WithDefaults()
		if from.Tenants.List == nil {
			continue
		}
		all, err := from.Tenants.List(ctx)
		if err != nil {
			found.Add(usage.Place{}, "", "tenants of producer %q: %v", from.Name, err)
		}
		owners := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			count++
			_, alone, err := from.Tenants.Of(name, all[name]...)
			for _, one := range alone {
				if owners[one] != "" {
					err = fmt.Errorf("it shares a secret with %q, and neither is served", owners[one])
				}
				owners[one] = name
			}
			if err != nil {
				found.Add(usage.Place{}, "", "tenant %q of producer %q: %v", name, from.Name, err)
			}
		}
	}
	return count, found
}
