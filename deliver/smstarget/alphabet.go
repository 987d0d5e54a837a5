package smstarget

// The default alphabet of GSM 03.38, one septet each, in its order. At 0x1B, which has no character, is the escape to
// the extension.
const basic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
	"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"

// The extension: each character takes an escape and a septet.
const extension = "\f^{}\\[~]|€"

// septets has the number of septets of each character in the alphabet.
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
