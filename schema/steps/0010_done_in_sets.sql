-- Tickets that are done are counted a batch at a time.

-- Counting each one's end by itself was half of what the end cost. So whoever makes tickets done and gives them a new
-- place in the sequence, as the relay does, counts them in one statement of its own, in the same transaction; of all
-- else, by whatever client, the trigger keeps the counts as before. It is one now instead of two, since each asks every
-- claim and every end.
DROP TRIGGER outbox_counts_rest;
DROP TRIGGER outbox_counts_stir;
CREATE TRIGGER outbox_counts_move AFTER UPDATE OF id, status, effect_type ON outbox
WHEN (OLD.status <> NEW.status OR OLD.effect_type <> NEW.effect_type OR OLD.id <> NEW.id)
  AND (OLD.status NOT IN ('pending', 'processing') OR OLD.claimed_seq = NEW.claimed_seq AND OLD.ended_seq = NEW.ended_seq
    OR NEW.status NOT IN ('pending', 'processing') AND (NEW.status <> 'done' OR OLD.ended_seq = NEW.ended_seq))
BEGIN
  INSERT INTO ticket_counts (effect_type, status, n) SELECT NEW.effect_type, NEW.status, 1
    WHERE NEW.status NOT IN ('pending', 'processing') AND (NEW.status <> 'done' OR OLD.ended_seq = NEW.ended_seq)
    ON CONFLICT (effect_type, status) DO UPDATE SET n = n + 1;
  -- What a person moves gets a place in the sequence too: whoever watches that sees that something happened.
  UPDATE sequence SET value = value + 1
    WHERE OLD.status NOT IN ('pending', 'processing') OR OLD.claimed_seq = NEW.claimed_seq AND OLD.ended_seq = NEW.ended_seq;
  UPDATE ticket_counts SET n = n - 1 WHERE effect_type = OLD.effect_type AND status = OLD.status;
  DELETE FROM ticket_replaced WHERE id = OLD.id;
END;
