package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// Repair describes what was done about one damaged value.
type Repair struct {
	// Key is the key of the value in the store, as in [Damage].
	Key string `json:"key"`
	// Event is the id of the event that it belongs to, if known: a new one if the old one is lost.
	Event string `json:"event,omitempty"`
	// Done describes the repair.
	Done string `json:"done"`
}

const (
	repairedWhole  = "written again, nothing is lost"
	repairedState  = "the state is lost, the payload is kept"
	repairedBody   = "the payload is lost, the state is kept"
	repairedAll    = "payload and state are lost, the key stays known"
	repairedAlias  = "the alias belongs to its event again"
	repairedNote   = "the note is gone: what it said counts as never noted"
	repairedTrace  = "the key is remembered as one that was accepted"
	repairedOrphan = "it belongs to no event and is deleted"
	repairedNot    = "nothing can be done: restore a backup"
)

// RepairDir is [Store.Repair] for an existing store in dir, which no process may have open. A sound
// store, or one with a damaged table, is only checked, as by [Check]. Options are those of [Open].
func RepairDir(ctx context.Context, dir string, o Options) (done []Repair, report Report, err error) {
	before, err := Check(ctx, dir, o)
	if err != nil || len(before.Damaged) == 0 || before.Tables != "" {
		return nil, before, err
	}
	s, err := Open(dir, o)
	if err != nil {
		return nil, before, err
	}
	// Values that opening the store has rewritten are sound by now and left alone.
	done, report, err = (&repairer{s.core}).repair(ctx, before)
	return done, report, errors.Join(err, s.Close())
}

type repairer struct{ *core }

// repair repairs what a check found, and checks again if there was anything.
func (r *repairer) repair(ctx context.Context, before Report) ([]Repair, Report, error) {
	out := []Repair{}
	if len(before.Damaged) == 0 {
		return out, before, nil
	}
	owners, err := r.aliasOwners(ctx, before.Damaged)
	if err != nil {
		return nil, before, err
	}
	for _, d := range before.Damaged {
		o := &repairOp{ticket: newTicket(false), owners: owners, repair: Repair{Key: d.Key, Event: d.Event}}
		o.bytes = record.InlineMost // of a value that is rewritten from memory
		if o.key, err = record.ParseKeyName(d.Key); err != nil {
			return out, before, err
		}
		if err := r.do(ctx, o); err != nil {
			return out, before, fmt.Errorf("repairing %s: %w", d.Key, err)
		}
		r.log.Warn("damaged value repaired", "dir", r.dir, "key", d.Key, "event", o.repair.Event, "done", o.repair.Done)
		out = append(out, o.repair)
	}
	if err := r.do(ctx, &countOp{ticket: newTicket(false)}); err != nil {
		return out, before, err
	}
	after, err := r.check(ctx, 0) // replaces the known damage
	return out, after, err
}

// aliasOwners finds the events of damaged aliases, because events list their aliases.
func (r *repairer) aliasOwners(ctx context.Context, all []Damage) (map[record.Hash]record.Alias, error) {
	wanted := map[record.Hash]record.Alias{}
	for _, d := range all {
		key, err := record.ParseKeyName(d.Key)
		if err == nil && key[0] == record.FamilyAlias && len(key) == record.KeySize {
			wanted[record.Hash(key[1:])] = record.Alias{}
		}
	}
	if len(wanted) == 0 {
		return wanted, nil
	}
	return wanted, r.eachPage(ctx, func(in *kv.View, p record.Place) {
		r, err := r.readRow(in, p)
		if r == nil || err != nil {
			return
		}
		rec, err := r.record()
		if err != nil {
			return
		}
		for _, a := range rec.Aliases {
			if old, ok := wanted[record.HashOf(a)]; ok && old.Seq < rec.Seq { // the newest event has it
				wanted[record.HashOf(a)] = record.Alias{Hash: p.Hash, Seq: rec.Seq}
			}
		}
	})
}

