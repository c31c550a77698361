package door

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"
)

// argon2id's parameters, as OWASP's cheat sheet on the storage of passwords has them: 19 MiB, two passes, one lane.
const (
	memoryKiB = 19 << 10
	passes    = 2
	lanes     = 1
	saltBytes = 16
	hashBytes = 32
)

// How long a password is, in characters.
const (
	leastPassword = 10
	mostPassword  = 1000
)

var phcBase64 = base64.RawStdEncoding

// CheckPassword says what is wrong with a new password, "" for nothing.
func CheckPassword(password string) (fault string) {
	n := utf8.RuneCountInString(password)
	switch {
	case !utf8.ValidString(password):
		return "is not valid UTF-8"
	case strings.ContainsFunc(password, unicode.IsControl):
		return "holds a line end or another control character"
	case n < leastPassword:
		return fmt.Sprintf("has %d characters: take at least %d", n, leastPassword)
	case n > mostPassword:
		return fmt.Sprintf("has %d characters: take at most %d", n, mostPassword)
	}
	return ""
}

// HashPassword returns what is kept of a password: a PHC string with a salt of its own.
func HashPassword(password string) string {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memoryKiB, passes, lanes,
		phcBase64.EncodeToString(salt), phcBase64.EncodeToString(hash(password, salt)))
}

// hash takes a password in one spelling, however it was typed: an ñ may be one character or two.
func hash(password string, salt []byte) []byte {
	return argon2.IDKey([]byte(norm.NFKC.String(password)), salt, passes, memoryKiB, lanes, hashBytes)
}

// nobodysHash is compared with when there is no such account, so that this takes as long.
var nobodysHash = fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memoryKiB, passes, lanes,
	phcBase64.EncodeToString(make([]byte, saltBytes)), phcBase64.EncodeToString(make([]byte, hashBytes)))

var errForeignHash = errors.New("the password was kept by another program, in a way that this one does not know")

// verifyPassword reports whether a password is the one of which phc was kept.
func verifyPassword(phc, password string) (bool, error) {
	var version, memory, time, threads int
	parts := strings.Split(phc, "$")
	if len(parts) != 6 {
		return false, errForeignHash
	}
	_, err1 := fmt.Sscanf(parts[2]+"$"+parts[3], "v=%d$m=%d,t=%d,p=%d", &version, &memory, &time, &threads)
	salt, err2 := phcBase64.DecodeString(parts[4])
	kept, err3 := phcBase64.DecodeString(parts[5])
	if errors.Join(err1, err2, err3) != nil || version != argon2.Version || memory != memoryKiB || time != passes || threads != lanes || len(kept) != hashBytes {
		return false, errForeignHash
	}
	return subtle.ConstantTimeCompare(hash(password, salt), kept) == 1, nil
}
