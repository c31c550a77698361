-- The rail, the ledger, the measuring instrument, and what decides what goes on the rail.
-- Times are Unix milliseconds in UTC. seq is the place of a row in the one sequence over all tables.
-- Only what SQLite 3.37 knows is used, so that any client can read and write the public tables.

-- One row, bumped once a transaction by as much as the transaction handed out.
CREATE TABLE sequence (
  id     INTEGER NOT NULL PRIMARY KEY CONSTRAINT sequence_one_row CHECK (id = 1),
  value  INTEGER NOT NULL CONSTRAINT sequence_grows CHECK (value >= 0)
) STRICT;
INSERT INTO sequence (id, value) VALUES (1, 0);

-- The shared memory of which effects already happened.
CREATE TABLE ledger (
  effect_key   TEXT    NOT NULL PRIMARY KEY CONSTRAINT ledger_key CHECK (effect_key <> ''),
  order_id     TEXT    NOT NULL CONSTRAINT ledger_order CHECK (order_id <> ''),
  effect_type  TEXT    NOT NULL CONSTRAINT ledger_effect_type CHECK (effect_type <> ''),
  status       TEXT    NOT NULL CONSTRAINT ledger_status CHECK (status = 'done'),
  created_at   INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)),
  how          TEXT    NOT NULL DEFAULT 'by hand' CONSTRAINT ledger_how CHECK (how IN ('local', 'remote', 'by hand')),
  seq          INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_order_id ON ledger (order_id);

-- The ticket rail. A ticket is in exactly one state, and each state carries what belongs to it and nothing else.
CREATE TABLE outbox (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  aggregate_id     TEXT    NOT NULL CONSTRAINT outbox_aggregate CHECK (aggregate_id <> ''),
  effect_type      TEXT    NOT NULL CONSTRAINT outbox_effect_type CHECK (effect_type <> ''),
  payload          TEXT    NOT NULL,
  idempotency_key  TEXT    NOT NULL CONSTRAINT outbox_key_once UNIQUE CONSTRAINT outbox_key CHECK (idempotency_key <> ''),
  status           TEXT    NOT NULL DEFAULT 'pending' CONSTRAINT outbox_status
                   CHECK (status IN ('pending', 'processing', 'done', 'dead', 'review', 'discarded')),
  attempts         INTEGER NOT NULL DEFAULT 0 CONSTRAINT outbox_attempts CHECK (attempts >= 0),
  created_at       INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)),
  processed_at     INTEGER,
  due_at           INTEGER NOT NULL DEFAULT 0 CONSTRAINT outbox_due CHECK (due_at >= 0),
  claim_token      TEXT,
  lease_holder     TEXT,
  lease_ms         INTEGER,
  claimed_at       INTEGER,
  failures         INTEGER NOT NULL DEFAULT 0 CONSTRAINT outbox_failures CHECK (failures >= 0),
  crashes          INTEGER NOT NULL DEFAULT 0 CONSTRAINT outbox_crashes CHECK (crashes >= 0),
  detail           TEXT    NOT NULL DEFAULT '',
  seq              INTEGER NOT NULL DEFAULT 0,
  claimed_seq      INTEGER NOT NULL DEFAULT 0,
  ended_seq        INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT outbox_processing_is_claimed CHECK ((status = 'processing') = (claim_token IS NOT NULL)),
  CONSTRAINT outbox_processing_has_holder CHECK ((status = 'processing') = (lease_holder IS NOT NULL)),
  CONSTRAINT outbox_processing_has_lease  CHECK ((status = 'processing') = (lease_ms IS NOT NULL)),
  CONSTRAINT outbox_token_not_empty       CHECK (claim_token IS NULL OR claim_token <> ''),
  CONSTRAINT outbox_lease_positive        CHECK (lease_ms IS NULL OR lease_ms BETWEEN 1 AND 86400000),
  CONSTRAINT outbox_ended_has_time        CHECK ((status IN ('done', 'dead', 'discarded')) = (processed_at IS NOT NULL))
) STRICT;
-- What a claim reads: the heads of each effect type, due ones first; done tickets are not in it.
CREATE INDEX outbox_pending    ON outbox (effect_type, due_at, id) WHERE status = 'pending';
CREATE INDEX outbox_processing ON outbox (claim_token) WHERE status = 'processing';
CREATE INDEX outbox_dead       ON outbox (id) WHERE status = 'dead';
CREATE INDEX outbox_review     ON outbox (id) WHERE status = 'review';
CREATE INDEX outbox_discarded  ON outbox (id) WHERE status = 'discarded';
CREATE INDEX outbox_order_id   ON outbox (aggregate_id);

