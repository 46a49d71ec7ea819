package receiver

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// laneOf returns the lane of the handler's task for an item of a delivery, or "" when it has none. Its error is
// the extractor's.
//
// The lane is a digest of endpoint, handler and value, each behind its length: lanes of different handlers
// never meet, and no byte of the payload ends up in a key of the store. Two values that meet in 128 bits would
// only wait for each other.
func (h *Handler) laneOf(d *producer.Delivery, it producer.Item) (string, error) {
	if h.lane == nil {
		return "", nil
	}
	view := *d
	if it.Body != nil {
		view.Body = it.Body
	}
	value, err := h.lane.Extract(&view)
	if err != nil || value == "" {
		return "", err
	}
	var b []byte
	for _, part := range [...]string{h.producer, h.name, value} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	lane := base64.RawURLEncoding.EncodeToString(sum[:16])
	if h.yields {
		lane = dedup.LaneYields + lane
	}
	return lane, nil
}
