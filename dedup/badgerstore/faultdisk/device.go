//go:build linux

package main

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"syscall"

	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

const (
	pageSize   = 4096
	sectorSize = 512 // the largest atomic write of a device
)

// device is a disk with a volatile cache. Reads see every write. A power cut keeps what was
// flushed and, of the writes since the last flush, any subset, each of them complete or torn.
type device struct {
	mu      sync.Mutex
	epoch   int        // number of power cuts; handles of earlier epochs fail
	off     bool       // after a power cut, until the disk is used again
	seen    []byte     // content for reads
	durable []byte     // flushed content
	pending []write    // since the last flush, in order
	failing []byte     // the next write that contains these bytes fails
	failIn  int        // countdown to the write that fails; 0 for none
	cutIn   int        // countdown to the write that cuts the power,
	depth   int        // once so many writes are not flushed
	chance  *rand.Rand // source of what a power cut loses
	stats   faultdisk.Stats
}

type write struct {
	at   int64
	data []byte
}

func newDevice(size int64) *device {
	return &device{seen: make([]byte, size), durable: make([]byte, size), chance: rand.New(rand.NewPCG(0, 0))}
}

func (d *device) read(epoch int, to []byte, at int64) (int, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch != d.epoch {
		return 0, syscall.EIO
	}
	return copy(to, d.seen[min(at, int64(len(d.seen))):]), 0
}

func (d *device) write(epoch int, data []byte, at int64) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch != d.epoch || at+int64(len(data)) > int64(len(d.seen)) {
		return syscall.EIO
	}
	if d.fails(data) {
		d.stats.Failed++
		return syscall.EIO
	}
	d.stats.Writes++
	w := write{at, bytes.Clone(data)}
	d.pending = append(d.pending, w)
	copy(d.seen[at:], data)
	if d.cutIn > 1 {
		d.cutIn--
	} else if d.cutIn == 1 && len(d.pending) >= d.depth {
		d.cut()
		return syscall.EIO
	}
	return 0
}

// fails reports whether this write must fail.
func (d *device) fails(data []byte) bool {
	if d.failIn > 0 {
		d.failIn--
		return d.failIn == 0
	}
	if len(d.failing) == 0 || !bytes.Contains(data, d.failing) {
		return false
	}
	d.failing = nil
	return true
}

func (d *device) flush(epoch int) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch != d.epoch {
		return syscall.EIO
	}
	d.stats.Flushes++
	for _, w := range d.pending {
		copy(d.durable[w.at:], w.data)
	}
	d.pending = nil
	return 0
}

// cut cuts the power, unless it is off. Each write that was not flushed is kept, dropped or
// torn at random. The caller holds d.mu.
func (d *device) cut() {
	if d.off {
		return
	}
	d.off = true
	chance := d.chance
	keep := chance.Float64() // from nearly everything to nearly nothing
	for _, w := range d.pending {
		switch luck := chance.Float64(); {
		case luck < 0.2:
			d.stats.Torn++
			tear(d.durable, w, chance)
		case chance.Float64() < keep:
			copy(d.durable[w.at:], w.data)
		default:
			d.stats.Dropped++
		}
	}
	for _, w := range d.pending {
		copy(d.seen[w.at:][:len(w.data)], d.durable[w.at:])
	}
	d.pending, d.failing, d.failIn, d.cutIn = nil, nil, 0, 0
	d.epoch++
	d.stats.Cuts++
}

// tear applies some sectors of w: those before a point, those after it, or any.
func tear(to []byte, w write, chance *rand.Rand) {
	unit := sectorSize
	if chance.IntN(2) == 0 {
		unit = pageSize
	}
	pieces := (len(w.data) + unit - 1) / unit
	at, way := chance.IntN(pieces+1), chance.IntN(3)
	for i := range pieces {
		if way == 0 && i >= at || way == 1 && i < at || way == 2 && chance.IntN(2) == 0 {
			continue
		}
		from := i * unit
		copy(to[w.at+int64(from):], w.data[from:min(len(w.data), from+unit)])
	}
}
