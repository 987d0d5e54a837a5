package jobrecord

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/penstock/penstock/queue"
)

const costBytes = 4

// packCosts returns costs as a record has them, or nothing.
func packCosts(costs map[string]int64) []byte {
	if len(costs) == 0 {
		return nil
	}
	b := []byte{0, 0}
	for _, unit := range slices.Sorted(maps.Keys(costs)) {
		b = append(append(b, byte(len(unit))), unit...)
		b = binary.BigEndian.AppendUint32(b, uint32(costs[unit]))
	}
	binary.BigEndian.PutUint16(b, uint16(len(b)-2))
	return b
}

// EachCost yields the units of Head.Costs and their costs.
func EachCost(packed string) func(yield func(unit string, cost int64) bool) {
	return func(yield func(unit string, cost int64) bool) {
		for len(packed) > 0 {
			n := 1 + int(packed[0])
			if len(packed) < n+costBytes || !yield(packed[1:n], costAt(packed[n:])) {
				return
			}
			packed = packed[n+costBytes:]
		}
	}
}

// validCosts reports whether packed costs can be read to their end.
func validCosts(packed string) bool {
	read := 0
	for unit, cost := range EachCost(packed) {
		if read += 1 + len(unit) + costBytes; unit == "" || cost > queue.MaxUnitCost {
			return false
		}
	}
	return read == len(packed)
}

// UnpackCosts returns the costs of Head.Costs by unit, or nil.
func UnpackCosts(packed string) (costs map[string]int64) {
	for unit, cost := range EachCost(packed) {
		if costs == nil {
			costs = map[string]int64{}
		}
		costs[unit] = cost
	}
	return costs
}

// WithCosts returns a copy of a record with other costs. A record that cannot be read is returned as it is.
func WithCosts(b []byte, costs map[string]int64) []byte {
	h, flags, rest, err := unpackHead(b)
	if err != nil {
		return b
	}
	end := len(b) - len(rest.Rest)
	at := end
	if flags&flagCosts != 0 {
		at -= 2 + len(h.Costs)
	}
	packed := packCosts(costs)
	out := append(make([]byte, 0, len(b)+len(packed)), b[:at]...)
	if out[flagsAt] &^= flagCosts; len(packed) > 0 {
		out[flagsAt] |= flagCosts
	}
	return append(append(out, packed...), b[end:]...)
}

// costAt reads a cost.
func costAt(s string) int64 { return int64(s[0])<<24 | int64(s[1])<<16 | int64(s[2])<<8 | int64(s[3]) }

// CostIn returns the cost in a unit of Head.Costs.
func CostIn(packed, unit string) (cost int64, ok bool) {
	for len(packed) > 0 {
		n := 1 + int(packed[0])
		if len(packed) < n+costBytes {
			return 0, false
		}
		if packed[1:n] == unit {
			return costAt(packed[n:]), true
		}
		packed = packed[n+costBytes:]
	}
	return 0, false
}

// HasCosts reports whether a record says that it has costs in units.
func HasCosts(record []byte) bool { return len(record) > flagsAt && record[flagsAt]&flagCosts != 0 }
