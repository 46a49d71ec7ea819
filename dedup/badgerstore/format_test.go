package badgerstore

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/format2"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// A golden store was written by the first program of a format: testdata/formatN.tar.gz holds its
// directory twice, after a clean close and after a crash, and testdata/formatN.json what that
// program found in it. Every later program must find the same. Golden stores are written once, with
// EYELET_WRITE_FIXTURE set, by the program that introduces the format, and never overwritten.
const (
	goldenFiles   = "testdata/%s.tar.gz"
	goldenRecords = "testdata/%s.json"
)

// golden is the expected content.
type golden struct {
	Written time.Time      `json:"written"`
	Records []goldenRecord `json:"records"`
	Aliases []goldenAlias  `json:"aliases"`
	Seen    []dedup.Key    `json:"seen"` // remembered beyond the windows of their records
}

type goldenRecord struct {
	Record dedup.Record `json:"record"` // without its body
	Body   []byte       `json:"body"`   // one chunk of it
	Times  int          `json:"times"`  // how often the chunk is repeated
}

type goldenAlias struct {
	Key   dedup.Key `json:"key"`
	Event string    `json:"event"`
}

func goldenClock(at time.Time) *deduptest.Clock {
	clock := deduptest.NewClock()
	clock.Advance(at.Sub(clock.Now()))
	return clock
}

// TestAStoreOfAnOlderFormatIsOpenedWhole opens what the first program of each format wrote.
func TestAStoreOfAnOlderFormatIsOpenedWhole(t *testing.T) {
	t.Parallel()
	for format := 1; format <= formatVersion; format++ {
		name := fmt.Sprint("format", format)
		files, expectation := fmt.Sprintf(goldenFiles, name), fmt.Sprintf(goldenRecords, name)
		if os.Getenv("EYELET_WRITE_FIXTURE") != "" && format == formatVersion {
			writeGolden(t, files, expectation)
		}
		if _, err := os.Stat(expectation); errors.Is(err, fs.ErrNotExist) && format >= rowFormat {
			continue // it comes with the release that introduces the format
		}
		goldenOpens(t, name, format)
	}
}

// TestAStoreWithEveryKindOfRecordIsOpenedWhole opens stores with every kind of record of the
// formats 2 to 6, and backups of them. The golden stores of the formats are older and lack some.
// Those of the formats 3 to 6 were converted from the one before by the last program of their
// format, which then wrote to them.
func TestAStoreWithEveryKindOfRecordIsOpenedWhole(t *testing.T) {
	t.Parallel()
	for format := 2; format < formatVersion; format++ {
		name := fmt.Sprintf("format%d-every-kind", format)
		goldenOpens(t, name, format)
		goldenIsRestored(t, name)
	}
}

// goldenIsRestored restores the backup of a golden store.
func goldenIsRestored(t *testing.T, name string) {
	t.Helper()
	t.Run(name+" restored", func(t *testing.T) {
		t.Parallel()
		f, err := os.Open("testdata/" + name + ".backup.gz")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		zip, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		want, dir, o := readGolden(t, name), filepath.Join(t.TempDir(), "restored"), quiet()
		o.Clock = goldenClock(want.Written)
		if _, err := Restore(context.Background(), dir, o, zip); err != nil {
			t.Fatal(err)
		}
		compareGolden(t, open(t, dir, o), want)
	})
}

func readGolden(t *testing.T, name string) (want golden) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf(goldenRecords, name))
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// goldenOpens opens a golden store in both states and compares its content.
func goldenOpens(t *testing.T, name string, format int) {
	t.Helper()
	want := readGolden(t, name)
	for _, state := range []string{"closed", "crashed"} {
		t.Run(name+" "+state, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, fmt.Sprintf(goldenFiles, name), state, dir)
			if have, err := storedir.ReadFormat(dir); err != nil || have != format {
				t.Fatalf("format %d, %v", have, err)
			}
			o := quiet()
			o.Clock = goldenClock(want.Written)
			s := open(t, dir, o)
			if names, err := format2.Names(dir); err != nil || len(names) > 0 {
				t.Errorf("the old store has left %v, %v", names, err)
			}
			if id, unknown, err := storedir.ReadIdentity(dir); err != nil || unknown != "" || id != s.identity {
				t.Errorf("its identity is %q, and %q on disk (%s, %v)", s.identity, id, unknown, err)
			}
			compareGolden(t, s, want)
		})
	}
}

