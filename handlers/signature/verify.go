package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// mostSignatures is how many signatures a sender may send at once: one for each secret that is being rotated.
const mostSignatures = 32

// version is what the signatures that we know begin with. Others are passed over, as the specification wants it.
const version = "v1,"

// errNone is the one error for all that does not fit: which it was is nobody's business.
var errNone = errors.New("no signature fits the id, the time and the body under any of the secrets")

// Verify checks that one of the signatures in h is of exactly these bytes under one of the secrets, and that its
// timestamp is within the window before or after now. A window of 0 leaves the time out. The error is for the log
// alone; it holds nothing secret.
//
// Every secret is tried on the whole body whatever came, so that the time it takes tells nothing; the comparison
// takes the same time wherever two differ.
func (r *Ring) Verify(h http.Header, body []byte, now time.Time, window time.Duration) error {
	id, idOK := single(h, HeaderID)
	stamp, stampOK := single(h, HeaderTimestamp)
	list, listOK := single(h, HeaderSignature)
	sent := strings.SplitN(list, " ", mostSignatures+1)
	fits := 0
	for _, secret := range *r.secrets.Load() {
		want := sign(secret, id, stamp, body)
		for _, s := range sent[:min(len(sent), mostSignatures)] {
			if hmac.Equal([]byte(s), want) {
				fits++
			}
		}
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	switch {
	case !idOK || !stampOK || !listOK:
		return errors.New("the headers " + HeaderID + ", " + HeaderTimestamp + " and " + HeaderSignature + " must each be there once")
	case err != nil || strconv.FormatInt(seconds, 10) != stamp:
		return errors.New(HeaderTimestamp + " must be Unix seconds")
	case fits == 0:
		return errNone
	}
	return fresh(time.Unix(seconds, 0), now, window)
}

// single is a header's value if it is there exactly once and not empty.
func single(h http.Header, name string) (string, bool) {
	values := h.Values(name)
	if len(values) != 1 {
		return "", false
	}
	return values[0], values[0] != ""
}

// sign is the signature of a message as it is sent. The body is not copied.
func sign(secret []byte, id, stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, part := range [][]byte{[]byte(id), dot, []byte(stamp), dot, body} {
		mac.Write(part)
	}
	return base64.StdEncoding.AppendEncode([]byte(version), mac.Sum(nil))
}

var dot = []byte(".")

func fresh(signed, now time.Time, window time.Duration) error {
	age := now.Sub(signed)
	switch {
	case window == 0 || age.Abs() <= window:
		return nil
	case age > 0:
		return fmt.Errorf("it was signed %s ago, and may be %s old", age.Round(time.Second), window)
	}
	return fmt.Errorf("it was signed %s from now by this clock, and may be %s ahead", -age.Round(time.Second), window)
}
