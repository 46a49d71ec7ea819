package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"runtime"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// The sides of the workload "verify", which measures the verification of a signature alone.
const (
	verifyWorkload = "verify"
	verification   = "verification"
	cryptography   = "cryptography"
)

// measureVerification measures the verification of a whole request (RFC 9421 with Ed25519) beside
// the cryptography that it contains. Both sides run in short turns in this process.
func (b *bench) measureVerification(ctx context.Context) (map[string]figures, error) {
	const turns, each = 10, 100
	body := []byte(`{"pad":"` + string(padding[:max(0, b.body-10)]) + `"}`)
	r, err := signedRequest(ctx, "verification", body)
	if err != nil {
		return nil, err
	}
	public, _ := signingKey().Public().(ed25519.PublicKey)
	key, err := verify.NewPublicKey("k1", verify.Ed25519, public)
	if err != nil {
		return nil, err
	}
	scheme := &verify.RFC9421{Keys: verify.StaticKeys(key)}
	content, signature, err := signatureBase(r)
	if err != nil {
		return nil, err
	}
	sides := map[string]func() bool{
		verification: func() bool {
			_, err := scheme.Verify(r, func() ([]byte, error) { return body, nil })
			return err == nil
		},
		cryptography: func() bool {
			sha256.Sum256(body)
			return ed25519.Verify(public, content, signature)
		},
	}
	total := map[string]figures{}
	for range turns {
		for name, valid := range sides {
			f := total[name]
			cpu, allocated := cpuTime(os.Getpid()), mallocs()
			for range each {
				if !valid() {
					return nil, errors.New(name + " refuses the signature")
				}
			}
			f.CPU += float64((cpuTime(os.Getpid()) - cpu).Nanoseconds()) / 1e3 / (turns * each)
			f.Allocs += (mallocs() - allocated) / (turns * each)
			total[name] = f
		}
	}
	return total, nil
}

func mallocs() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Mallocs)
}

// signatureBase returns the signature base of a request (RFC 9421 section 2.5) and its signature.
func signatureBase(r *http.Request) (content, signature []byte, err error) {
	params := strings.TrimPrefix(r.Header.Get("Signature-Input"), "sig1=")
	names, _, _ := strings.Cut(strings.TrimPrefix(params, "("), ")")
	for _, quoted := range strings.Fields(names) {
		var value string
		switch name := strings.Trim(quoted, `"`); name {
		case "@method":
			value = r.Method
		case "@target-uri":
			value = r.URL.String()
		default:
			value = r.Header.Get(name)
		}
		content = append(content, quoted+": "+value+"\n"...)
	}
	content = append(content, `"@signature-params": `+params...)
	encoded := strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Signature"), "sig1=:"), ":")
	signature, err = base64.StdEncoding.DecodeString(encoded)
	return content, signature, err
}