func compareGolden(t *testing.T, s *Store, want golden) {
	t.Helper()
	ctx := context.Background()
	got := everything(t, s)
	for _, g := range want.Records {
		r := g.Record
		r.Tasks = slices.Clone(r.Tasks)
		for i := range r.Tasks {
			r.Recover(i, want.Written, 0) // as any start does
		}
		have, there := got[r.Event]
		delete(got, r.Event)
		body := have.Payload.Body
		have.Payload.Body = nil
		if !there {
			t.Errorf("event %s of key %s is missing", r.Event, r.Key.ID)
		} else if diff := cmp.Diff(r, throughJSON(t, have)); diff != "" {
			t.Errorf("key %s: %s", r.Key.ID, diff)
		}
		sameBody(t, body, bytes.Repeat(g.Body, g.Times))
	}
	for _, r := range got {
		t.Errorf("event %s of key %s was not there", r.Event, r.Key.ID)
	}
	for _, a := range want.Aliases {
		c := claimOf("another")
		c.Aliases, c.OnlyKnown = []dedup.Key{a.Key}, true
		if d := mustClaim(t, s, c, dedup.Aliased); d.Record.Event != a.Event {
			t.Errorf("alias %s is of event %s, want %s", a.Key.ID, d.Record.Event, a.Event)
		}
	}
	for _, k := range want.Seen {
		c := claimOf("another")
		c.Key, c.Remember, c.OnlyKnown = k, &dedup.Remember{}, true
		mustClaim(t, s, c, dedup.Seen)
	}
	if r, err := s.Check(ctx); err != nil || !r.Sound() || r.Records != int64(len(want.Records)) ||
		r.Older != 1 || r.Pieces != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	newest := uint64(0)
	for _, g := range want.Records {
		newest = max(newest, g.Record.Seq)
	}
	if d := mustClaim(t, s, claimOf("another"), dedup.New); d.Record.Seq <= newest {
		t.Errorf("sequence %d was given out before", d.Record.Seq)
	}
}

