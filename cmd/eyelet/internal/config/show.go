package config

import (
	"cmp"
	"os"
	"reflect"
	"runtime"
	"strconv"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/duration"
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
	root.AddDefaults(reflect.TypeFor[Settings]())
	for _, row := range derived(s) {
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
			addProducerDefaults(n, plan.Producers[i], s.Limits.MaxBody)
		}
	}
	return root, nil
}

// derived are the paths and values of settings whose default depends on others, or on the machine.
func derived(s *Settings) [][2]string {
	limits := s.ConnectionLimits()
	rows := [][2]string{
		{"store", s.StoreName()}, {"via", s.viaName()},
		{"limits.connections", strconv.Itoa(limits.Connections)},
		{"limits.connections_per_address", strconv.Itoa(limits.PerAddress)},
		{"limits.workers", strconv.Itoa(4 * runtime.GOMAXPROCS(0))},
	}
	orphans := receiver.DefaultOrphanAfterAlone
	switch kind, _, _ := s.StoreKind(); kind { // an invalid setting was reported
	case "badger":
		events := strconv.FormatInt(badgerstore.DefaultBacklogRecords(), 10)
		rows = append(rows, [2]string{"limits.backlog_events", events})
	case "postgres":
		orphans = receiver.DefaultOrphanAfter
		rows = append(rows, [2]string{"schema", pgstore.DefaultSchema})
	}
	return append(rows, [2]string{"limits.orphan_after", duration.Format(orphans)})
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
