package config

import (
	"reflect"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// rememberConf bounds what is remembered of events beyond their window: off, or for how long and how many.
type rememberConf struct {
	Node *node
	For  time.Duration `conf:"for"`
	Max  int           `conf:"max"`
	off  bool
}

const rememberHint = "write off, or {for: 90d, max: 2000000}"

func (r *rememberConf) decodeNode(d *decoder, n *node, path string) {
	if n.kind == scalar {
		if r.off = n.text == "off"; !r.off {
			d.add(n.at, rememberHint, "%s is %q, want off or a mapping", path, n.text)
		}
		return
	}
	if !d.want(n, mapping, path) {
		return
	}
	d.object(n, reflect.ValueOf(r).Elem(), path)
	switch {
	case r.Max < 0:
		d.add(n.place("max"), rememberHint, "%s.max is less than 0", path)
	case r.For != 0 && r.For < minRemember:
		d.add(n.place("for"), rememberHint, "%s.for is %v, less than a day", path, r.For)
	}
}

// minRemember is the shortest memory: it is kept in days.
const minRemember = 24 * time.Hour

// retention is what the settings say to a store.
func (r *rememberConf) retention() dedup.Retention {
	if r.off {
		return dedup.Retention{For: -1}
	}
	return dedup.Retention{For: r.For, Max: int64(r.Max)}
}
