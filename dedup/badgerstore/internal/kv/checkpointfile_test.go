package kv

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/valuefile"
)

var example = Checkpoint{
	Store:     [16]byte{0xab, 15: 0xcd},
	Log:       redolog.Position{Segment: 17, Offset: 1 << 20},
	Commit:    1<<64 - 1,
	Manifest:  badgerfile.Manifest{Length: 1234, Sum: 1<<32 - 1, First: 7},
	Values:    []valuefile.FileState{{Number: 3, Length: 1 << 40}, {Number: 5, Length: 0}},
	NextValue: 6,
}

// written returns the text of the example.
func written(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	err := WriteCheckpoint(dir, example)
	text, err2 := os.ReadFile(filepath.Join(dir, CheckpointFile))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCheckpointIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := ReadCheckpoint(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a checkpoint: %v", err)
	}
	large := example
	for n := range uint64(2000) {
		large.Values = append(large.Values, valuefile.FileState{Number: 10 + n, Length: 64 << 20})
	}
	for _, c := range []Checkpoint{{}, large, example} {
		half := filepath.Join(dir, storedir.TempPrefix+CheckpointFile)
		if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := WriteCheckpoint(dir, c); err != nil {
			t.Fatal(err)
		}
		got, err := ReadCheckpoint(dir)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%+v, want %+v, error %v", got, c, err)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("files %v, error %v", names, err)
	}
}

// TestCheckpointKeepsItsFormat holds the bytes of the example, which later programs must read.
func TestCheckpointKeepsItsFormat(t *testing.T) {
	t.Parallel()
	text := written(t)
	const want = `eyelet checkpoint 001d4c9f ab0000000000000000000000000000cd {"Log":{"Segment":17,"Offset":1048576},` +
		`"Commit":18446744073709551615,"Manifest":{"Length":1234,"Sum":4294967295,"First":7},` +
		`"Values":[{"Number":3,"Length":1099511627776},{"Number":5,"Length":0}],"NextValue":6}`
	for _, block := range []string{string(text[:checkpointPage]), string(text[checkpointPage:])} {
		if len(block) != checkpointPage || strings.TrimRight(block, " \n") != want {
			t.Errorf("%d bytes: %s", len(block), strings.TrimRight(block, " \n"))
		}
	}
}

func TestAFlippedBitOfACheckpointDoesNoHarm(t *testing.T) {
	t.Parallel()
	text := written(t)
	for bit := range len(text) * 8 {
		if at := bit / 8 % checkpointPage; at > 400 && at < checkpointPage-10 { // more spaces
			continue
		}
		text[bit/8] ^= 1 << (bit % 8)
		if got, err := decodeCheckpoint(text); err != nil || !reflect.DeepEqual(got, example) {
			t.Fatalf("bit %d: %+v, error %v", bit, got, err)
		}
		text[bit/8] ^= 1 << (bit % 8)
	}
}

func TestADamagedCheckpointIsRefused(t *testing.T) {
	t.Parallel()
	good := written(t)
	object := len(strings.TrimRight(string(good[:checkpointPage]), " \n"))
	refused := map[string][]byte{"zeros": make([]byte, len(good))}
	for at := range object {
		bad := slices.Clone(good)
		bad[at]++
		bad[checkpointPage+at]++
		refused[fmt.Sprintf("byte %d of both blocks", at)] = bad
		refused[fmt.Sprintf("cut at %d", at)] = good[:at]
	}
	for name, text := range refused {
		if c, err := decodeCheckpoint(text); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
	for n := object; n < len(good); n++ {
		if got, err := decodeCheckpoint(good[:n]); err != nil || !reflect.DeepEqual(got, example) {
			t.Fatalf("cut at %d: %+v, error %v", n, got, err)
		}
	}
}

func TestACheckpointOfAnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	content := hex.EncodeToString(example.Store[:]) + ` {"Log":{},"Later":1}`
	text := fmt.Sprintf("%s%08x %s", checkpointPrefix, crc32.Checksum([]byte(content), castagnoli), content)
	if c, err := decodeCheckpoint([]byte(text)); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("%+v, error %v", c, err)
	}
}
