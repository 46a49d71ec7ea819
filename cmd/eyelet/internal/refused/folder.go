package refused

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

const (
	sweepInterval = time.Minute
	closePatience = 2 * time.Second // for the files of the last deliveries
	block         = 4 << 10         // bytes that a file takes at least on disk
	nameTime      = "20060102T150405.000Z"
)

// fileName matches the names of our files. Others in the folder are left alone.
var fileName = regexp.MustCompile(`^(\d{8}T\d{6}\.\d{3}Z)-\d+\.http$`)

// folder writes the entries of a ring to files: TIME-NUMBER.http, readable by their owner only. One
// goroutine does, and the ring is its queue: an entry that was displaced before is counted.
type folder struct {
	ring  *Ring
	dir   string
	log   *slog.Logger
	added chan struct{} // has an element when there may be entries to write
	end   chan struct{}
	ended chan struct{}

	// Only the goroutine uses these.
	files   []file // the oldest first
	space   space
	next    uint64 // the number to write
	failing bool   // the last file could not be written, and this was logged
}

// file is one of our files.
type file struct {
	name string
	time time.Time
	part *part // in whole blocks
}

// openFolder makes the folder, finds the files in it, and starts the goroutine.
func openFolder(r *Ring, o Options) (*folder, error) {
	f := &folder{
		ring: r, dir: o.Dir, space: newSpace(o.Max), log: o.Log, next: 1,
		added: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, err
	}
	found, err := os.ReadDir(f.dir) // in the order of their names, which is that of their times
	if err != nil {
		return nil, err
	}
	for _, entry := range found {
		m := fileName.FindStringSubmatch(entry.Name())
		if m == nil || !entry.Type().IsRegular() {
			continue
		}
		at, err := time.Parse(nameTime, m[1])
		info, infoErr := entry.Info()
		if err == nil && infoErr == nil {
			// Those of earlier processes are as of one network.
			f.files = append(f.files, file{entry.Name(), at, f.space.add(group{}, rankEndpoint, blocks(info.Size()))})
		}
	}
	go f.run()
	return f, nil
}

func blocks(size int64) int64 { return max(1, (size+block-1)/block) * block }

// notify reports that there are entries to write. It never blocks.
func (f *folder) notify() {
	select {
	case f.added <- struct{}{}:
	default:
	}
}

// close writes the remaining entries, if that is quick.
func (f *folder) close() error {
	close(f.end)
	select {
	case <-f.ended:
		return nil
	case <-time.After(closePatience):
		return fmt.Errorf("%s: the files of the last refused deliveries are not complete", f.dir)
	}
}

func (f *folder) run() {
	defer close(f.ended)
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for {
		f.report(f.sweep(time.Now()))
		select {
		case <-f.added:
			f.writeAll()
		case <-sweep.C:
		case <-f.end:
			f.writeAll()
			return
		}
	}
}

// writeAll writes the entries that were added.
func (f *folder) writeAll() {
	for e := f.ring.from(f.next); e != nil; e = f.ring.from(f.next) {
		for ; f.next < e.number; f.next++ { // displaced before
			f.ring.lost()
		}
		f.next++
		if err := f.write(e); err != nil {
			f.ring.lost()
			f.report(err)
		} else {
			f.failing = false
		}
	}
}

// report logs the first of several errors in a row.
func (f *folder) report(err error) {
	if err != nil && !f.failing {
		f.log.Warn("the folder of refused deliveries cannot be kept; those without a file are counted",
			"folder", f.dir, "error", err)
		f.failing = true
	}
}

// write writes an entry, after other files have made room for it.
func (f *folder) write(e *entry) error {
	d := e.detail(f.ring.rules.Load())
	rec, err := d.Recording()
	if err != nil {
		return err
	}
	data := rec.Bytes()
	written := file{
		fmt.Sprintf("%s-%d.http", d.Time.Format(nameTime), d.Number), d.Time,
		f.space.add(e.group, rankOf(&e.Refused), blocks(int64(len(data)))),
	}
	if err = f.sweep(e.Time); err == nil {
		err = writeNew(filepath.Join(f.dir, written.name), data)
	}
	if err != nil {
		f.space.remove(written.part)
		return err
	}
	f.files = append(f.files, written)
	return nil
}

// writeNew writes a file that did not exist, or leaves none.
func writeNew(path string, data []byte) error {
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		_ = os.Remove(path) // best effort
	}
	return err
}

// sweep deletes files that are too old, and others while they use too much.
func (f *folder) sweep(now time.Time) error {
	for len(f.files) > 0 {
		i := 0
		if now.Sub(f.files[0].time) <= f.ring.For {
			if f.space.bytes <= f.space.most {
				return nil
			}
			i = f.space.victim(len(f.files), func(i int) *part { return f.files[i].part })
		}
		if err := os.Remove(filepath.Join(f.dir, f.files[i].name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.space.remove(f.files[i].part)
		f.files = slices.Delete(f.files, i, i+1)
	}
	if f.space.bytes > f.space.most {
		return fmt.Errorf("a delivery of %d bytes is larger than refused.max", f.space.bytes)
	}
	return nil
}
