package kv

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// SummaryFile is the file with the summary, which is what a start needs to know of the whole store
// besides the checkpoint: the CRC-32C (4) of the identity of the store and of what follows, the
// number of a durable commit (8, little-endian), and the content. A damaged one does no harm: the
// store is read instead. It covers every state of the store from the last commit before its
// checkpoint on, together with the commits that follow that checkpoint. The commit after the named
// one may be covered as well.
const (
	SummaryFile = "summary"
	summaryHead = 4 + 8
)

// WriteSummary replaces the summary of the store in dir. It is durable when the call returns
// without an error.
func WriteSummary(dir string, store [16]byte, commit uint64, content []byte) error {
	b := binary.LittleEndian.AppendUint64(make([]byte, 4, summaryHead+len(content)), commit)
	b = append(b, content...)
	binary.LittleEndian.PutUint32(b, summarySum(store, b))
	return storedir.WriteWhole(dir, SummaryFile, b)
}

// ReadSummary returns the summary of a store in dir. ok is false if there is no whole one of it.
func ReadSummary(dir string, store [16]byte) (commit uint64, content []byte, ok bool) {
	b, err := os.ReadFile(filepath.Join(dir, SummaryFile))
	if err != nil || len(b) < summaryHead || binary.LittleEndian.Uint32(b) != summarySum(store, b) {
		return 0, nil, false
	}
	return binary.LittleEndian.Uint64(b[4:]), b[summaryHead:], true
}

func summarySum(store [16]byte, b []byte) uint32 {
	return crc32.Update(crc32.Checksum(store[:], castagnoli), castagnoli, b[4:])
}