// throughJSON returns a record as it is after it was written to the expectation and read again.
func throughJSON(t *testing.T, r dedup.Record) (out dedup.Record) {
	t.Helper()
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// writeGolden writes a store with one event of every kind, and its expectation.
func writeGolden(t *testing.T, files, expectation string) {
	t.Helper()
	if _, err := os.Stat(files); err == nil {
		t.Fatalf("%s exists: an earlier program wrote it, and it stays", files)
	}
	o, clock := quiet(), goldenClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	o.Clock, o.valueFile = clock, 2<<20
	s := open(t, t.TempDir(), o)
	g := fillGolden(t, s, clock)
	g.Written = clock.Now()
	for _, r := range everything(t, s) {
		body, times := r.Payload.Body, 1
		if len(body) > record.ChunkSize {
			body, times = body[:8], len(body)/8
		}
		r.Payload.Body = nil
		g.Records = append(g.Records, goldenRecord{Record: r, Body: body, Times: times})
	}
	text, err := json.Marshal(g)
	if err == nil {
		text = bytes.ReplaceAll(text, []byte(`{"record":`), []byte("\n"+`{"record":`))
		err = os.WriteFile(expectation, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	crashed := copyStore(t, s.dir)
	shut(t, s)
	pack(t, files, map[string]string{"closed": s.dir, "crashed": crashed})
}

// fillGolden stores one event of every kind.
func fillGolden(t *testing.T, s *Store, clock *deduptest.Clock) (g golden) {
	t.Helper()
	ctx := context.Background()
	claim := func(id string, change func(c *dedup.Claim)) dedup.Record {
		c := claimOf(id)
		c.Payload.Header = map[string][]string{"Content-Type": {"application/json"}, "X-Two": {"1", "2"}}
		c.Payload.Attributes = map[string]string{"source": "golden"}
		change(&c)
		return mustClaim(t, s, c, dedup.New).Record
	}
	finish := func(id string, res dedup.Result) {
		claim(id, func(*dedup.Claim) {})
		finishNext(t, s, 1, res)
	}
	finish("again", dedup.Result{Kind: dedup.ResultDead, Reason: "rejected", Err: "of the generation before"})
	clock.Advance(25 * time.Hour)
	again := claim("again", func(c *dedup.Claim) { c.Tasks, c.Note = nil, "no handler" })
	finish("done", dedup.Result{Kind: dedup.ResultDone})
	finish("dead", dedup.Result{Kind: dedup.ResultDead, Reason: "exhausted", Err: "of this generation"})
	finish("retried", dedup.Result{Kind: dedup.ResultRetry, After: time.Hour, Err: "later"})
	finish("postponed", dedup.Result{Kind: dedup.ResultRetry, After: time.Hour, Postponed: true})
	held := func(id string) dedup.Lease {
		c := claimOf(id)
		c.Hold, c.Lease, c.Response = true, time.Minute, dedup.Response{}
		return mustClaim(t, s, c, dedup.New).Lease
	}
	answer := dedup.Response{Status: 201, Header: map[string][]string{"Location": {"/1"}}, Body: []byte("made")}
	if err := s.Finish(ctx, held("answered"), dedup.Result{Kind: dedup.ResultDone, Response: answer}); err != nil {
		t.Fatal(err)
	}
	held("held")
	claim("dropped", func(c *dedup.Claim) { c.DropBody = true })
	claim("running", func(c *dedup.Claim) { c.Tasks = append(c.Tasks, dedup.NewTask{Handler: "second", Lane: "lane"}) })
	work, err := s.Take(ctx, dedup.Want{Tasks: 2, Bytes: 1 << 20, Lease: time.Hour})
	if err != nil || len(work) != 2 || work[0].Record.Key.ID != "dropped" {
		t.Fatal(len(work), err)
	}
	if err := s.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
		t.Fatal(err)
	}
	nonce := dedup.Key{Principal: "p", Space: dedup.SpaceNonce, ID: "n"}
	waits := claim("waits", func(c *dedup.Claim) { c.Aliases = []dedup.Key{nonce} })
	g.Aliases = []goldenAlias{{nonce, waits.Event}}
	claim("small", func(c *dedup.Claim) { c.Payload.Body, c.Payload.Header = []byte("{}"), nil })
	claim("large", func(c *dedup.Claim) {
		c.Payload.Body = bytes.Repeat([]byte("eyelet! "), (record.ChunkSize+1000)/8)
	})
	claim("aside", func(c *dedup.Claim) {
		c.Key.Space = dedup.SpaceQuarantine + "conflict"
		c.Quarantine = &dedup.Quarantine{Reason: "conflict", Of: again.Event}
	})
	fillGolden2(claim)
	return g
}

// fillGolden2 adds what format 2 introduced: a vendor's identifier, content that came twice
// under different identifiers, the newest content of a series and the one it superseded, and a
// key that is remembered beyond its window.
func fillGolden2(claim func(id string, change func(c *dedup.Claim)) dedup.Record) {
	for _, name := range []string{"first", "second"} {
		claim("occurs", func(c *dedup.Claim) {
			c.Payload.VendorID, c.Occurrence = name, &dedup.Occurrence{Name: name, Max: 3}
		})
	}
	for _, content := range []string{"series before", "series now"} {
		claim(content, func(c *dedup.Claim) {
			c.Series = dedup.Key{Principal: "p", Endpoint: "orders", Space: dedup.SpaceSeries, ID: "feed"}
		})
	}
	claim("remembered", func(c *dedup.Claim) { c.Tasks, c.Remember = nil, &dedup.Remember{} })
}

// pack writes directories into an archive. Runs of zeros, which Badger's logs are full of,
// compress to almost nothing.
func pack(t *testing.T, file string, dirs map[string]string) {
	t.Helper()
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(zip)
	for name, dir := range dirs {
		for f, size := range files(t, dir) {
			data, err := os.ReadFile(filepath.Join(dir, f))
			if err == nil {
				err = archive.WriteHeader(&tar.Header{Name: name + "/" + f, Size: size, Mode: 0o600})
			}
			if err == nil {
				_, err = archive.Write(data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(archive.Close(), zip.Close(), os.WriteFile(file, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// unpack extracts one directory of an archive, with holes where there are zeros.
func unpack(t *testing.T, file, name, to string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(zip)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if base, ok := strings.CutPrefix(h.Name, name+"/"); ok {
			if err := writeSparse(filepath.Join(to, base), archive, h.Size); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func writeSparse(path string, from io.Reader, size int64) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Truncate(size), f.Close()) }()
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; at += int64(len(block)) {
		n, err := io.ReadFull(from, block)
		if !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := f.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func TestOlderFormatsAreUpgradedOneByOne(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	mustClaim(t, s, claimOf("a"), dedup.New)
	dir := s.dir
	var steps []int
	fails := errors.New("power is gone")
	o := quiet()
	o.formats = formats{current: formatVersion + 2, steps: map[int]upgrade{
		formatVersion: {formatVersion + 1, func(*core, int) error { steps = append(steps, 1); return nil }},
		formatVersion + 1: {formatVersion + 2, func(*core, int) error {
			steps = append(steps, 2)
			err := fails
			fails = nil
			return err
		}},
	}}
	if _, err := Open(dir, o); err == nil || !strings.Contains(err.Error(), "in use") || len(steps) > 0 {
		t.Fatalf("while an older program uses it: %v after steps %v", err, steps)
	}
	shut(t, s)
	if _, err := Open(dir, o); err == nil || !strings.Contains(err.Error(), "power is gone") {
		t.Fatal(err)
	}
	if v, err := storedir.ReadFormat(dir); err != nil || v != formatVersion+1 {
		t.Errorf("after a crash in the second step: format %d, %v", v, err)
	}
	again := open(t, dir, o)
	mustClaim(t, again, claimOf("a"), dedup.Known)
	if diff := cmp.Diff([]int{1, 2, 2}, steps); diff != "" {
		t.Error(diff)
	}
	shut(t, again)
	before := files(t, dir)
	_, err := Open(dir, quiet())
	formatIs(t, err, FormatError{Dir: dir, Format: formatVersion + 2, Known: formatVersion}, "use the newer program")
	_, err = Check(context.Background(), dir, quiet())
	formatIs(t, err, FormatError{Dir: dir, Format: formatVersion + 2, Known: formatVersion}, "use the newer program")
	o.formats = formats{current: formatVersion + 4}
	_, err = Open(dir, o)
	formatIs(t, err, FormatError{Dir: dir, Format: formatVersion + 2, Known: formatVersion + 4}, "no longer opens")
	if diff := cmp.Diff(before, files(t, dir)); diff != "" {
		t.Errorf("a refused start changed the store: %s", diff)
	}
}

func formatIs(t *testing.T, err error, want FormatError, advice string) {
	t.Helper()
	var e *FormatError
	if !errors.As(err, &e) || *e != want || !strings.Contains(err.Error(), advice) ||
		!strings.Contains(err.Error(), fmt.Sprint(want.Format)) ||
		!strings.Contains(err.Error(), fmt.Sprint(want.Known)) {
		t.Errorf("%v, want %+v", err, want)
	}
}
