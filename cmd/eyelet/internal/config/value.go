package config

import (
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/duration"
)

// rememberSetting bounds the memory of events beyond their window: off, or how long and how many.
type rememberSetting struct {
	Node *conf.Node
	For  time.Duration `conf:"for" default:"90d"`
	Max  int           `conf:"max" default:"2000000"`
	off  bool
}

const (
	rememberHint = "write off, or {for: 90d, max: 2000000}"
	minRemember  = 24 * time.Hour // the store counts in days
)

func (r *rememberSetting) DecodeNode(d *conf.Decoder, n *conf.Node, path string) {
	if n.Kind == conf.Scalar {
		if r.off = n.Text == "off"; !r.off {
			d.Errs.Add(n.At, rememberHint, "%s is %q, want off or a mapping", path, n.Text)
		}
		return
	}
	if !d.Want(n, conf.Mapping, path) {
		return
	}
	d.Objects(n, path, r)
	switch {
	case r.Max < 0:
		d.Errs.Add(n.Place("max"), rememberHint, "%s.max is less than 0", path)
	case r.For != 0 && r.For < minRemember:
		d.Errs.Add(n.Place("for"), rememberHint, "%s.for is %s, less than a day", path, duration.Format(r.For))
	}
}

func (r *rememberSetting) retention() dedup.Retention {
	if r.off {
		return dedup.Retention{For: -1}
	}
	return dedup.Retention{For: r.For, Max: int64(r.Max)}
}
