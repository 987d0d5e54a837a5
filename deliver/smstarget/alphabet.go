package smstarget

// The default alphabet of GSM 03.38, a septet each, in its order. At 0x1B, which has no character, stands the escape to
// the extension.
const basic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
	"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"

// Its extension: each takes an escape and a septet.
const extension = "\f^{}\\[~]|€"

// septets is how many septets a character takes; those that are not there have none.
var septets = func() map[rune]int {
	m := make(map[rune]int, 150)
	for _, r := range basic {
		m[r] = 1
	}
	delete(m, '\x1b')
	for _, r := range extension {
		m[r] = 2
	}
	return m
}()
