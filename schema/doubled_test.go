package schema

import (
	"strings"
	"testing"
)

// Whatever any client does to the effects, those that stand more than once are noted.
func TestDoubledEffectsAreNoted(t *testing.T) {
	const (
		sqlDoubled = `SELECT group_concat(effect_key) FROM (SELECT effect_key FROM external_effects_log GROUP BY effect_key HAVING count(*) > 1)`
		sqlNoted   = `SELECT group_concat(effect_key) FROM (SELECT effect_key FROM effects_doubled AS d
			WHERE (SELECT count(*) FROM external_effects_log AS e WHERE e.effect_key = d.effect_key) > 1 ORDER BY effect_key)`
	)
	db, _ := newFile(t)
	effect := func(id, key, seq string) string {
		return insert("external_effects_log", "id", id, "effect_key", "'"+key+"'", "seq", seq)
	}
	seen := 0
	for _, statement := range []string{
		effect("1", "a", "0"), effect("2", "b", "7"), effect("3", "a", "8"), effect("4", "a", "0"), effect("5", "b", "0"),
		`DELETE FROM external_effects_log WHERE id IN (3, 4)`,
		`UPDATE external_effects_log SET effect_key = 'a' WHERE id = 2`,
		`UPDATE external_effects_log SET effect_key = 'c'`,
		`DELETE FROM external_effects_log WHERE id > 1`,
		strings.Replace(effect("1", "d", "9"), "INSERT", "REPLACE", 1),
		strings.Replace(effect("2", "d", "9"), "INSERT", "REPLACE", 1),
		strings.Replace(effect("1", "e", "0"), "INSERT", "REPLACE", 1),
	} {
		mustExec(t, db, statement)
		noted, doubled := look(t, db, sqlNoted), look(t, db, sqlDoubled)
		if noted != doubled {
			t.Fatalf("after %s: noted %s, doubled %s", statement, noted, doubled)
		}
		if doubled != "<nil>" {
			seen++
		}
		if n := look(t, db, `SELECT count(*) FROM external_effects_log WHERE seq = 0`); n != "0" {
			t.Fatalf("after %s: %s effects without a place in the sequence", statement, n)
		}
	}
	if seen < 5 {
		t.Fatalf("an effect was doubled after %d of the statements: this test sees little", seen)
	}
}
