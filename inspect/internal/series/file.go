package series

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/eyelet-dev/eyelet/internal/atomicfile"
)

// version is the beginning of a file. Behind it are the state, big-endian, and its CRC-32.
const version = "eyelet series 1\n"

// Save writes the file, of about 100 KiB, as [atomicfile.Write] does.
func (s *Series) Save(path string) error {
	s.mu.Lock()
	s.settle()
	now := s.state
	s.mu.Unlock()
	b, err := binary.Append([]byte(version), binary.BigEndian, &now)
	if err != nil {
		return err
	}
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// Load reads the file, if it exists, before anything is counted. After an error the series are
// empty.
func (s *Series) Load(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	size := len(version) + binary.Size(&s.state) + crc32.Size
	b, err := io.ReadAll(io.LimitReader(f, int64(size)+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if !bytes.HasPrefix(b, []byte(version)) {
		return fmt.Errorf("%s is not a file of time series, or of another version", path)
	}
	if sum := len(b) - crc32.Size; crc32.ChecksumIEEE(b[:sum]) != binary.BigEndian.Uint32(b[sum:]) {
		return fmt.Errorf("%s is damaged", path)
	}
	_, err = binary.Decode(b[len(version):], binary.BigEndian, &s.state)
	return err
}
