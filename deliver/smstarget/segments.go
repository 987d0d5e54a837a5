package smstarget

// A segment carries 140 bytes. If a text has several, each gives 6 bytes to a header by which the handset joins them.
const (
	gsmAlone, gsmPart = 160, 153 // septets
	ucsAlone, ucsPart = 70, 67   // 16-bit units
)

// Encodings of a text.
const (
	GSM7 = "GSM-7"
	UCS2 = "UCS-2" // actually UTF-16: surrogate pairs are sent as they are
)

// Segments returns the number of segments of a text, and its encoding: GSM-7 if its alphabet has all characters of the
// text, else UCS-2. An escape and its septet, and the two halves of a surrogate pair, stay in one segment, which may
// leave a unit unused. An empty text is one segment.
func Segments(text string) (n int, encoding string) {
	alone, part, size, encoding := gsmAlone, gsmPart, gsmSize, GSM7
	for _, r := range text {
		if septets[r] == 0 {
			alone, part, size, encoding = ucsAlone, ucsPart, ucsSize, UCS2
			break
		}
	}
	total, used := 0, 0
	n = 1
	for _, r := range text {
		units := size(r)
		total += units
		if used+units > part {
			n, used = n+1, 0
		}
		used += units
	}
	if total <= alone {
		return 1, encoding
	}
	return n, encoding
}

func gsmSize(r rune) int { return septets[r] }

func ucsSize(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}
