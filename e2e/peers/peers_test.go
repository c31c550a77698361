package main

import (
	"fmt"
	"path/filepath"
	"testing"
)

// Everybody who is measured keeps the promise: what is put is there once, also when it is put twice (where
// the peer has keys), and is worked once.
func TestPeersKeepTheirPromise(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "comanda")
	if err := build(t.Context(), exe); err != nil {
		t.Fatal(err)
	}
	for _, k := range append([]kind{comandaKind(exe, 0)}, others()...) {
		t.Run(k.name, func(t *testing.T) {
			x, err := k.open(t.Context(), filepath.Join(t.TempDir(), "peer.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := x.close(); err != nil {
					t.Error(err)
				}
			}()
			if rate, err := work(t.Context(), x, 10*perOrder); err != nil || rate <= 0 {
				t.Fatalf("%f tickets a second, %v", rate, err)
			}
		})
		t.Run(k.name+", put twice", func(t *testing.T) {
			x, err := k.open(t.Context(), filepath.Join(t.TempDir(), "peer.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := x.close(); err != nil {
					t.Error(err)
				}
			}()
			for range 2 {
				if err := x.put(t.Context(), order{"ORD-1"}); err != nil {
					t.Fatal(err)
				}
			}
			want := rows{put: perOrder, keys: perOrder}
			if k.noKeys {
				want.put *= 2 // what the table says that it does less
			}
			if err := check(t.Context(), x, want); err != nil {
				t.Error(err)
			}
		})
	}
}

// A ticket that is lost, doubled, or worked twice ends the run.
func TestCheckSees(t *testing.T) {
	x, err := openPlain(t.Context(), filepath.Join(t.TempDir(), "peer.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	if err := x.put(t.Context(), order{"ORD-1"}); err != nil {
		t.Fatal(err)
	}
	right := rows{put: 3, keys: 3}
	for want, ok := range map[rows]bool{
		right: true, {put: 6, keys: 6}: false, {put: 3, keys: 2}: false, {put: 3, keys: 3, done: 1, most: 1}: false,
	} {
		if err := check(t.Context(), x, want); (err == nil) != ok {
			t.Errorf("%+v against %+v: %v", want, right, err)
		}
	}
	if err := x.work(t.Context(), perOrder); err != nil {
		t.Fatal(err)
	}
	if _, err := x.db.ExecContext(t.Context(), `INSERT INTO external_effects_log (effect_key, order_id, occurred_at) SELECT effect_key, order_id, 0 FROM external_effects_log LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	if err := check(t.Context(), x, rows{put: 3, keys: 3, done: 3, most: 1}); err == nil {
		t.Error("a ticket that was worked twice was not seen")
	}
}

// A file that is not as safe as comanda's is not measured.
func TestPragmasAreReadBack(t *testing.T) {
	for i, p := range pragmas {
		if p.name != "synchronous" {
			continue
		}
		defer func() { pragmas[i] = p }()
		pragmas[i].set = "NORMAL"
		if db, err := openFile(t.Context(), filepath.Join(t.TempDir(), "peer.db")); err == nil {
			db.Close()
			t.Error("a file with synchronous=NORMAL was opened")
		}
	}
}

func TestRatioIsTheMedianOfTheRounds(t *testing.T) {
	if got := fmt.Sprint(ratio([]float64{10, 20, 90}, []float64{5, 5, 10}), " ", ratio([]float64{300}, []float64{10}), " ", median([]float64{1, 2, 3, 10})); got != "4.00 30.0 2.5" {
		t.Error(got)
	}
}