type repairOp struct {
	ticket
	key    []byte
	owners map[record.Hash]record.Alias
	repair Repair
}

func (o *repairOp) apply(b *batch) (err error) {
	if b.disk.frozen() {
		return b.disk.err()
	}
	o.repair.Done = repairedNot
	family, size := o.key[0], len(o.key)
	switch {
	case family == record.FamilyEvent && size == record.KeySize,
		family == record.FamilyOlder && size == record.OlderKeySize:
		return o.repairEvent(b, record.PlaceOf(o.key))
	case family == record.FamilyAlias && size == record.KeySize:
		h := record.Hash(o.key[1:])
		owner := o.owners[h]
		if owner.Seq == 0 {
			o.repair.Done = repairedOrphan
			b.dropAlias(h)
		} else {
			o.repair.Done, o.repair.Event = repairedAlias, record.EventID(owner.Hash, owner.Seq)
			b.putAlias(h, owner)
		}
	case family == record.FamilyTrace && size == record.TraceKeySize:
		o.repair.Done = repairedTrace
		b.putTrace(record.TraceID(o.key[1:]), assumedTrace(b.now))
	case family == record.FamilyNote && size == record.KeySize:
		o.repair.Done = repairedNote
		swap(&b.oldNotes, b.notes, record.Hash(o.key[1:]), noteEntry{dirty: true})
	}
	return nil
}

func (o *repairOp) repairEvent(b *batch, p record.Place) error {
	if r, err := b.at(p); err == nil && r != nil { // in memory, sound by now, or without its body
		next := r.edit()
		next.fresh, next.before = true, r.tally()
		o.repair.Event, o.repair.Done = r.rec.Event, repairedWhole
		if _, err := r.body(b.c.db); err != nil {
			b.dropBody(r)
			next.event, o.repair.Done = r.event.WithoutBody(record.BodyLost), repairedBody
			b.failTasks(&next.rec, repairedBody, false)
		}
		b.put(next)
		return nil
	}
	b.uncounted = true // countOp recounts
	rest := salvage(b.c.core, p)
	next := &row{place: p, rec: rest.rec, dirty: true, fresh: true}
	if p.Older == 0 {
		next.name = rest.name
	}
	switch {
	case rest.event != nil:
		next.event, o.repair.Done = *rest.event, repairedState
		if b.rebuild(p, &next.rec); next.rec.Seq != rest.rec.Seq {
			next.event = next.event.WithoutBody(record.BodyLost)
		}
	case rest.state:
		next.event, o.repair.Done = record.NewEvent(&rest.claim, record.BodyLost), repairedBody
	default:
		next.event, o.repair.Done = record.NewEvent(&rest.claim, record.BodyLost), repairedAll
		b.rebuild(p, &next.rec)
	}
	next.rec.Event = record.EventID(p.Hash, next.rec.Seq)
	if err := b.dropOwnerless(next); err != nil {
		return err
	}
	if p.Older == 0 {
		next.rec.Generation = max(next.rec.Generation, b.lastGeneration(p.Hash)+1)
	}
	next.rec.Payload.Endpoint = rest.claim.Payload.Endpoint
	next.rec = withoutDescription(next.rec)

	b.failTasks(&next.rec, o.repair.Done, o.repair.Done != repairedBody)
	b.put(next)
	o.repair.Event = next.rec.Event
	return nil
}

// dropOwnerless deletes the large bodies under the key of an event that belong to no event: neither
// to it nor to another one of its key, which may be damaged as well.
func (b *batch) dropOwnerless(owner *row) error {
	h := owner.place.Hash
	return b.c.db.View(func(in *kv.View) error {
		for item := range in.Items(nil, h.Key(record.FamilyBody)...) {
			key := item.KeyCopy()
			_, seq := record.ParseBodyKey(key)
			owned := seq == owner.rec.Seq && owner.event.Kind == record.BodyApart
			for _, p := range [...]record.Place{{Hash: h}, {Hash: h, Older: seq}} {
				if p != owner.place {
					r, err := b.c.readRow(in, p)
					owned = owned || err != nil || r != nil && r.rec.Seq == seq
				}
			}
			if !owned {
				b.bodies = append(b.bodies, mutation{Key: key})
			}
		}
		return nil
	})
}