-- The world of the lab: a row is an effect that went out. Its key is deliberately not unique.
CREATE TABLE external_effects_log (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  effect_key   TEXT    NOT NULL CONSTRAINT effects_key CHECK (effect_key <> ''),
  effect_type  TEXT    NOT NULL CONSTRAINT effects_type CHECK (effect_type <> ''),
  order_id     TEXT    NOT NULL CONSTRAINT effects_order CHECK (order_id <> ''),
  occurred_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)),
  seq          INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX external_effects_log_key      ON external_effects_log (effect_key);
CREATE INDEX external_effects_log_order_id ON external_effects_log (order_id);

-- Every event that was accepted, with the raw bytes of its first copy.
CREATE TABLE events (
  event_id     TEXT    NOT NULL PRIMARY KEY CONSTRAINT events_id CHECK (length(event_id) BETWEEN 1 AND 100),
  order_id     TEXT    NOT NULL CONSTRAINT events_order CHECK (length(order_id) BETWEEN 1 AND 100),
  body         BLOB    NOT NULL,
  received_at  INTEGER NOT NULL,
  -- SHA-256 of the order that the event carries: the same id with another digest is another order.
  digest       BLOB    NOT NULL DEFAULT X'' CONSTRAINT events_digest CHECK (length(digest) IN (0, 32)),
  outcome      TEXT    NOT NULL DEFAULT 'decided' CONSTRAINT events_outcome CHECK (outcome IN ('decided', 'already_decided')),
  differs      TEXT    NOT NULL DEFAULT '[]',
  seq          INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX events_order_id ON events (order_id);
CREATE INDEX events_differing ON events (seq) WHERE differs <> '[]';

-- One row an order: decided once, never both ways.
CREATE TABLE orders (
  order_id     TEXT    NOT NULL PRIMARY KEY CONSTRAINT orders_id CHECK (length(order_id) BETWEEN 1 AND 100),
  event_id     TEXT    NOT NULL,
  customer_id  TEXT    NOT NULL,
  amount       TEXT    NOT NULL CONSTRAINT orders_amount CHECK (amount <> ''),
  currency     TEXT    NOT NULL CONSTRAINT orders_currency CHECK (length(currency) = 3),
  category     TEXT    NOT NULL,
  priority     TEXT    NOT NULL,
  credit_ok    INTEGER NOT NULL CONSTRAINT orders_credit_ok CHECK (credit_ok IN (0, 1)),
  decision     TEXT    NOT NULL CONSTRAINT orders_decision CHECK (decision IN ('refund', 'inventory')),
  decided_at   INTEGER NOT NULL,
  line_items   TEXT    NOT NULL DEFAULT '[]',
  seq          INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT orders_decision_follows_credit CHECK ((decision = 'inventory') = (credit_ok = 1))
) STRICT;

-- The local credit book: one limit for each customer and currency.
CREATE TABLE credit_limits (
  customer_id   TEXT    NOT NULL CONSTRAINT credit_customer CHECK (length(customer_id) BETWEEN 1 AND 100),
  currency      TEXT    NOT NULL CONSTRAINT credit_currency CHECK (length(currency) = 3),
  limit_amount  TEXT    NOT NULL CONSTRAINT credit_limit CHECK (limit_amount <> ''),
  updated_at    INTEGER NOT NULL,
  PRIMARY KEY (customer_id, currency)
) STRICT, WITHOUT ROWID;

-- One row a send: begun before it happens, ended with what it found out. An attempt without an end is unknown.
CREATE TABLE attempts (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  ticket_id    INTEGER NOT NULL REFERENCES outbox (id),
  claim_token  TEXT    NOT NULL CONSTRAINT attempts_token CHECK (claim_token <> ''),
  begun_at     INTEGER NOT NULL,
  ended_at     INTEGER,
  outcome      TEXT CONSTRAINT attempts_outcome CHECK (outcome <> ''),
  detail       TEXT    NOT NULL DEFAULT '',
  seq          INTEGER NOT NULL DEFAULT 0,
  ended_seq    INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT attempts_end_has_outcome CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT;
CREATE INDEX attempts_ticket_id ON attempts (ticket_id);

-- What was refused, bounded, so that nothing is lost in silence.
CREATE TABLE refused_bodies (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  received_at  INTEGER NOT NULL,
  problem      TEXT    NOT NULL,
  detail       TEXT    NOT NULL,
  event_id     TEXT,
  body         BLOB    NOT NULL CONSTRAINT refused_body_bounded CHECK (length(body) <= 4096),
  body_bytes   INTEGER NOT NULL,
  seq          INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Which relays work on this file. Whether one lives is told by its lock file, never by this table.
CREATE TABLE relays (
  holder        TEXT    NOT NULL PRIMARY KEY,
  pid           INTEGER NOT NULL,
  started_at    INTEGER NOT NULL,
  last_pass_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row: whether the relays of this file may claim.
CREATE TABLE relay_state (
  id      INTEGER NOT NULL PRIMARY KEY CONSTRAINT relay_state_one_row CHECK (id = 1),
  paused  INTEGER NOT NULL CONSTRAINT relay_state_paused CHECK (paused IN (0, 1)),
  touched INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO relay_state (id, paused) VALUES (1, 0);

-- What operators did. Append-only: the triggers below refuse anything else.
CREATE TABLE operator_log (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  at       INTEGER NOT NULL,
  who      TEXT    NOT NULL,
  action   TEXT    NOT NULL,
  subject  TEXT    NOT NULL DEFAULT '',
  detail   TEXT    NOT NULL DEFAULT '',
  seq      INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TRIGGER operator_log_no_update BEFORE UPDATE ON operator_log
BEGIN SELECT RAISE(ABORT, 'operator_log is append-only'); END;
CREATE TRIGGER operator_log_no_replace BEFORE INSERT ON operator_log WHEN EXISTS (SELECT 1 FROM operator_log WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'operator_log is append-only'); END;
CREATE TRIGGER operator_log_no_delete BEFORE DELETE ON operator_log
BEGIN SELECT RAISE(ABORT, 'operator_log is append-only'); END;

-- Rows that another client puts in by hand get their place in the sequence too.
CREATE TRIGGER outbox_by_hand AFTER INSERT ON outbox WHEN NEW.seq = 0
BEGIN
  UPDATE sequence SET value = value + 1;
  UPDATE outbox SET seq = (SELECT value FROM sequence) WHERE id = NEW.id;
END;
CREATE TRIGGER ledger_by_hand AFTER INSERT ON ledger WHEN NEW.seq = 0
BEGIN
  UPDATE sequence SET value = value + 1;
  UPDATE ledger SET seq = (SELECT value FROM sequence) WHERE effect_key = NEW.effect_key;
END;
CREATE TRIGGER external_effects_log_by_hand AFTER INSERT ON external_effects_log WHEN NEW.seq = 0
BEGIN
  UPDATE sequence SET value = value + 1;
  UPDATE external_effects_log SET seq = (SELECT value FROM sequence) WHERE id = NEW.id;
END;

-- The same rows with times as ISO 8601 text, for eyes.
CREATE VIEW outbox_v AS SELECT id, aggregate_id, effect_type, payload, idempotency_key, status, attempts,
  strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', processed_at / 1000.0, 'unixepoch') AS processed_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', claimed_at / 1000.0, 'unixepoch') AS claimed_at,
  due_at, claim_token, lease_holder, lease_ms, failures, crashes, detail, seq FROM outbox;
CREATE VIEW ledger_v AS SELECT effect_key, order_id, effect_type, status, how,
  strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created_at, seq FROM ledger;
CREATE VIEW external_effects_log_v AS SELECT id, effect_key, effect_type, order_id,
  strftime('%Y-%m-%dT%H:%M:%fZ', occurred_at / 1000.0, 'unixepoch') AS occurred_at, seq FROM external_effects_log;
CREATE VIEW events_v AS SELECT event_id, order_id, CAST(body AS TEXT) AS body, outcome, differs,
  strftime('%Y-%m-%dT%H:%M:%fZ', received_at / 1000.0, 'unixepoch') AS received_at, seq FROM events;
CREATE VIEW orders_v AS SELECT order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision,
  strftime('%Y-%m-%dT%H:%M:%fZ', decided_at / 1000.0, 'unixepoch') AS decided_at, line_items, seq FROM orders;
