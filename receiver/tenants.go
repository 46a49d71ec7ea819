package receiver

import (
	"context"
	"errors"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/sender"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver/internal/tenants"
	"github.com/eyelet-dev/eyelet/verify"
)

// newTenants returns the cache of the tenants of a producer, or nil without any.
func newTenants(rx *Receiver, p *producer.Producer) *tenants.Cache {
	all := p.Tenants
	if !all.On() {
		return nil
	}
	return tenants.New(tenants.Source{
		Producer: p.Name, Valid: producer.IsTenant, List: all.List,
		Lookup: func(ctx context.Context, name string) ([]verify.Secret, error) {
			secrets, err := all.Lookup(ctx, name)
			if errors.Is(err, producer.ErrNoTenant) {
				err = tenants.ErrUnknown
			}
			return secrets, err
		},
		Of: func(name string, secrets ...verify.Secret) (any, []string, error) { return all.Of(name, secrets...) },
	}, rx.cfg.Store, rx.cfg.Logger)
}

// forTenant returns the endpoint of the tenant in the last segment of the path, octet for octet.
// While its secrets are not known, a delivery is not refused for good.
func (ep *endpoint) forTenant(ctx context.Context, d *delivery) (*endpoint, error) {
	if ep.tenants == nil {
		return ep, nil
	}
	name := d.target.path[strings.LastIndexByte(d.target.path, '/')+1:]
	t, err := ep.tenants.Get(ctx, name, sender.Network(d.peer))
	if errors.Is(err, tenants.ErrUnknown) {
		d.permit.Debit()
		return ep, fail(codeNotFound, nil)
	}
	if missing, ok := errors.AsType[*tenants.Unavailable](err); ok {
		return ep, &verify.Error{Code: verify.KeysUnavailable, Err: err, RetryAfter: missing.After}
	}
	return ep.of(t), nil
}

// of returns the endpoint of a tenant. What limits it is that of all tenants.
func (ep *endpoint) of(t *tenants.Tenant) *endpoint {
	own := *ep
	own.p, own.tenant = t.Value.(producer.Producer), t //nolint:forcetypeassert // of newTenants
	own.former.principals = nil                        // events of others name none of a tenant
	if ep.url != nil {
		u := *ep.url
		u.Path += "/" + t.Name
		if u.RawPath != "" {
			u.RawPath += "/" + t.Name
		}
		own.url = &u
	}
	return &own
}

// tenantName returns the name of the endpoint's tenant, or "".
func (ep *endpoint) tenantName() string {
	if ep.tenant == nil {
		return ""
	}
	return ep.tenant.Name
}

// place returns the path of a target without the name of the tenant, which is the principal.
func (ep *endpoint) place(at target) string {
	if ep.tenant == nil {
		return at.path
	}
	return strings.TrimSuffix(at.path, "/"+ep.tenant.Name)
}

// proved notes which tenant sent a verified delivery.
func (ep *endpoint) proved(id *verify.Identity) {
	if ep.tenant != nil {
		id.Principal = ep.tenant.Principal()
		ep.tenants.Verified(ep.tenant)
	}
}
