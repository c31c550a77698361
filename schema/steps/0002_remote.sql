-- The world outside: where effects go, what each send found out, and what a person must hear of.

-- Where an effect goes is a property of the file. A row is written by the first process that gives a target
-- an address; from then on no process of this file simulates that effect.
CREATE TABLE targets (
  name              TEXT    NOT NULL PRIMARY KEY CONSTRAINT targets_name CHECK (name <> ''),
  mode              TEXT    NOT NULL DEFAULT 'lab' CONSTRAINT targets_mode CHECK (mode IN ('lab', 'real')),
  url               TEXT    NOT NULL DEFAULT '',
  -- why nothing is sent there: by an operator until an operator says otherwise, by an answer until the target answers otherwise
  paused            TEXT CONSTRAINT targets_paused CHECK (paused IN ('operator', 'answer')),
  paused_at         INTEGER,
  paused_why        TEXT    NOT NULL DEFAULT '',
  paused_credential BLOB,
  probe_at          INTEGER NOT NULL DEFAULT 0,
  -- until when the target asked to be left alone (425, 429)
  hold_until        INTEGER NOT NULL DEFAULT 0,
  -- since when it has not been reached; told by the process that found out, for other eyes
  offline_since     INTEGER,
  -- the address that has answered 2xx: there a 404 is about the effect, not about the address
  proven_url        TEXT    NOT NULL DEFAULT '',
  CONSTRAINT targets_paused_has_time CHECK ((paused IS NULL) = (paused_at IS NULL))
) STRICT, WITHOUT ROWID;

-- Body and key as they go over the wire, frozen with the first attempt and never changed.
ALTER TABLE outbox ADD COLUMN wire_body BLOB;
ALTER TABLE outbox ADD COLUMN wire_key  TEXT;
-- Lookups that could not be asked while the target was up.
ALTER TABLE outbox ADD COLUMN lookups   INTEGER NOT NULL DEFAULT 0 CONSTRAINT outbox_lookups CHECK (lookups >= 0);
CREATE TRIGGER outbox_wire_is_frozen BEFORE UPDATE OF wire_body, wire_key, idempotency_key ON outbox
WHEN OLD.wire_key IS NOT NULL AND (NEW.wire_key IS NOT OLD.wire_key OR NEW.wire_body IS NOT OLD.wire_body OR NEW.idempotency_key IS NOT OLD.idempotency_key)
BEGIN SELECT RAISE(ABORT, 'what was sent once can not be changed'); END;

-- 'claim': a claim that came to something without a send. 'send': bytes may have left. 'lookup': the target was asked.
ALTER TABLE attempts ADD COLUMN kind        TEXT    NOT NULL DEFAULT 'claim' CONSTRAINT attempts_kind CHECK (kind IN ('claim', 'send', 'lookup'));
ALTER TABLE attempts ADD COLUMN target      TEXT    NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN address     TEXT    NOT NULL DEFAULT '';
-- Which boot of the machine, and how long it had been up (milliseconds, suspend included): an age that needs no wall clock.
ALTER TABLE attempts ADD COLUMN boot        TEXT    NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN boot_ms     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN ended_boot_ms INTEGER NOT NULL DEFAULT 0;
-- How long the target was said to honour a key when this was sent, in milliseconds.
ALTER TABLE attempts ADD COLUMN key_ttl_ms INTEGER NOT NULL DEFAULT 0;
-- How long after its row bytes of it can have left at the most, in milliseconds.
ALTER TABLE attempts ADD COLUMN timeout_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN http_status INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN receipt     TEXT    NOT NULL DEFAULT '';
-- Not 0: somebody who could know has said what came of it (a lookup or a person), at that place in the sequence.
ALTER TABLE attempts ADD COLUMN closed_seq  INTEGER NOT NULL DEFAULT 0;
-- The unknown ones: what must be cleared up before anything else is sent for the ticket.
CREATE INDEX attempts_unknown ON attempts (ticket_id) WHERE kind = 'send' AND closed_seq = 0 AND (outcome IS NULL OR outcome = 'unknown');
-- The newest send that we know happened, for each target: what a lookup must find if it is to be believed.
CREATE INDEX attempts_done ON attempts (target, id) WHERE kind = 'send' AND outcome = 'done';

-- An order whose line was rejected: the other lines are taken back, then the deposit is returned.
ALTER TABLE orders ADD COLUMN compensating  INTEGER NOT NULL DEFAULT 0 CONSTRAINT orders_compensating CHECK (compensating IN (0, 1));
-- Who said whether there is credit: the local book, a source outside, or the book because that source was silent.
ALTER TABLE orders ADD COLUMN credit_source TEXT    NOT NULL DEFAULT '';

-- What a person was told of, and is told of again while it lasts. One row a cause.
CREATE TABLE alerts (
  cause     TEXT    NOT NULL PRIMARY KEY CONSTRAINT alerts_cause CHECK (cause <> ''),
  since     INTEGER NOT NULL,
  told_at   INTEGER NOT NULL DEFAULT 0,
  times     INTEGER NOT NULL DEFAULT 0 CONSTRAINT alerts_times CHECK (times >= 0),
  detail    TEXT    NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX orders_compensating ON orders (order_id) WHERE compensating = 1;
-- What was done to one thing, for its story.
CREATE INDEX operator_log_subject ON operator_log (subject);
