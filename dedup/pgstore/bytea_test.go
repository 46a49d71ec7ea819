package pgstore

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// TestArraysOfByteaAreThoseOfPgx compares with the codec that is replaced, and reads arrays back.
func TestArraysOfByteaAreThoseOfPgx(t *testing.T) {
	t.Parallel()
	plain, own := pgtype.NewMap(), pgtype.NewMap()
	registerByteaArrays(own)
	for _, all := range [][][]byte{
		nil, {}, {nil}, {{}}, {[]byte("a")}, {nil, {}, []byte("a\x00b"), bytes.Repeat([]byte{255}, 70_000)},
	} {
		for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
			want, err := plain.Encode(pgtype.ByteaArrayOID, format, all, []byte("before"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := own.Encode(pgtype.ByteaArrayOID, format, all, []byte("before"))
			if err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Errorf("%d elements, format %d: %x, %v, want %x", len(all), format, got[:min(len(got), 100)], err,
					want[:min(len(want), 100)])
			}
		}
	}
	dsn, _ := freshSchema(t)
	c := connected(t, dsn)
	registerByteaArrays(c.TypeMap())
	var got [][]byte
	sent := [][]byte{nil, {}, []byte("a\x00b")}
	if err := c.QueryRow(t.Context(), "SELECT $1::bytea[]", sent).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0] != nil || got[1] == nil || len(got[1]) != 0 || !bytes.Equal(got[2], sent[2]) {
		t.Errorf("read back: %q", got)
	}
}
