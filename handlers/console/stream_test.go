package console

import (
	"bufio"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// listen opens a stream and passes its lines on; ended is closed when it is over.
func (s *shop) listen(after string) (lines chan string, ended chan struct{}) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), "GET", s.http.URL+"/events", nil)
	if err != nil {
		s.Fatal(err)
	}
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != streamedType {
		s.Fatalf("stream: %v, %v", res, err)
	}
	lines, ended = make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		defer res.Body.Close()
		for text := bufio.NewScanner(res.Body); text.Scan(); {
			lines <- text.Text()
		}
	}()
	return lines, ended
}

// wait returns the next line that begins so.
func wait(t *testing.T, lines <-chan string, prefix string) string {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case line := <-lines:
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-timeout:
			t.Fatalf("no line begins with %q", prefix)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
