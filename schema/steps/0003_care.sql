-- What a file does for itself, and what it knows of processes that ended without a word.

-- One row a task of the file's own care and tick of its schedule: whoever puts it in runs the task, and nobody
-- runs it for that tick again.
CREATE TABLE task_runs (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  task         TEXT    NOT NULL CONSTRAINT task_runs_task CHECK (task <> ''),
  run_at       INTEGER NOT NULL,
  started_at   INTEGER NOT NULL,
  finished_at  INTEGER,
  outcome      TEXT CONSTRAINT task_runs_outcome CHECK (outcome <> ''),
  CONSTRAINT task_runs_once UNIQUE (task, run_at),
  CONSTRAINT task_runs_end_has_outcome CHECK ((finished_at IS NULL) = (outcome IS NULL))
) STRICT;

-- The processes that serve this file or carry its tickets out. One that stops takes its row away; a row whose
-- holder's lock nobody has is that of a process that was killed, or whose power was cut.
CREATE TABLE processes (
  holder      TEXT    NOT NULL PRIMARY KEY,
  pid         INTEGER NOT NULL,
  started_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What was found after processes had ended so, and what came of looking. checker is the holder that looks.
CREATE TABLE unclean_stops (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  found_at    INTEGER NOT NULL,
  checker     TEXT    NOT NULL CONSTRAINT unclean_stops_checker CHECK (checker <> ''),
  in_flight   TEXT    NOT NULL DEFAULT '[]' CONSTRAINT unclean_stops_in_flight CHECK (json_valid(in_flight)),
  -- places in the sequence that had been answered for and were not in the file when this was found
  missing     INTEGER NOT NULL DEFAULT 0 CONSTRAINT unclean_stops_missing CHECK (missing >= 0),
  checked_at  INTEGER,
  report      TEXT    NOT NULL DEFAULT '',
  damage      TEXT    NOT NULL DEFAULT '',
  -- rows that were answered for and are not there, and rows that say what others deny: looked for again at each start
  lost        INTEGER NOT NULL DEFAULT 0 CONSTRAINT unclean_stops_lost CHECK (lost >= 0),
  contradicts INTEGER NOT NULL DEFAULT 0 CONSTRAINT unclean_stops_contradicts CHECK (contradicts >= 0),
  CONSTRAINT unclean_stops_check_has_report CHECK ((checked_at IS NULL) = (report = ''))
) STRICT;
