package redisq

import "slices"

// RecordOf says in which record of a hash a value stands that is called so there or in Lua, and where in it, of how
// many.
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
