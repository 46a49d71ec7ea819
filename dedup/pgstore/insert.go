package pgstore

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// insertSQL stores new events with their aliases and tasks. It leaves out those whose key has a
// record, or of which an alias or a former name has one: their rows come back without a
// generation. The sequence numbers follow the order of the claims; rows are inserted in the order
// of the hashes, so that two statements cannot wait for each other. If another process takes an
// alias at the same moment, the statement fails by the index of aliases, and nothing is stored.
//
// What must be looked up is looked up for all claims at once, and no subquery reads the rows of
// another one for each claim: batches are large.
const insertSQL = `WITH n AS MATERIALIZED (SELECT coalesce($1::timestamptz, now()) AS now),
a AS MATERIALIZED (SELECT * FROM unnest($2::int8[], $3::bytea[], $32::bool[]) AS a(ord, hash, own)),
taken AS MATERIALIZED (SELECT o.hash FROM {{schema}}.alias o WHERE o.hash = ANY($3)
  UNION ALL SELECT o.hash FROM {{schema}}.event o WHERE o.hash = ANY(ARRAY(SELECT a.hash FROM a WHERE NOT a.own)) AND o.current),
older AS MATERIALIZED (SELECT o.hash, max(o.generation) AS generation FROM {{schema}}.event o
  WHERE o.hash = ANY($5::bytea[]) AND NOT o.current GROUP BY o.hash),
c AS MATERIALIZED (SELECT x.*, coalesce(x.given, nextval('{{schema}}.seq')) AS seq FROM (
  SELECT * FROM unnest($4::int8[], $5::bytea[], $6::bytea[], $7::int8[], $8::bool[], $9::bool[], $10::bool[], $11::text[],
    $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bytea[], $18::bytea[], $19::bytea[], $20::bytea[], $21::int2[], $22::int4[])
  WITH ORDINALITY AS x(given, hash, fingerprint, win, hold, drop_body, newest, quarantine, producer, endpoint, type, key,
    vendor, about, extra, response, body, tasks, size, ord) ORDER BY ord) x),
e AS (INSERT INTO {{schema}}.event (seq, hash, current, generation, fingerprint, accepted, win, expires, tasks, hold, drop_body,
    newest, quarantine, producer, endpoint, type, key, vendor, about, extra, response, size, body)
  SELECT c.seq, c.hash, true, 1 + coalesce(o.generation, 0), c.fingerprint, n.now, c.win,
    CASE WHEN c.tasks = 0 AND c.quarantine IS NULL AND NOT c.newest THEN n.now + c.win * interval '1 microsecond' END,
    c.tasks, c.hold, c.drop_body, c.newest, c.quarantine, c.producer, c.endpoint, c.type, c.key, c.vendor, c.about,
    c.extra, c.response, c.size, c.body
  FROM n, c LEFT JOIN older o USING (hash) WHERE c.ord NOT IN (SELECT a.ord FROM a JOIN taken USING (hash)) ORDER BY c.hash
  ` + skipsKnown + ` RETURNING seq, generation),
l AS (INSERT INTO {{schema}}.alias (hash, seq) SELECT a.hash, c.seq FROM a JOIN c USING (ord) JOIN e USING (seq)
  WHERE a.own ORDER BY a.hash),
k AS MATERIALIZED (SELECT x.*, c.seq, CASE WHEN x.lease > 0 THEN coalesce(x.given, nextval('{{schema}}.token')) ELSE 0 END AS token,
    c.hold, c.drop_body, c.win, c.size
  FROM unnest($23::int8[], $24::int2[], $25::int2[], $26::int8[], $27::int8[], $28::text[], $29::text[], $30::bytea[], $31::text[],
    $33::text[], $34::bool[]) AS x(ord, idx, state, lease, given, handler, lanename, lane, reason, version, unfenced) JOIN c USING (ord) JOIN e ON e.seq = c.seq),
t AS (INSERT INTO {{schema}}.task (seq, idx, state, hold, drops, attempt, postponed, size, token, win, due, started, ended, until,
    expires, handler, lanename, lane, reason, err, version, unfenced)
  SELECT k.seq, k.idx, k.state, k.hold, k.drop_body, (k.lease > 0)::int, 0, k.size, k.token, k.win, n.now,
    CASE WHEN k.lease > 0 THEN n.now END, CASE WHEN k.state = 4 THEN n.now END,
    CASE WHEN k.lease > 0 THEN n.now + k.lease * interval '1 microsecond' END,
    CASE WHEN k.lease > 0 THEN n.now + (k.lease + k.win) * interval '1 microsecond' END,
    k.handler, k.lanename, k.lane, k.reason, '', k.version, k.unfenced
  FROM k, n)
SELECT c.ord, c.seq, e.generation, n.now, coalesce(k.token, 0)
FROM n, c LEFT JOIN e USING (seq) LEFT JOIN k ON k.seq = c.seq AND k.token > 0`

