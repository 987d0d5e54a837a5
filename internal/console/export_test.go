package console

// PagePaths returns the patterns of all pages.
func PagePaths() (paths []string) {
	for i := range pages {
		paths = append(paths, pages[i].path)
	}
	return paths
}

// Theme returns the style sheet with the colors.
func Theme() string {
	text, err := assetFiles.ReadFile("assets/css/10-theme.css")
	if err != nil {
		panic(err)
	}
	return string(text)
}
