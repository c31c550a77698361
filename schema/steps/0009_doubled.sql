-- Which effects went out more than once, noted as they do: nobody looks through two million effects to tell a page that
-- none did.

-- Only the triggers below write here. A row that is deleted or replaced leaves its key, so whoever asks looks at the log
-- itself for each of these few.
CREATE TABLE effects_doubled (
  effect_key  TEXT  NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
INSERT INTO effects_doubled (effect_key) SELECT effect_key FROM external_effects_log GROUP BY effect_key HAVING count(*) > 1;

-- One trigger does both, since each costs every effect its question.
DROP TRIGGER external_effects_log_by_hand;
CREATE TRIGGER external_effects_log_new AFTER INSERT ON external_effects_log
WHEN NEW.seq = 0 OR EXISTS (SELECT 1 FROM external_effects_log WHERE effect_key = NEW.effect_key AND id <> NEW.id)
BEGIN
  UPDATE sequence SET value = value + 1 WHERE NEW.seq = 0;
  UPDATE external_effects_log SET seq = (SELECT value FROM sequence) WHERE id = NEW.id AND seq = 0;
  INSERT INTO effects_doubled (effect_key) SELECT effect_key FROM external_effects_log WHERE effect_key = NEW.effect_key AND id <> NEW.id LIMIT 1
    ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER external_effects_log_renamed AFTER UPDATE OF effect_key ON external_effects_log
WHEN EXISTS (SELECT 1 FROM external_effects_log WHERE effect_key = NEW.effect_key AND id <> NEW.id)
BEGIN
  INSERT INTO effects_doubled (effect_key) VALUES (NEW.effect_key) ON CONFLICT DO NOTHING;
END;
