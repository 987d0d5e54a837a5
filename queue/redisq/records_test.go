package redisq_test

import (
	"testing"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue/redisq"
)

// plantValue overwrites a value of a hash: in its record, if it stands in one. There, what can be a number is one.
func plantValue(t *testing.T, s *redistest.Server, key, name string, value any) {
	t.Helper()
	const script = `
		local values = { cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1])) }
		local at = tonumber(ARGV[2])
		values[at] = type(values[at]) == 'number' and tonumber(ARGV[3]) or ARGV[3]
		return redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack(unpack(values, 1, tonumber(ARGV[4]))))`
	var err error
	if record, at, of := redisq.RecordOf(name); record == "" {
		err = s.Client().HSet(t.Context(), key, name, value).Err()
	} else {
		err = s.Client().Eval(t.Context(), script, []string{key}, record, at, value, of).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// keptNumber reads a number out of its record.
func keptNumber(t *testing.T, s *redistest.Server, key, name string) int64 {
	t.Helper()
	const script = `
		local values = { cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1])) }
		return string.format('%.0f', values[tonumber(ARGV[2])])`
	record, at, _ := redisq.RecordOf(name)
	n, err := s.Client().Eval(t.Context(), script, []string{key}, record, at).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
