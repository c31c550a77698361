-- Who sent an event, under which id of the sender's, and whether the clock could be believed then.

-- source is '' for /webhooks/orders and NAME for /webhooks/NAME/orders, whose ids all begin with NAME and a slash.
ALTER TABLE events ADD COLUMN source TEXT NOT NULL DEFAULT '' CONSTRAINT events_source CHECK (length(source) <= 20);
-- The webhook-id header of the first copy, without what does not belong into a log; '' when there was none.
ALTER TABLE events ADD COLUMN webhook_id TEXT NOT NULL DEFAULT '' CONSTRAINT events_webhook_id CHECK (length(webhook_id) <= 100);
-- Why the wall clock was not to be trusted when the event came, or ''. The age of its signature was then not looked at.
ALTER TABLE events ADD COLUMN clock_untrusted TEXT NOT NULL DEFAULT ''
  CONSTRAINT events_clock_untrusted CHECK (clock_untrusted IN ('', 'not synchronised', 'before the build', 'before the newest row'));

DROP VIEW events_v;
CREATE VIEW events_v AS SELECT event_id, order_id, CAST(body AS TEXT) AS body, outcome, differs,
  strftime('%Y-%m-%dT%H:%M:%fZ', received_at / 1000.0, 'unixepoch') AS received_at, seq, source, webhook_id, clock_untrusted FROM events;
