package badgerstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// inFormat3 writes to a store of format 3, whose database is as it was.
func inFormat3(t *testing.T, dir string, change func(in *kv.View) []mutation) {
	t.Helper()
	s := newStore(dir, quiet())
	s.options.formats = formats{current: 3}
	finish, err := s.openToRead()
	if err != nil {
		t.Fatal(err)
	}
	var writes []mutation
	err = s.db.View(func(in *kv.View) error {
		writes = change(in)
		return s.db.Commit(in.Commit()+1, writes)
	})
	if err := errors.Join(err, finish()); err != nil {
		t.Fatal(err)
	}
}

// TestAConversionInPlaceMayEndAnywhere ends the process before each commit and each other step.
// The next start converts what is left. Once the store was changed the older program refuses it.
func TestAConversionInPlaceMayEndAnywhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"format3", "format3-every-kind"} {
		for _, state := range []string{"closed", "crashed"} {
			t.Run(name+" "+state, func(t *testing.T) {
				t.Parallel()
				dir, want, o := oldStore(t, name, state)
				o.load = 1          // each event has a commit of its own
				var images []string // empty for steps that are left out
				stopping := o
				stopping.backup = filepath.Join(t.TempDir(), "backup")
				stopping.step = func(at step) {
					i, every := len(images), 5*stride
					switch {
					case at != stepConvert:
					case i < 5 || i%every == 0 || i >= len(want.Records):
						images = append(images, image(t, dir))
					default:
						images = append(images, "")
					}
				}
				shut(t, open(t, dir, stopping))
				if len(images) < len(want.Records) {
					t.Fatalf("%d steps", len(images))
				}
				for i, dir := range images {
					if dir == "" {
						continue
					}
					text, err := os.ReadFile(filepath.Join(dir, storedir.FormatFile))
					if err != nil {
						t.Fatal(err)
					}
					begun := storedir.Converting(dir)
					if old := string(text) == "eyelet store 3\n"; old == begun || begun != (i > 1) {
						t.Errorf("step %d: it has begun: %v, the format file says %q", i, begun, text)
					}
					if format, err := storedir.ReadFormat(dir); err != nil || format != 3 {
						t.Errorf("step %d: format %d, %v", i, format, err)
					}
					_, err = Check(t.Context(), dir, o)
					if err == nil || !strings.Contains(err.Error(), "store convert") {
						t.Errorf("step %d: a check: %v", i, err)
					}
					o := o
					if i%2 == 0 {
						o.backup = stopping.backup
					}
					s := open(t, dir, o)
					compareGolden(t, s, want)
					shut(t, s)
					if storedir.Converting(dir) {
						t.Errorf("step %d: the conversion has not ended", i)
					}
				}
				o.backup = stopping.backup
				restoresGolden(t, o, want)
			})
		}
	}
}

func TestAConversionInPlaceHasANewIdentity(t *testing.T) {
	t.Parallel()
	dir, _, o := oldStore(t, "format3", "closed")
	before, _, err := storedir.ReadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s := open(t, dir, o); s.identity == before {
		t.Error("a backup of the converted store could continue one of the old store")
	}
}

// TestAConversionInPlaceRefusesWhatTheOlderProgramWould leaves the store to the older program.
func TestAConversionInPlaceRefusesWhatTheOlderProgramWould(t *testing.T) {
	t.Parallel()
	first := func(in *kv.View, family byte) []byte {
		it := in.Keys(nil, family)
		defer it.Close()
		return it.KeyCopy()
	}
	for name, tc := range map[string]struct {
		want   string
		spoil  func(in *kv.View) []mutation
		change func(o *Options)
		loss   bool // can be accepted
	}{
		"a missing event": {want: "are there", loss: true, spoil: func(in *kv.View) []mutation {
			return []mutation{{Key: first(in, record.FamilyEvent)}}
		}},
		"a missing alias": {want: "are there", loss: true, spoil: func(in *kv.View) []mutation {
			return []mutation{{Key: first(in, record.FamilyAlias)}}
		}},
		"an older state": {want: "newest state", loss: true, spoil: func(in *kv.View) []mutation {
			return []mutation{{Key: first(in, record.FamilyState)}}
		}},
		"space": {want: "free some space", change: func(o *Options) {
			o.statfs = func(string) (int64, int64, error) { return 40 << 20, 100 << 20, nil }
			o.segment = 64 << 20
		}},
		"backup": {want: "name another file", change: func(o *Options) {
			o.backup = filepath.Join("no", "directory", "b")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, _, o := oldStore(t, "format3-every-kind", "closed")
			if tc.spoil != nil {
				inFormat3(t, dir, tc.spoil)
			}
			refused := o
			if tc.change != nil {
				tc.change(&refused)
			}
			for range 2 {
				if _, err := Open(dir, refused); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatal(err)
				}
				if format, err := storedir.ReadFormat(dir); err != nil || format != 3 || storedir.Converting(dir) {
					t.Errorf("format %d, %v", format, err)
				}
			}
			o.AcceptLoss = tc.loss
			s := open(t, dir, o)
			if d := mustClaim(t, s, claimOf("new"), dedup.New); (d.Record.Seq > lostGap) != tc.loss {
				t.Errorf("sequence %d", d.Record.Seq)
			}
		})
	}
}

// TestDamageStaysThroughAConversion damages the events of a store of format 3.
func TestDamageStaysThroughAConversion(t *testing.T) {
	t.Parallel()
	dir, want, o := oldStore(t, "format3", "closed")
	keys := map[string][]byte{}
	for _, r := range want.Records {
		keys[r.Record.Key.ID] = record.HashOf(r.Record.Key).Key(record.FamilyEvent)
	}
	bad := func(value []byte) []byte {
		value = bytes.Clone(value)
		value[len(value)/2] ^= 1
		return value
	}
	inFormat3(t, dir, func(in *kv.View) []mutation {
		of := func(family byte, id string) ([]byte, []byte) {
			key := append([]byte{family}, keys[id][1:]...)
			value, err := in.Get(key)
			if err != nil || value == nil {
				t.Fatal(id, err)
			}
			return key, value
		}
		event, inEvent := of(record.FamilyEvent, "done")
		state, inState := of(record.FamilyState, "dead")
		return []mutation{{Key: event, Value: bad(inEvent)}, {Key: state, Value: bad(inState)}}
	})
	s := open(t, dir, o)
	r, err := s.Check(t.Context())
	states := map[string]string{}
	for _, d := range r.Damaged {
		states[d.Key] = d.State
	}
	if diff := cmp.Diff(map[string]string{
		record.KeyName(keys["done"]): "done", record.KeyName(keys["dead"]): "unknown",
	}, states); diff != "" || err != nil || r.Missing != "" || r.Records != int64(len(want.Records)) {
		t.Errorf("%s, %+v, %v", diff, r, err)
	}
	if _, r, err := s.Repair(t.Context()); err != nil || !r.Sound() {
		t.Errorf("%+v, %v", r, err)
	}
}
