-- Who may look and act: accounts with passwords, the sessions of whoever has logged in, tokens of programs, and what
-- was tried. No password and no key stands here, only what tells whether one is right.

CREATE TABLE accounts (
  name        TEXT    NOT NULL PRIMARY KEY CONSTRAINT accounts_name CHECK (length(name) BETWEEN 1 AND 40),
  role        TEXT    NOT NULL CONSTRAINT accounts_role CHECK (role IN ('view', 'operate')),
  -- argon2id in the PHC string format
  password    TEXT    NOT NULL CONSTRAINT accounts_password CHECK (substr(password, 1, 10) = '$argon2id$'),
  created_at  INTEGER NOT NULL,
  changed_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- secret is the SHA-256 of what the browser holds. boot, born_ms and seen_ms are by the machine's own clock since it was
-- started, by which alone a session ends; begun_at and used_at are for eyes.
CREATE TABLE sessions (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  secret    BLOB    NOT NULL CONSTRAINT sessions_secret CHECK (length(secret) = 32),
  account   TEXT    NOT NULL REFERENCES accounts (name) ON DELETE CASCADE,
  address   TEXT    NOT NULL CONSTRAINT sessions_address CHECK (length(address) <= 100),
  agent     TEXT    NOT NULL CONSTRAINT sessions_agent CHECK (length(agent) <= 200),
  begun_at  INTEGER NOT NULL,
  used_at   INTEGER NOT NULL,
  boot      TEXT    NOT NULL CONSTRAINT sessions_boot CHECK (boot <> ''),
  born_ms   INTEGER NOT NULL,
  seen_ms   INTEGER NOT NULL,
  CONSTRAINT sessions_secret_once UNIQUE (secret)
) STRICT;
CREATE INDEX sessions_account ON sessions (account);

-- secret is the SHA-256 of the token.
CREATE TABLE tokens (
  name        TEXT    NOT NULL PRIMARY KEY CONSTRAINT tokens_name CHECK (length(name) BETWEEN 1 AND 40),
  role        TEXT    NOT NULL CONSTRAINT tokens_role CHECK (role IN ('view', 'operate')),
  secret      BLOB    NOT NULL CONSTRAINT tokens_secret CHECK (length(secret) = 32),
  created_at  INTEGER NOT NULL,
  used_at     INTEGER,
  CONSTRAINT tokens_secret_once UNIQUE (secret)
) STRICT, WITHOUT ROWID;

-- What logins an account or an address still owes for, as time that has to pass: debt_ms as it stood at asked_ms of that
-- boot. A row without debt is taken away.
CREATE TABLE login_debts (
  kind      TEXT    NOT NULL CONSTRAINT login_debts_kind CHECK (kind IN ('account', 'address')),
  subject   TEXT    NOT NULL CONSTRAINT login_debts_subject CHECK (length(subject) BETWEEN 1 AND 100),
  debt_ms   INTEGER NOT NULL CONSTRAINT login_debts_some CHECK (debt_ms > 0),
  boot      TEXT    NOT NULL CONSTRAINT login_debts_boot CHECK (boot <> ''),
  asked_ms  INTEGER NOT NULL,
  told      INTEGER NOT NULL DEFAULT 0 CONSTRAINT login_debts_told CHECK (told IN (0, 1)),
  PRIMARY KEY (kind, subject)
) STRICT, WITHOUT ROWID;
