package config

import (
	"reflect"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

// CheckReload returns the settings that differ from those that are in use and need a restart.
func CheckReload(s, used *Settings) (found usage.Errors) {
	at := func(setting string) usage.Place { return s.Place(setting) }
	limit := func(setting string) usage.Place { return s.Limits.Node.place(setting) }
	l, was := &s.Limits, &used.Limits
	for _, row := range []struct {
		setting  string
		place    func(string) usage.Place
		now, was any
	}{
		{"listen", at, s.Listen, used.Listen},
		{"operations", at, s.Operations, used.Operations},
		{"store", at, s.Store, used.Store},
		{"schema", at, s.Schema, used.Schema},
		{"state", at, s.State, used.State},
		{"insecure_http", at, s.InsecureHTTP, used.InsecureHTTP},
		{"proxy_protocol", at, s.ProxyProtocol, used.ProxyProtocol},
		{"http2", at, s.HTTP2, used.HTTP2},
		{"tls", at, s.TLS == nil, used.TLS == nil},
		{"operations_tls", at, s.OperationsTLS == nil, used.OperationsTLS == nil},
		{"acme", at, acmeValues(s), acmeValues(used)},
		{"refused", at, refusedValues(s), refusedValues(used)},
		{"tracing", at, TracingOptions(s), TracingOptions(used)},
		{"format", s.Log.Node.place, s.Log.Format, used.Log.Format},
		{"head", limit, l.Head, was.Head},
		{"header_timeout", limit, l.HeaderTimeout, was.HeaderTimeout},
		{"idle_timeout", limit, l.IdleTimeout, was.IdleTimeout},
		{"backlog_bytes", limit, l.BacklogBytes, was.BacklogBytes},
		{"backlog_events", limit, l.BacklogEvents, was.BacklogEvents},
		{"min_free", limit, l.MinFree, was.MinFree},
		{"remember_signatures", limit, l.RememberSignatures.retention(), was.RememberSignatures.retention()},
	} {
		if !reflect.DeepEqual(row.now, row.was) {
			place := row.place(row.setting)
			if place.File == "" { // it was removed, with its section
				place = s.Node.at
			}
			found.Add(place, "restart eyelet, or undo the change", "%s cannot change while the server runs",
				settingNames(row.setting))
		}
	}
	return found
}

// settingNames returns the full name of a setting that CheckReload compares.
func settingNames(name string) string {
	switch name {
	case "format":
		return "log.format"
	case "head", "header_timeout", "idle_timeout", "backlog_bytes", "backlog_events", "min_free",
		"remember_signatures":
		return "limits." + name
	}
	return name
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
