package badgerfile

import "testing"

func FuzzLogEntries(f *testing.F) {
	f.Add(append(make([]byte, logHeadSize), "\x00\x00\x1d\x02\x00e0123456789012345678912345678vvCRC4"...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		const maxKey = 33
		entries, end := LogEntries(data, maxKey)
		if len(entries) > 0 && end > len(data) {
			t.Errorf("%d entries end at %d of %d", len(entries), end, len(data))
		}
		strayEntries(data, end, maxKey)
	})
}
