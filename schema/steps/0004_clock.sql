-- How the wall clock stood when a relay last looked: what waits keeps the length of its wait when it is set.

-- One row. offset_ms is the wall clock less the time since boot, in milliseconds; boot says which boot that was,
-- '' before the first look.
CREATE TABLE clock (
  id         INTEGER NOT NULL PRIMARY KEY CONSTRAINT clock_one_row CHECK (id = 1),
  boot       TEXT    NOT NULL DEFAULT '',
  offset_ms  INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO clock (id) VALUES (1);
