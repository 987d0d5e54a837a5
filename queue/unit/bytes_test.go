package unit

import "testing"

func TestShort(t *testing.T) {
	for b, want := range map[Bytes]string{
		0: "0 B", 999: "999 B", 1000: "1.0 KiB", 327_475: "320 KiB", 999 << 10: "999 KiB", 1000 << 10: "1.0 MiB",
		5 << 30: "5.0 GiB", 67_638_293_504: "63.0 GiB", 2000 << 40: "2000 TiB",
	} {
		if got := b.Short(); got != want {
			t.Errorf("%d: %s, want %s", int64(b), got, want)
		}
	}
}
