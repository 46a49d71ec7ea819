package config

import (
	"reflect"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// CheckReload returns the settings that differ from those that are in use and need a restart.
func CheckReload(s, used *Settings) (found usage.Errors) {
	l, was := &s.Limits, &used.Limits
	for _, row := range []struct {
		setting  string
		now, was any
	}{
		{"listen", s.Listen, used.Listen},
		{"operations", s.Operations, used.Operations},
		{"store", s.Store, used.Store},
		{"schema", s.Schema, used.Schema},
		{"state", s.State, used.State},
		{"insecure_http", s.InsecureHTTP, used.InsecureHTTP},
		{"proxy_protocol", s.ProxyProtocol, used.ProxyProtocol},
		{"http2", s.HTTP2, used.HTTP2},
		{"tls", s.TLS == nil, used.TLS == nil},
		{"operations_tls", s.OperationsTLS == nil, used.OperationsTLS == nil},
		{"acme", acmeValues(s), acmeValues(used)},
		{"refused", refusedValues(s), refusedValues(used)},
		{"tracing", TracingOptions(s), TracingOptions(used)},
		{"log.format", s.Log.Format, used.Log.Format},
		{"limits.head", l.Head, was.Head},
		{"limits.header_timeout", l.HeaderTimeout, was.HeaderTimeout},
		{"limits.idle_timeout", l.IdleTimeout, was.IdleTimeout},
		{"limits.backlog_bytes", l.BacklogBytes, was.BacklogBytes},
		{"limits.backlog_events", l.BacklogEvents, was.BacklogEvents},
		{"limits.min_free", l.MinFree, was.MinFree},
		{"limits.remember_signatures", l.RememberSignatures.retention(), was.RememberSignatures.retention()},
	} {
		if !reflect.DeepEqual(row.now, row.was) {
			section, name := conf.SplitPath(row.setting)
			place := s.Node.Find(section).Place(name)
			if place.File == "" { // it was removed, with its section
				place = s.Node.At
			}
			found.Add(place, "restart eyelet, or undo the change", "%s cannot change while the server runs",
				row.setting)
		}
	}
	return found
}

func acmeValues(s *Settings) any {
	if s.ACME == nil {
		return nil
	}
	values := *s.ACME
	values.Node = nil
	return values
}

func refusedValues(s *Settings) any {
	values := s.Refused
	values.Node = nil
	return values
}
