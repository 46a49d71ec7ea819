package config

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// rateConf is a number of events in a time, such as 100/s.
type rateConf struct {
	events int
	per    time.Duration
	bare   bool // without its time, which is then a minute
}

const rateHint = "write 100/s, 6000/m or 3600/h"

// rateTimes are the times that a rate can be in.
var rateTimes = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

func (r *rateConf) decodeNode(d *decoder, n *node, path string) {
	if !d.want(n, scalar, path) {
		return
	}
	number, unit, spelt := strings.Cut(n.text, "/")
	r.bare, r.per = !spelt, time.Minute
	if spelt {
		r.per = rateTimes[strings.TrimSpace(unit)]
	}
	events, err := strconv.ParseUint(strings.TrimSpace(number), 10, 31)
	if err != nil || events == 0 || r.per == 0 {
		*r = rateConf{}
		d.add(n.at, rateHint, "%s is %q, want a number of events in a time", path, n.text)
		return
	}
	r.events = int(events)
}

// perMinute is the rate in events per minute, at least 1 where there is one.
func (r rateConf) perMinute() int {
	if r.events == 0 {
		return 0
	}
	return max(1, int(min(math.MaxInt32, int64(r.events)*int64(time.Minute)/int64(r.per))))
}
