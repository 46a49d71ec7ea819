package storedir

import (
	"bytes"
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
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/valuefile"
)

// Checkpoint names what is at rest: in Badger's tables and in value files, all durable.
type Checkpoint struct {
	Log       redolog.Position    // everything before it is at rest
	Commit    uint64              // number of the last commit before it
	Manifest  badgerfile.Manifest // of Badger
	Values    []valuefile.FileState
	NextValue uint64 // a number above that of every value file so far
}

const (
	// CheckpointFile is the file with the checkpoint: two blocks of the same text, so that one
	// damaged byte does no harm. A block is a prefix, the CRC-32C of what follows in hexadecimal
	// digits, the identity of the store and a JSON object, padded with spaces to pages.
	CheckpointFile   = "checkpoint"
	checkpointPrefix = "eyelet checkpoint "
	checkpointPage   = 4096
)

// WriteCheckpoint replaces the checkpoint of the store in dir. It is durable when the call returns
// without an error.
func WriteCheckpoint(dir string, store [16]byte, c Checkpoint) error {
	object, err := json.Marshal(c)
	if err != nil {
		return err
	}
	content := hex.EncodeToString(store[:]) + " " + string(object)
	block := fmt.Sprintf("%s%08x %s", checkpointPrefix, crc32.Checksum([]byte(content), castagnoli), content)
	block += strings.Repeat(" ", checkpointPage-1-len(block)%checkpointPage) + "\n"
	return writeWhole(dir, CheckpointFile, block+block)
}

// ReadCheckpoint returns the checkpoint of the store in dir, and fs.ErrNotExist if there is none.
// It fails if both blocks are damaged, or if the checkpoint belongs to another store.
func ReadCheckpoint(dir string, store [16]byte) (Checkpoint, error) {
	text, err := os.ReadFile(filepath.Join(dir, CheckpointFile))
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := decodeCheckpoint(text, store)
	if err != nil {
		err = fmt.Errorf("store %s: file %s %w", dir, CheckpointFile, err)
	}
	return c, err
}

func decodeCheckpoint(text []byte, store [16]byte) (c Checkpoint, err error) {
	half := len(text) / 2
	for _, block := range [][]byte{text[:half], text[half:], text} { // all of it, if the end was cut
		identity, object, ok := parseBlock(block)
		switch {
		case !ok:
			continue
		case identity != hex.EncodeToString(store[:]):
			return c, errors.New("belongs to another store")
		}
		in := json.NewDecoder(bytes.NewReader(object))
		in.DisallowUnknownFields()
		if err := in.Decode(&c); err != nil {
			return c, fmt.Errorf("cannot be read by this version: %w", err)
		}
		return c, nil
	}
	return c, errors.New("is damaged")
}

// parseBlock returns the identity and the object of a block, if it is whole.
func parseBlock(block []byte) (identity string, object []byte, ok bool) {
	line, _, _ := bytes.Cut(block, []byte("\n"))
	line, ok = bytes.CutPrefix(bytes.TrimRight(line, " "), []byte(checkpointPrefix))
	sum, content, found := bytes.Cut(line, []byte(" "))
	if !ok || !found || string(sum) != fmt.Sprintf("%08x", crc32.Checksum(content, castagnoli)) {
		return "", nil, false
	}
	store, object, found := bytes.Cut(content, []byte(" "))
	return string(store), object, found
}
