package smstarget

// A part of a text carries 140 bytes. Where there are several, each gives 6 bytes to the header by which a handset puts
// them together again.
const (
	gsmAlone, gsmPart = 160, 153 // septets
	ucsAlone, ucsPart = 70, 67   // 16-bit units
)

// Encodings of a text.
const (
	GSM7 = "GSM-7"
	UCS2 = "UCS-2" // UTF-16 in truth: pairs are sent as they are
)

// Segments returns in how many parts a text travels, and how it is encoded: in GSM-7 if its alphabet has all
// of the text's characters, else in UCS-2. An escape stays with the septet behind it, and the two halves of a pair stay
// together: a character is never split over the edge of a part, which costs a unit there. An empty text is one part.
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
