package audit

import "unicode/utf8"

// Diff says where two texts differ: they share the first At bytes, then differ, and may end alike.
type Diff struct {
	At int64 `json:"at"`
	// Before and After are the differing parts, cut to MaxDiffBytes. BeforeBytes and AfterBytes are their full
	// lengths.
	Before      string `json:"before,omitempty"`
	After       string `json:"after,omitempty"`
	BeforeBytes int64  `json:"before_bytes"`
	AfterBytes  int64  `json:"after_bytes"`
}

// DiffOf returns where two texts differ, in whole characters.
func DiffOf(before, after string) Diff {
	most := min(len(before), len(after))
	at := 0
	for at < most && before[at] == after[at] {
		at++
	}
	at = wholeUpTo(before, at)
	same := 0 // bytes at the end
	for same < most-at && before[len(before)-1-same] == after[len(after)-1-same] {
		same++
	}
	for same > 0 && !utf8.RuneStart(before[len(before)-same]) {
		same--
	}
	before, after = before[at:len(before)-same], after[at:len(after)-same]
	return Diff{
		At: int64(at), Before: before[:wholeUpTo(before, MaxDiffBytes)], After: after[:wholeUpTo(after, MaxDiffBytes)],
		BeforeBytes: int64(len(before)), AfterBytes: int64(len(after)),
	}
}

// wholeUpTo returns how many of the first n bytes form whole characters.
func wholeUpTo(text string, n int) int {
	if n >= len(text) {
		return len(text)
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}
