package console

// Theme returns the style sheet with the colors.
func Theme() string {
	text, err := assetFiles.ReadFile("assets/css/10-theme.css")
	if err != nil {
		panic(err)
	}
	return string(text)
}
