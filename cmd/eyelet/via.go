package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
)

// viaName is our name in the field Via (RFC 9110 section 7.6.3): that of the configuration, or a pseudonym that stays the
// same over restarts and differs between receivers, on one machine and on several, so that two in a row do not take each
// other for themselves. It tells nothing about the machine.
func (c *settings) viaName() string {
	if c.Via != "" {
		return c.Via
	}
	host, _ := os.Hostname() // without a name the rest has to do
	_, dir, _ := c.storeKind()
	sum := sha256.New()
	for _, part := range []string{host, c.URL, c.Listen, dir, c.file} {
		_, _ = sum.Write(append([]byte(part), 0)) // never fails
	}
	return "eyelet-" + hex.EncodeToString(sum.Sum(nil)[:4])
}
