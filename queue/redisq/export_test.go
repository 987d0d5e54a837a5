package redisq

import "slices"

// RecordOf returns the record that has a value, by the name of its setting or in Lua, its index there, and how many
// values the record has.
func RecordOf(value string) (record string, at, of int) {
	for _, r := range slices.Concat(queueRecords, partitionRecords) {
		for i, f := range r.values {
			if value == f.name || value == f.lua {
				return r.name, i + 1, len(r.values)
			}
		}
	}
	return "", 0, 0
}
