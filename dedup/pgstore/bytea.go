package pgstore

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// byteaArrays writes arrays of bytea, which have the bodies of a batch, in one piece of the right
// size. The codec of pgx calls an encoder for each element, into a buffer that grows. The format is
// that of array_recv in src/backend/utils/adt/arrayfuncs.c of PostgreSQL.
type byteaArrays struct{ pgtype.Codec }

// registerByteaArrays makes the types of a connection use byteaArrays.
func registerByteaArrays(m *pgtype.Map) {
	plain, _ := m.TypeForOID(pgtype.ByteaArrayOID)
	m.RegisterType(&pgtype.Type{Name: plain.Name, OID: plain.OID, Codec: byteaArrays{plain.Codec}})
}

// PlanEncode implements pgtype.Codec.
func (c byteaArrays) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([][]byte); ok && format == pgtype.BinaryFormatCode {
		return byteaPlan{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type byteaPlan struct{}

// Encode implements pgtype.EncodePlan. An array or element that is nil is NULL.
func (byteaPlan) Encode(value any, buf []byte) ([]byte, error) {
	all := value.([][]byte)
	if all == nil {
		return nil, nil
	}
	size, nulls := 20, uint32(0)
	for _, b := range all {
		if size += 4 + len(b); b == nil {
			nulls = 1
		}
	}
	order := binary.BigEndian
	buf = slices.Grow(buf, size)
	buf = order.AppendUint32(buf, 1) // the number of dimensions
	buf = order.AppendUint32(buf, nulls)
	buf = order.AppendUint32(buf, pgtype.ByteaOID)
	buf = order.AppendUint32(buf, uint32(len(all)))
	buf = order.AppendUint32(buf, 1) // the first index
	for _, b := range all {
		if b == nil {
			buf = order.AppendUint32(buf, 1<<32-1)
			continue
		}
		buf = append(order.AppendUint32(buf, uint32(len(b))), b...)
	}
	return buf, nil
}
