package survey

// DecodeSample decodes a sample that the store kept.
func DecodeSample(data []byte) error {
	_, err := decodeSample(data)
	return err
}
