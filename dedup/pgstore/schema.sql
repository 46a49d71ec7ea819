-- Version 3 of the tables. {{schema}} is the quoted name of the schema.
-- There are no triggers, functions or foreign keys: the program writes all rows, and checks what it reads.

CREATE SEQUENCE {{schema}}.seq;    -- the order of acceptance, with gaps
CREATE SEQUENCE {{schema}}.token;  -- of leases: never used twice

-- One row for an event. It is written by the claim and rarely changed: what happens to the event is in the rows of task.
CREATE TABLE {{schema}}.event (
  seq         bigint      PRIMARY KEY,
  hash        bytea       NOT NULL,  -- of the key
  current     boolean     NOT NULL,  -- decides for its key; false of an older generation
  generation  integer     NOT NULL,
  fingerprint bytea,
  accepted    timestamptz NOT NULL,
  win         bigint      NOT NULL,  -- the window in microseconds
  expires     timestamptz,           -- when to sweep an event without tasks
  tasks       smallint    NOT NULL,  -- rows of task
  hold        boolean     NOT NULL,
  drop_body   boolean     NOT NULL,
  newest      boolean     NOT NULL,  -- of its series
  quarantine  text,                  -- the reason
  producer    text        NOT NULL,
  endpoint    text        NOT NULL,
  type        text        NOT NULL,
  key         text        NOT NULL,
  vendor      text,                  -- the sender's unsigned identifier
  about       bytea       NOT NULL,  -- the rest of key and payload
  extra       bytea,                 -- what few events have: aliases, an original, counts, a note
  response    bytea,
  size        integer     NOT NULL,  -- of the body
  body        bytea
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);
-- Bodies are small or compressed already; PostgreSQL's own compression would cost more than the disk.
ALTER TABLE {{schema}}.event ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX event_key ON {{schema}}.event (hash) WHERE current;
CREATE INDEX event_older ON {{schema}}.event (hash) WHERE NOT current;
CREATE INDEX event_expires ON {{schema}}.event (expires) WHERE expires IS NOT NULL;
-- Operators look for events by their identifiers, which can be longer than a row of an index.
CREATE INDEX event_id ON {{schema}}.event (hashtextextended(key, 0));
CREATE INDEX event_vendor ON {{schema}}.event (hashtextextended(vendor, 0)) WHERE vendor IS NOT NULL;
CREATE INDEX event_quarantine ON {{schema}}.event (seq) WHERE quarantine IS NOT NULL;

-- One row for a task: inserted by the claim, updated by the take and by the finish.
CREATE TABLE {{schema}}.task (
  seq       bigint   NOT NULL,
  idx       smallint NOT NULL,
  state     smallint NOT NULL,       -- 1 pending, 2 running, 3 done, 4 dead
  hold      boolean  NOT NULL,       -- held by the claimer, never taken
  drops     boolean  NOT NULL,       -- the event's drop_body
  attempt   integer  NOT NULL,
  postponed integer  NOT NULL,
  size      integer  NOT NULL,       -- of the event's body
  token     bigint   NOT NULL,
  win       bigint   NOT NULL,       -- the event's window
  due       timestamptz,
  started   timestamptz,
  ended     timestamptz,
  until     timestamptz,             -- the end of the lease
  expires   timestamptz,             -- when to sweep the event
  handler   text     NOT NULL,
  lanename  text     NOT NULL,
  lane      bytea,                   -- 1 if it yields, else 0, and a hash of endpoint, handler and lane
  reason    text     NOT NULL,
  err       text     NOT NULL,
  history   bytea,
  version   text,                    -- orders the events of the lane
  unfenced  boolean  NOT NULL,       -- runs although it may be older than its fence
  PRIMARY KEY (seq, idx)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX task_due ON {{schema}}.task (handler, due, seq, idx)
  WHERE state = 1 AND lane IS NULL AND NOT hold AND reason <> 'interrupted';
CREATE INDEX task_suspect ON {{schema}}.task (due, seq, idx)
  WHERE state = 1 AND lane IS NULL AND NOT hold AND reason = 'interrupted';
CREATE INDEX task_until ON {{schema}}.task (until) WHERE state = 2 AND lane IS NULL AND NOT hold;
CREATE INDEX task_lane ON {{schema}}.task (lane, seq, idx) WHERE state < 3 AND lane IS NOT NULL;
CREATE INDEX task_yields ON {{schema}}.task (lane, due, seq, idx) WHERE state = 1 AND lane >= '\x01';
-- Two tasks of a lane never run at once.
CREATE UNIQUE INDEX task_lane_running ON {{schema}}.task (lane) WHERE state = 2 AND lane IS NOT NULL;
CREATE INDEX task_held ON {{schema}}.task (seq) WHERE state < 3 AND hold;
CREATE INDEX task_dead ON {{schema}}.task (seq) WHERE state = 4;
CREATE INDEX task_expires ON {{schema}}.task (expires) WHERE expires IS NOT NULL;

-- The handlers of tasks, and when a receiver that has them was last seen.
CREATE TABLE {{schema}}.handler (
  name  text PRIMARY KEY,
  noted timestamptz NOT NULL,
  seen  timestamptz
) WITH (fillfactor = 50);

-- Small texts beside the events, such as how far a lane was handled.
CREATE TABLE {{schema}}.note (
  space text        NOT NULL,  -- of the key
  hash  bytea       NOT NULL,  -- of the key
  key   bytea       NOT NULL,
  note  text        NOT NULL,
  at    timestamptz NOT NULL,  -- of the last change
  PRIMARY KEY (space, hash)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX note_fence ON {{schema}}.note (at) WHERE space = 'fence';

-- Other names of events.
CREATE TABLE {{schema}}.alias (
  hash bytea  PRIMARY KEY,
  seq  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX alias_seq ON {{schema}}.alias (seq);

-- What is remembered of keys beyond their windows.
CREATE TABLE {{schema}}.trace (
  hash  bytea    PRIMARY KEY,  -- 16 bytes of the hash of the key
  day   integer  NOT NULL,     -- of the last acceptance, counted from 1970
  count smallint NOT NULL
);
CREATE INDEX trace_day ON {{schema}}.trace (day);
CREATE TABLE {{schema}}.remembered (
  since   integer NOT NULL,  -- the first day of the store
  evicted integer NOT NULL   -- the first day that is kept; 0 for all
);
INSERT INTO {{schema}}.remembered VALUES (extract(epoch FROM now())::bigint / 86400, 0);

-- A row while a copy of another store into these tables is not finished. Nothing else uses them until then.
CREATE TABLE {{schema}}.copy (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid()  -- of the call that copies
);
