package kv

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/valuefile"
)

// Checkpoint names what is at rest: in Badger's tables and in value files, all durable.
type Checkpoint struct {
	Store  [16]byte         `json:"-"` // identity of log and value files
	Log    redolog.Position // everything before it is at rest
	Commit uint64           // number of the last commit before it
	// Reached is the newest segment of the log that has a durable frame, as far as it is noted.
	Reached   uint64              `json:",omitempty"`
	Manifest  badgerfile.Manifest // of Badger
	Values    []valuefile.FileState
	NextValue uint64 // a number above that of every value file so far
	Closed    bool   `json:",omitempty"` // nothing was written since
}

const (
	// CheckpointFile is the file with the checkpoint: two blocks of the same text, so that one
	// damaged byte does no harm. A block is a prefix, the CRC-32C of what follows in hexadecimal
	// digits, the identity of the store and a JSON object, padded with spaces to pages.
	CheckpointFile   = "checkpoint"
	checkpointPrefix = "eyelet checkpoint "
	checkpointPage   = 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// WriteCheckpoint replaces the checkpoint of the store in dir. It is durable when the call returns
// without an error.
func WriteCheckpoint(dir string, c Checkpoint) error {
	object, err := json.Marshal(c)
	if err != nil {
		return err
	}
	content := hex.EncodeToString(c.Store[:]) + " " + string(object)
	block := fmt.Sprintf("%s%08x %s", checkpointPrefix, crc32.Checksum([]byte(content), castagnoli), content)
	block += strings.Repeat(" ", checkpointPage-1-len(block)%checkpointPage) + "\n"
	return storedir.WriteWhole(dir, CheckpointFile, []byte(block+block))
}

// ReadCheckpoint returns the checkpoint of the store in dir, and fs.ErrNotExist if there is none.
// It fails if both blocks are damaged.
func ReadCheckpoint(dir string) (Checkpoint, error) {
	text, err := os.ReadFile(filepath.Join(dir, CheckpointFile))
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := decodeCheckpoint(text)
	if err != nil {
		err = fmt.Errorf("store %s: file %s %w", dir, CheckpointFile, err)
	}
	return c, err
}

func decodeCheckpoint(text []byte) (c Checkpoint, err error) {
	half := len(text) / 2
	for _, block := range [][]byte{text[:half], text[half:], text} { // all of it, if the end was cut
		store, object, ok := parseBlock(block)
		if !ok {
			continue
		}
		in := json.NewDecoder(bytes.NewReader(object))
		in.DisallowUnknownFields()
		if err := in.Decode(&c); err != nil {
			return c, fmt.Errorf("cannot be read by this version: %w", err)
		}
		copy(c.Store[:], store)
		return c, nil
	}
	return c, errors.New("is damaged")
}

// parseBlock returns the identity and the object of a block, if it is whole.
func parseBlock(block []byte) (store, object []byte, ok bool) {
	line, _, _ := bytes.Cut(block, []byte("\n"))
	line, ok = bytes.CutPrefix(bytes.TrimRight(line, " "), []byte(checkpointPrefix))
	sum, content, _ := bytes.Cut(line, []byte(" "))
	if !ok || string(sum) != fmt.Sprintf("%08x", crc32.Checksum(content, castagnoli)) {
		return nil, nil, false
	}
	digits, object, _ := bytes.Cut(content, []byte(" "))
	store, err := hex.DecodeString(string(digits))
	return store, object, err == nil
}

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