// rebuild completes an event without a valid state: its key stays known with a sequence, the
// default window, and a task that an operator sees.
func (b *batch) rebuild(p record.Place, r *dedup.Record) {
	switch {
	case p.Older != 0:
		r.Seq = p.Older
	case r.Seq == 0 || r.Seq > b.c.meta.Seq:
		b.seq++
		r.Seq = b.seq
	}
	*r = dedup.Record{Seq: r.Seq, Accepted: b.now, Window: dedup.DefaultWindow, Generation: 1,
		Tasks: []dedup.Task{{Handler: "unknown", State: dedup.Pending, Due: b.now}}}
}

// failTasks turns open tasks into dead letters. It leaves a held claim alone, because the next
// delivery brings the payload again, unless it is unsure whether the claim was answered.
func (b *batch) failTasks(r *dedup.Record, why string, unsure bool) {
	r.Note = "damaged in the store: " + why
	if r.Hold && !unsure {
		return
	}
	for i := range r.Tasks {
		before := r.Tasks[i]
		if !before.Open() {
			continue
		}
		b.token++
		lease := r.Start(i, b.token, b.now, time.Minute)
		r.Tasks[i].Attempt, r.Tasks[i].Started = before.Attempt, before.Started // it was not run for this
		res := dedup.Result{Kind: dedup.ResultDead, Reason: reasonDamaged, Err: "stored values were damaged: " + why}
		_ = r.Finish(nil, lease, res, b.now) // a lease of this moment is held
		r.Tasks[i].History = before.History
	}
}

// countOp recounts all events and finds the newest.
type countOp struct{ ticket }

func (o *countOp) apply(b *batch) error {
	found, err := surveyAll(b.c.core, func(*row) {})
	if err != nil {
		return err
	}
	b.always, b.recounted = true, &recount{found.census, found.total.Counts}
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.c.recent = found.newest
	return nil
}

// salvaged is the rest of an event with a damaged value or content.
type salvaged struct {
	event *record.Event // the event as claimed, if it is valid
	state bool          // the state is valid
	rec   dedup.Record  // the state; else its sequence, as far as it is known
	name  record.Name   // the same
	claim dedup.Claim   // key, aliases and description, as far as they are known
}

// salvage reads what is left at a place. It uses no damaged state, and a damaged content only if
// its key hashes to its place: most damage is in the payload.
func salvage(c *core, p record.Place) (left salvaged) {
	key := p.Key()
	value, content, _ := c.db.Read(key) // of a damaged content it returns what there is
	var first dedup.Record
	event, seq, err := record.DecodeEvent(key, content)
	sound := err == nil
	if !sound {
		event, seq, err = record.DecodeEvent(key, record.ResealContent(key, content))
	}
	if err == nil && event.Describe(p, &first) == nil && (sound || record.HashOf(first.Key) == p.Hash) {
		left.known(&first)
		left.rec.Seq = seq
	} else {
		sound = false
	}
	if r, err := c.stateRow(key, value); err == nil {
		left.state, left.rec, left.name = true, r.rec, r.name
	} else if sound {
		left.event = &event
	}
	return left
}

func (left *salvaged) known(r *dedup.Record) {
	left.name = record.NameOf(r.Key, r.Aliases)
	left.claim = dedup.Claim{Key: r.Key, Aliases: r.Aliases, Payload: dedup.Payload{
		Producer: r.Payload.Producer, Endpoint: r.Payload.Endpoint, Type: r.Payload.Type,
	}}
}
