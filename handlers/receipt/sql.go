package receipt

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// queries list the rows of which a receipt has its lines, table by table, in the order of the sequence. The program
// itself never runs them: they are for a person to run.
func queries(orderID string) []string {
	id := literal(orderID)
	tickets := "SELECT id FROM outbox WHERE aggregate_id = " + id
	return []string{
		"SELECT seq, received_at, event_id, outcome, differs, length(body) AS body_bytes, body FROM events WHERE order_id = " + id + " ORDER BY seq",
		"SELECT seq, decided_at, decision, credit_ok, credit_source, customer_id, amount, currency, event_id, category, priority FROM orders WHERE order_id = " + id,
		"SELECT seq, created_at, id, idempotency_key, effect_type, payload, status, processed_at, detail FROM outbox WHERE aggregate_id = " + id + " ORDER BY seq",
		"SELECT seq, begun_at, kind, id, ticket_id, target, address, ended_at, outcome, http_status, receipt, detail, closed_seq FROM attempts WHERE ticket_id IN (" + tickets + ") ORDER BY seq",
		"SELECT seq, occurred_at, id, effect_key, effect_type FROM external_effects_log WHERE order_id = " + id + " ORDER BY seq",
		"SELECT seq, created_at, effect_key, effect_type, how FROM ledger WHERE order_id = " + id + " ORDER BY seq",
		fmt.Sprintf("SELECT seq, at, action, who, subject, detail FROM operator_log WHERE (subject = %s AND substr(action, 1, 6) = 'order ')"+
			" OR (subject IN (SELECT 'ticket ' || id FROM outbox WHERE aggregate_id = %s) AND substr(action, 1, 7) = 'ticket ') ORDER BY seq", id, id),
	}
}

const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@+ "

// literal is a text for SQL. Whatever could mean something to SQL, to a shell or to a terminal is written as its
// bytes, since the query will be pasted by somebody who trusts it.
func literal(s string) string {
	if strings.Trim(s, plainLetters) == "" {
		return "'" + s + "'"
	}
	return "CAST(X'" + strings.ToUpper(hex.EncodeToString([]byte(s))) + "' AS TEXT)"
}
