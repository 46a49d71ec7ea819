package config

import (
	"cmp"
	"os"
	"reflect"
	"runtime"
	"strconv"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Effective returns the settings with their defaults and without secrets.
func (s *Settings) Effective(plan *Plan) (*conf.Node, error) {
	data, err := os.ReadFile(s.File)
	if err != nil {
		return nil, usage.Errorf("", "%s: %s", s.File, usage.Cause(err))
	}
	// In producers and handlers variables are shown by name, because their values may be secret.
	written, err := conf.ParseTree(s.File, data, func(name string) (string, bool) { return "${" + name + "}", true })
	if err != nil {
		return nil, err
	}
	root := conf.NewMapping()
	for _, row := range defaultRows(s) {
		root.Set(row[0], row[1], usage.Place{})
	}
	for _, name := range s.Node.Names {
		var names *conf.Node
		if name == "producers" || name == "handlers" {
			names = written.Member(name)
		}
		root.Overlay(name, shown.Redact(s.Node.Member(name), names))
	}
	for i := range plan.Producers {
		if n := root.Member("producers").Member(plan.Producers[i].Name); n != nil {
			addProducerDefaults(n, plan.Producers[i], cmp.Or(s.Limits.MaxBody, receiver.DefaultMaxBody))
		}
	}
	return root, nil
}

// defaultRows are the paths and values of settings with a default.
func defaultRows(s *Settings) [][2]string {
	limits := s.ConnectionLimits()
	count, span, bytes := strconv.Itoa, conf.FormatDuration, func(n int64) string { return strconv.FormatInt(n, 10) }
	rows := [][2]string{
		{"listen", s.Listen}, {"operations", s.Operations}, {"store", s.StoreName()}, {"via", s.viaName()},
		{"inspector.prefix", s.Inspector.Prefix}, {"log.format", s.Log.Format}, {"log.level", s.Log.Level},
		{"refused.keep", s.Refused.Keep}, {"refused.for", span(defaultRefusedFor)},
		{"explain", s.Explain},
		{"limits.max_body", bytes(receiver.DefaultMaxBody)}, {"limits.body_budget", bytes(receiver.DefaultBodyBudget)},
		{"limits.connections", count(limits.Connections)},
		{"limits.connections_per_address", count(limits.PerAddress)},
		{"limits.head", bytes(DefaultHead)}, {"limits.head_budget", bytes(limits.HeadBytes)},
		{"limits.header_timeout", span(defaultHeaderTimeout)}, {"limits.idle_timeout", span(defaultIdleTimeout)},
		{"limits.store_timeout", span(receiver.DefaultStoreTimeout)},
		{"limits.body_timeout", span(receiver.DefaultBodyTimeout)},
		{"limits.workers", count(4 * runtime.GOMAXPROCS(0))}, {"limits.attempts", count(receiver.DefaultAttempts)},
		{"limits.backoff_base", span(receiver.DefaultBackoffBase)},
		{"limits.backoff_cap", span(receiver.DefaultBackoffCap)},
		{"limits.postpone_max", span(receiver.DefaultPostponeMax)},
		{"limits.handler_timeout", span(receiver.DefaultHandlerTimeout)},
		{"limits.answer_timeout", span(receiver.DefaultAnswerTimeout)},
		{"limits.in_flight_wait", span(receiver.DefaultInFlightWait)}, {"limits.lease", span(receiver.DefaultLease)},
		{"limits.retry_after", span(receiver.DefaultRetryAfter)}, {"limits.drain", span(s.Limits.Drain)},
		{"limits.remember_signatures.for", span(dedup.DefaultRememberFor)},
		{"limits.remember_signatures.max", count(dedup.DefaultRememberMax)},
	}
	orphans := receiver.DefaultOrphanAfterAlone
	switch kind, _, _ := s.StoreKind(); kind { // an invalid setting was reported
	case "badger":
		rows = append(rows, [2]string{"limits.backlog_events", bytes(badgerstore.DefaultBacklogRecords())})
	case "postgres":
		orphans = receiver.DefaultOrphanAfter
		rows = append(rows, [2]string{"schema", cmp.Or(s.Schema, pgstore.DefaultSchema)})
	}
	return append(rows, [2]string{"limits.orphan_after", span(orphans)})
}

// shown is how connection strings and targets are shown.
var shown = conf.Redaction{DSN: storeName, Target: forward.RedactURL}

// addProducerDefaults adds what the scheme, the preset or the defaults say and the file does not.
func addProducerDefaults(n *conf.Node, p producer.Producer, maxBody int64) {
	p.MaxBody = cmp.Or(p.MaxBody, maxBody)
	p = p.WithDefaults()
	n.AddFields(reflect.ValueOf(p))
	n.Add("accepted", conf.NewText(strconv.Itoa(p.Accepted.Status)))
	n.Add("remember_signatures", conf.NewText(map[bool]string{true: "off", false: "on"}[p.Forgets]))
}
