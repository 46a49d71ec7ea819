package badgerfile

import (
	"encoding/binary"
	"testing"
)

func FuzzTableIndex(f *testing.F) {
	f.Add([]byte("index\x00\x00\x00\x05\x08\x00\x10\x07\x00\x00\x00\x04"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := tableIndex(data); err == nil {
			n := len(data)
			if sum := int(binary.BigEndian.Uint32(data[n-4:])); sum > n-9 {
				t.Errorf("a checksum of %d bytes in a table of %d passes", sum, n)
			}
		}
	})
}
