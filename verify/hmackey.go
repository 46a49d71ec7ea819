package verify

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// new returns the constructor of the hash, or nil for an unknown name.
func (h Hash) new() func() hash.Hash {
	switch h {
	case SHA1:
		return sha1.New
	case SHA256:
		return sha256.New
	case SHA384:
		return sha512.New384
	case SHA512:
		return sha512.New
	}
	return nil
}

// hmacKey is one decoded secret. Keyed MACs are pooled: keying one costs two blocks of hashing.
type hmacKey struct {
	id    string
	pools map[Hash]*sync.Pool
}

func newHMACKey(id string, secret []byte, hashes []Hash) hmacKey {
	k := hmacKey{id: id, pools: make(map[Hash]*sync.Pool, len(hashes))}
	for _, h := range hashes {
		k.pools[h] = &sync.Pool{New: func() any { return hmac.New(h.new(), secret) }}
	}
	return k
}

// sum appends the MAC of the content to dst.
func (k hmacKey) sum(dst []byte, h Hash, content segments) []byte {
	pool := k.pools[h]
	mac := pool.Get().(hash.Hash)
	mac.Reset()
	for _, s := range content {
		mac.Write(s)
	}
	dst = mac.Sum(dst)
	pool.Put(mac)
	return dst
}

// decodeSecret decodes a secret as its producer means it. Errors say what is wrong and nothing of the value.
func decodeSecret(s Secret, enc Encoding) ([]byte, error) {
	v := string(s)
	if v == "" {
		return nil, errors.New("is empty")
	}
	if strings.TrimSpace(v) != v {
		return nil, errors.New("begins or ends with white space")
	}
	var out []byte
	var ok bool
	switch enc {
	case Raw:
		return []byte(v), nil
	case Hex, Base64:
		out, ok = enc.decode(nil, v)
	case Whsec:
		if strings.HasPrefix(v, "whpk_") || strings.HasPrefix(v, "whsk_") {
			return nil, errors.New("is an Ed25519 key and no shared secret")
		}
		v = strings.TrimRight(strings.TrimPrefix(v, "whsec_"), "=")
		if out, ok = decodeBase64(base64.RawStdEncoding, nil, v); !ok {
			return nil, errors.New(`has no base64 after "whsec_", as Standard Webhooks writes secrets`)
		}
	default:
		return nil, fmt.Errorf("has the unknown encoding %q", string(enc))
	}
	if !ok || len(out) == 0 {
		return nil, fmt.Errorf("is not %s", string(enc))
	}
	return out, nil
}

// decode appends the bytes that the text stands for to dst. It accepts one spelling of the encoding only: no
// line breaks, no missing padding, no stray bits, so that two texts are never one signature (but for the case
// of hexadecimal digits).
func (e Encoding) decode(dst []byte, text string) ([]byte, bool) {
	switch e {
	case Hex:
		out, err := hex.AppendDecode(dst, []byte(text))
		return out, err == nil && len(text) > 0
	case Base64:
		return decodeBase64(base64.StdEncoding.Strict(), dst, text)
	}
	return nil, false
}

func decodeBase64(enc *base64.Encoding, dst []byte, text string) ([]byte, bool) {
	if text == "" || strings.ContainsAny(text, "\r\n") { // which encoding/base64 skips
		return nil, false
	}
	out, err := enc.AppendDecode(dst, []byte(text))
	return out, err == nil
}

// encode is the inverse of decode.
func (e Encoding) encode(b []byte) string {
	if e == Hex {
		return hex.EncodeToString(b)
	}
	return base64.StdEncoding.EncodeToString(b)
}
