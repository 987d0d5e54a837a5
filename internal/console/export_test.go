package console

// PagePaths are those of all pages, as http.ServeMux knows them.
func PagePaths() (paths []string) {
	for i := range pages {
		paths = append(paths, pages[i].path)
	}
	return paths
}

// Theme is the style sheet that has the colours.
func Theme() string {
	text, err := assetFiles.ReadFile("assets/css/10-theme.css")
	if err != nil {
		panic(err)
	}
	return string(text)
}
