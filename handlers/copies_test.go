package handlers

import (
	"strings"
	"testing"

	"comanda/store"
)

// Copies of an accepted event stand in the story of its order, counted; so does what was refused under its id.
func TestCopiesAreInTheStory(t *testing.T) {
	r := newRig(t)
	body := `{"event_id":"EVT-1","order_id":"ORD-1","customer_id":"CUS-7","amount":"1.00","currency":"MXN","line_items":[{"sku":"A","quantity":1}]}`
	for range 4 {
		r.post(body)
	}
	r.post(strings.Replace(body, `"1.00"`, `"2.00"`, 1)).problem(422, "event-id-reused")
	_ = r.srv.Close()
	var story store.Story
	err := r.db.View(t.Context(), func(tx *store.Tx) (err error) { story, err = tx.Story("ORD-1"); return err })
	if err != nil || len(story.Copies) != 1 || story.Copies[0].Copies != 3 || len(story.Refused) != 1 {
		t.Fatalf("%+v, %+v, %v", story.Copies, story.Refused, err)
	}
	told := ""
	for _, m := range story.Timeline {
		told += m.Text + "\n"
	}
	if !strings.Contains(told, "event EVT-1 came again: 3 times by then") || !strings.Contains(told, "a body under event EVT-1 was refused: event-id-reused") {
		t.Errorf("the story is\n%s", told)
	}
}