const skipsKnown = `ON CONFLICT (hash) WHERE current DO NOTHING`

// insertAllSQL fails by the index of events if another process has stored one of the keys. A COMMIT
// in the same round trip then does nothing.
var insertAllSQL = strings.Replace(insertSQL, skipsKnown, "", 1)

// insertion are the new events of one statement, one array a column.
type insertion struct {
	aliasOrd                        []int64
	aliasHash                       [][]byte
	aliasOwn                        []bool
	given                           []*int64
	hash, fingerprint, about, extra [][]byte
	response, body                  [][]byte
	win                             []int64
	hold, drop, newest              []bool
	quarantine, vendor              []*string
	producer, endpoint, kind, key   []string
	tasks                           []int16
	size                            []int32
	taskOrd, lease                  []int64
	idx, state                      []int16
	token                           []*int64
	handler, lanename, reason       []string
	lane                            [][]byte
	version                         []*string
	unfenced                        []bool
}

// add adds a record that [dedup.Accept] made at any time. A seq of zero takes the next number.
func (in *insertion) add(r *dedup.Record, hash []byte, seq int64) {
	push(&in.given, nonzero(seq))
	push(&in.hash, hash)
	p := &r.Payload
	body := p.Body
	if body == nil {
		body = []byte{}
	}
	push(&in.fingerprint, fingerprintOf(r))
	push(&in.about, packAbout(r))
	push(&in.extra, packExtra(r))
	push(&in.response, packResponse(&r.Response))
	push(&in.body, body)
	push(&in.win, r.Window.Microseconds())
	push(&in.hold, r.Hold)
	push(&in.drop, r.DropBody)
	push(&in.newest, r.Newest)
	push(&in.quarantine, optional(r.QuarantineReason))
	push(&in.vendor, optional(p.VendorID))
	push(&in.producer, text(p.Producer))
	push(&in.endpoint, text(p.Endpoint))
	push(&in.kind, text(p.Type))
	push(&in.key, text(r.Key.ID))
	push(&in.tasks, int16(len(r.Tasks)))
	push(&in.size, int32(len(p.Body)))
	for i := range r.Tasks {
		in.addTask(r, i, seq != 0)
	}
}

// fingerprintOf returns the fingerprint of a record, nil if there is none.
func fingerprintOf(r *dedup.Record) []byte {
	if r.Fingerprint == (dedup.Fingerprint{}) {
		return nil
	}
	return r.Fingerprint[:]
}

// addTask adds a task of the record that was added last.
func (in *insertion) addTask(r *dedup.Record, i int, numbered bool) {
	t := &r.Tasks[i]
	var lease int64
	var token *int64
	if t.State == dedup.Running {
		lease = t.Until.Sub(t.Started).Microseconds()
		if numbered {
			token = nonzero(int64(t.Token))
		}
	}
	push(&in.taskOrd, int64(len(in.hash)))
	push(&in.idx, int16(i))
	push(&in.state, int16(t.State))
	push(&in.lease, lease)
	push(&in.token, token)
	push(&in.handler, text(t.Handler))
	push(&in.lanename, text(t.Lane))
	push(&in.lane, laneOf(r, i))
	push(&in.reason, text(t.Reason))
	push(&in.version, optional(t.Version))
	push(&in.unfenced, t.Unfenced)
}

// push appends a value to a column.
func push[T any](column *[]T, value T) { *column = append(*column, value) }

// addAliases adds the aliases of the record that was added last, which nothing else may have, or
// names that are not its own.
func (in *insertion) addAliases(names []dedup.Key, own bool) {
	for _, name := range names {
		h := name.Hash()
		push(&in.aliasOrd, int64(len(in.hash)))
		push(&in.aliasHash, h[:])
		push(&in.aliasOwn, own)
	}
}

func (in *insertion) args(now *time.Time) []any {
	return []any{
		now, in.aliasOrd, in.aliasHash,
		in.given, in.hash, in.fingerprint, in.win, in.hold, in.drop, in.newest, in.quarantine,
		in.producer, in.endpoint, in.kind, in.key, in.vendor, in.about, in.extra, in.response,
		in.body, in.tasks, in.size,
		in.taskOrd, in.idx, in.state, in.lease, in.token, in.handler, in.lanename, in.lane, in.reason,
		in.aliasOwn, in.version, in.unfenced,
	}
}

// inserted is one row that insertSQL returns. generation is nil for an event that was left out.
type inserted struct {
	ord, seq   int64
	generation *int
	now        time.Time
	token      int64 // of a held claim
}

func collectInserted(rows pgx.Rows) ([]inserted, error) {
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (one inserted, err error) {
		err = r.Scan(&one.ord, &one.seq, &one.generation, &one.now, &one.token)
		one.now = one.now.UTC()
		return one, err
	})
}

func nonzero(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
