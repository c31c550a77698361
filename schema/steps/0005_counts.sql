-- How many tickets have come to rest, kept beside them: nobody counts two million done ones to tell a page.

-- A ticket that is done, dead, in review or discarded counts for its type and state; what is pending or processing
-- is counted in its own index. Only the triggers below write here, so that it is right whoever writes the outbox.
CREATE TABLE ticket_counts (
  effect_type  TEXT    NOT NULL,
  status       TEXT    NOT NULL CONSTRAINT ticket_counts_status CHECK (status IN ('done', 'dead', 'review', 'discarded')),
  n            INTEGER NOT NULL, -- no CHECK: a count that somebody made wrong must keep no ticket from its end
  PRIMARY KEY (effect_type, status)
) STRICT, WITHOUT ROWID;
INSERT INTO ticket_counts (effect_type, status, n)
  SELECT effect_type, status, count(*) FROM outbox WHERE status NOT IN ('pending', 'processing') GROUP BY effect_type, status;

-- Which tickets at rest an INSERT is about to meet. A REPLACE takes them away without a word: no client runs a
-- trigger for a row that it replaces unless it asked for that. Empty but for an INSERT that then did nothing.
CREATE TABLE ticket_replaced (
  id           INTEGER NOT NULL PRIMARY KEY,
  effect_type  TEXT    NOT NULL,
  status       TEXT    NOT NULL
) STRICT;
CREATE TRIGGER outbox_meets BEFORE INSERT ON outbox
WHEN EXISTS (SELECT 1 FROM outbox WHERE idempotency_key = NEW.idempotency_key) OR EXISTS (SELECT 1 FROM outbox WHERE id = NEW.id)
BEGIN
  DELETE FROM ticket_replaced;
  INSERT INTO ticket_replaced (id, effect_type, status) SELECT id, effect_type, status FROM outbox
    WHERE (idempotency_key = NEW.idempotency_key OR id = NEW.id) AND status NOT IN ('pending', 'processing');
END;
CREATE TRIGGER outbox_replaced AFTER INSERT ON outbox WHEN EXISTS (SELECT 1 FROM ticket_replaced)
BEGIN
  UPDATE ticket_counts SET n = n - (SELECT count(*) FROM ticket_replaced AS r WHERE r.effect_type = ticket_counts.effect_type
    AND r.status = ticket_counts.status AND (r.id = NEW.id OR NOT EXISTS (SELECT 1 FROM outbox WHERE id = r.id)));
  DELETE FROM ticket_replaced;
END;
-- An UPDATE OR REPLACE would do the same, and nobody needs one.
CREATE TRIGGER outbox_replaces_none BEFORE UPDATE OF id, idempotency_key ON outbox
WHEN EXISTS (SELECT 1 FROM outbox WHERE idempotency_key = NEW.idempotency_key AND id <> OLD.id)
  OR EXISTS (SELECT 1 FROM outbox WHERE id = NEW.id AND id <> OLD.id)
BEGIN SELECT RAISE(ABORT, 'another ticket has that id or key'); END;

-- A ticket that is put on the rail or claimed fires none of these.
CREATE TRIGGER outbox_counts_new AFTER INSERT ON outbox WHEN NEW.status NOT IN ('pending', 'processing')
BEGIN
  INSERT INTO ticket_counts (effect_type, status, n) VALUES (NEW.effect_type, NEW.status, 1)
    ON CONFLICT (effect_type, status) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER outbox_counts_rest AFTER UPDATE OF id, status, effect_type ON outbox
WHEN NEW.status NOT IN ('pending', 'processing') AND (OLD.status <> NEW.status OR OLD.effect_type <> NEW.effect_type OR OLD.id <> NEW.id)
BEGIN
  INSERT INTO ticket_counts (effect_type, status, n) VALUES (NEW.effect_type, NEW.status, 1)
    ON CONFLICT (effect_type, status) DO UPDATE SET n = n + 1;
END;
-- What a person moves gets a place in the sequence too: whoever watches that sees that something happened. A claim
-- and an end bring their own place. One trigger does both, since each costs every claim and every end its question.
CREATE TRIGGER outbox_counts_stir AFTER UPDATE OF id, status, effect_type ON outbox
WHEN (OLD.status <> NEW.status OR OLD.effect_type <> NEW.effect_type OR OLD.id <> NEW.id)
  AND (OLD.status NOT IN ('pending', 'processing') OR OLD.claimed_seq = NEW.claimed_seq AND OLD.ended_seq = NEW.ended_seq)
BEGIN
  UPDATE sequence SET value = value + 1;
  UPDATE ticket_counts SET n = n - 1 WHERE effect_type = OLD.effect_type AND status = OLD.status;
  DELETE FROM ticket_replaced WHERE id = OLD.id;
END;
CREATE TRIGGER outbox_counts_gone AFTER DELETE ON outbox WHEN OLD.status NOT IN ('pending', 'processing')
BEGIN
  UPDATE ticket_counts SET n = n - 1 WHERE effect_type = OLD.effect_type AND status = OLD.status;
  DELETE FROM ticket_replaced WHERE id = OLD.id;
END;

-- Nobody but a person deletes a ticket.
CREATE TRIGGER outbox_gone_by_hand AFTER DELETE ON outbox
BEGIN UPDATE sequence SET value = value + 1; END;

-- The tickets of a type, newest first, however rare the type is. Every order pays for it once, when it is put on
-- the rail: neither column changes after that. It holds every ticket, and is partial so that only a list that
-- repeats these words uses it: to SQLite any index on a type looks as good as the one on an order's id.
CREATE INDEX outbox_effect_type ON outbox (effect_type, id) WHERE effect_type <> '';
-- The same among those that need a person or were given up; no order that goes well is ever in it.
CREATE INDEX outbox_aside ON outbox (status, effect_type, id) WHERE status IN ('dead', 'review', 'discarded');

-- How often an event came again after it was accepted. Noted in the background, so that a sender that repeats itself
-- costs no commit each: a kill may lose the last second of it, and nothing rests on it.
CREATE TABLE event_copies (
  event_id  TEXT    NOT NULL PRIMARY KEY,
  copies    INTEGER NOT NULL CONSTRAINT event_copies_some CHECK (copies > 0),
  first_at  INTEGER NOT NULL,
  last_at   INTEGER NOT NULL,
  seq       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
