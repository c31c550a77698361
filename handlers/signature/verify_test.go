package signature

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Secrets as a sender would have them; the second replaces the first.
var (
	oldSecret = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	newSecret = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{8}, 24))
)

var now = time.Unix(1_780_000_000, 0)

// ring is opened from a real file.
func ring(t testing.TB, secrets ...string) *Ring {
	t.Helper()
	r, _ := ringOf(t, secrets...)
	return r
}

func ringOf(t testing.TB, secrets ...string) (r *Ring, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(strings.Join(secrets, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open("--webhook-secret-file", path)
	if err != nil {
		t.Fatal(err)
	}
	return r, path
}

// signed are the headers that the project's own library makes.
func signed(t testing.TB, secret, id string, at time.Time, body []byte) http.Header {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := wh.Sign(id, at, body)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(HeaderSignature, signature)
	return h
}

func TestVerify(t *testing.T) {
	const window = 5 * time.Minute
	body := []byte(`{"amount":1.0}`)
	r := ring(t, oldSecret, newSecret)
	set := func(name string, values ...string) func(http.Header) {
		return func(h http.Header) { h[http.CanonicalHeaderKey(name)] = values }
	}
	list := func(before int) func(http.Header) {
		return func(h http.Header) {
			h.Set(HeaderSignature, strings.Repeat("v1,AAAA ", before)+h.Get(HeaderSignature)+" v1a,AAAA")
		}
	}
	for _, c := range []struct {
		name   string
		secret string
		at     time.Time
		change func(http.Header)
		body   string // "" is the one that was signed
		fits   bool
	}{
		{"as it was signed", oldSecret, now, nil, "", true},
		{"under the other secret", newSecret, now, nil, "", true},
		{"under a secret that we don't have", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24)), now, nil, "", false},
		{"another body", oldSecret, now, nil, `{"amount":9.0}`, false},
		{"the same in other bytes", oldSecret, now, nil, `{"amount":1.00}`, false},
		{"a body with more behind it", oldSecret, now, nil, `{"amount":1.0}` + "\n", false},
		{"another id", oldSecret, now, set(HeaderID, "msg_2"), "", false},
		{"another time", oldSecret, now, set(HeaderTimestamp, strconv.FormatInt(now.Unix()+1, 10)), "", false},
		{"no id", oldSecret, now, set(HeaderID), "", false},
		{"no time", oldSecret, now, set(HeaderTimestamp), "", false},
		{"no signature", oldSecret, now, set(HeaderSignature), "", false},
		{"nothing signed", oldSecret, now, set(HeaderSignature, ""), "", false},
		{"two ids", oldSecret, now, set(HeaderID, "msg_1", "msg_2"), "", false},
		{"two times", oldSecret, now, set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10), "1"), "", false},
		{"the signature without its version", oldSecret, now, func(h http.Header) { h.Set(HeaderSignature, h.Get(HeaderSignature)[3:]) }, "", false},
		{"under another version", oldSecret, now, func(h http.Header) { h.Set(HeaderSignature, "v2"+h.Get(HeaderSignature)[2:]) }, "", false},
		{"half a signature", oldSecret, now, func(h http.Header) { h.Set(HeaderSignature, h.Get(HeaderSignature)[:20]) }, "", false},
		{"the right one among others", oldSecret, now, list(31), "", true},
		{"the right one after too many", oldSecret, now, list(32), "", false},
		{"as old as may be", oldSecret, now.Add(-window), nil, "", true},
		{"too old", oldSecret, now.Add(-window - time.Second), nil, "", false},
		{"as far ahead as may be", oldSecret, now.Add(window), nil, "", true},
		{"too far ahead", oldSecret, now.Add(window + time.Second), nil, "", false},
		{"from the beginning of time", oldSecret, time.Unix(0, 0), nil, "", false},
		{"in milliseconds", oldSecret, time.Unix(now.UnixMilli(), 0), nil, "", false},
	} {
		h := signed(t, c.secret, "msg_1", c.at, body)
		if c.change != nil {
			c.change(h)
		}
		came := body
		if c.body != "" {
			came = []byte(c.body)
		}
		if err := r.Verify(h, came, now, window); (err == nil) != c.fits {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, at := range []time.Time{time.Unix(0, 0), now.AddDate(-1, 0, 0), now.AddDate(1, 0, 0)} {
		if err := r.Verify(signed(t, newSecret, "msg_1", at, body), body, now, 0); err != nil {
			t.Errorf("a window of 0, signed at %s: %v", at, err)
		}
	}
	for _, stamp := range []string{"+1780000000", "01780000000", "1780000000.0", " 1780000000", "0x6a1a0e00", "1e9", "99999999999999999999", "now"} {
		h := signed(t, oldSecret, "msg_1", now, body)
		h.Set(HeaderTimestamp, stamp)
		h.Set(HeaderSignature, string(sign((*r.secrets.Load())[0], "msg_1", stamp, body)))
		if err := r.Verify(h, body, now, window); err == nil {
			t.Errorf("a time of %q is taken", stamp)
		}
	}
}

// rawBodies are spellings that a decoder would make one of, or refuse.
var rawBodies = []string{
	`{"a":1.0}`, `{"a":1}`, `{"a":1e0}`, `{"b":1,"a":2}`, `{"a":2,"b":1}`, `{"n":"\u00e9"}`, `{"n":"é"}`, "{\"n\":\"e\u0301\"}",
	"{}\n", "{}", " {}", "\ufeff{}", "{}\r\n", "\x00", "\xff\xfe", "", `{"a":1,"a":2}`, strings.Repeat("x", 1<<20),
}

// A signature is of the bytes: each of these verifies as itself and as none of the others.
func TestRawBytes(t *testing.T) {
	r := ring(t, oldSecret)
	for i, sent := range rawBodies {
		h := signed(t, oldSecret, "msg_1", now, []byte(sent))
		for j, came := range rawBodies {
			if err := r.Verify(h, []byte(came), now, time.Minute); (err == nil) != (i == j) {
				t.Errorf("%.20q signed, %.20q come: %v", sent, came, err)
			}
		}
	}
}

// What is wrong can't be told from how long it takes to say so: a request without any header costs the same hashes.
func TestSameWork(t *testing.T) {
	r := ring(t, oldSecret, newSecret)
	body := make([]byte, 1<<20)
	good := signed(t, oldSecret, "msg_1", now, body)
	fastest := func(h http.Header, at time.Time) time.Duration {
		var took []time.Duration
		for range 15 {
			begun := time.Now()
			_ = r.Verify(h, body, at, time.Minute)
			took = append(took, time.Since(begun))
		}
		return slices.Min(took)
	}
	base := fastest(good, now)
	wrong := good.Clone()
	wrong.Set(HeaderSignature, "v1,AAAA")
	none := good.Clone()
	none.Del(HeaderTimestamp)
	for what, took := range map[string]time.Duration{
		"no header": fastest(http.Header{}, now), "a wrong one": fastest(wrong, now), "no time": fastest(none, now), "too old": fastest(good, now.Add(time.Hour)),
	} {
		if took < base/2 || took > 2*base {
			t.Errorf("%s takes %s, a good signature %s", what, took, base)
		}
	}
}

// FuzzVerify holds Verify against the project's own library.
func FuzzVerify(f *testing.F) {
	f.Add("msg_1", "1780000000", "v1,x", []byte(`{}`), true)
	f.Add("a.b", "1", "v1,x v1,y", []byte("1.{}"), false)
	f.Add("", "", "", []byte{}, true)
	f.Add("é", "1780000000", " v1,", []byte("\xff"), false)
	theirs, err := standardwebhooks.NewWebhook(oldSecret)
	if err != nil {
		f.Fatal(err)
	}
	r := ring(f, oldSecret)
	f.Fuzz(func(t *testing.T, id, stamp, signatures string, body []byte, sign bool) {
		if seconds, err := strconv.ParseInt(stamp, 10, 64); sign && err == nil {
			good, _ := theirs.Sign(id, time.Unix(seconds, 0), body)
			signatures += " " + good
		}
		h := http.Header{}
		h.Set(HeaderID, id)
		h.Set(HeaderTimestamp, stamp)
		h.Set(HeaderSignature, signatures)
		ours, their := r.Verify(h, body, now, 0), theirs.VerifyIgnoringTimestamp(body, h)
		seconds, _ := strconv.ParseInt(stamp, 10, 64)
		stricter := strconv.FormatInt(seconds, 10) != stamp || strings.Count(signatures, " ") >= mostSignatures
		if (ours == nil) != (their == nil) && (ours == nil || !stricter) {
			t.Errorf("id %q, time %q, signatures %q, body %q: ours %v, theirs %v", id, stamp, signatures, body, ours, their)
		}
	})
}

// What is kept of a sender's id is short, and nothing that a log or a terminal would obey.
func TestID(t *testing.T) {
	for sent, want := range map[string]string{
		"msg_2KWPBgLlAfxdpx2AI54pPJ85f4W": "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
		"":                                "",
		"a b":                             "a%20b",
		"100%":                            "100%25",
		"x\nlevel=ERROR msg=hacked":       "x%0Alevel=ERROR%20msg=hacked",
		"\x1b[31mred":                     "%1B[31mred",
		"\u202egnp.exe":                   "%E2%80%AEgnp.exe",
		"\xff":                            "%FF",
		strings.Repeat("a", 300):          strings.Repeat("a", 100),
		strings.Repeat("a", 98) + "é":     strings.Repeat("a", 98),
	} {
		if got := ID(http.Header{"Webhook-Id": {sent}}); got != want {
			t.Errorf("%q is kept as %q, want %q", sent, got, want)
		}
	}
	if got := ID(http.Header{"Webhook-Id": {"a", "b"}}); got != "" {
		t.Errorf("of two ids %q is kept", got)
	}
}

// Verifying costs the hash of the body: compare with the last. Run with -benchmem: nothing of the body is copied.
func BenchmarkVerify(b *testing.B) {
	for _, size := range []int{200, 1 << 20} {
		body := make([]byte, size)
		for _, secrets := range [][]string{{oldSecret}, {newSecret, oldSecret}} {
			r := ring(b, secrets...)
			h := signed(b, oldSecret, "msg_1", now, body)
			b.Run(strconv.Itoa(size)+"-bytes-"+strconv.Itoa(len(secrets))+"-secrets", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := r.Verify(h, body, now, time.Minute); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		wh, _ := standardwebhooks.NewWebhook(oldSecret)
		h := signed(b, oldSecret, "msg_1", now, body)
		b.Run(strconv.Itoa(size)+"-bytes-by-the-library", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := wh.VerifyIgnoringTimestamp(body, h); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
