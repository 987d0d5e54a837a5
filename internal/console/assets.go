package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/replay/chart"
)

//go:embed assets
var assetFiles embed.FS

// assets are the static files of the pages. All share one digest in their path: browsers can cache them forever, and
// modules import one another by relative names.
type assets struct {
	digest string
	files  map[string]asset
}

type asset struct {
	kind        string
	plain, gzip []byte
}

// newAssets loads the embedded files and joins assets/css into one style sheet, in order of name.
func newAssets() *assets {
	contents := map[string][]byte{
		"uplot.js": chart.Script(), "uplot.css": chart.Style(), "uplot-license.txt": chart.License(),
	}
	var style []byte
	err := fs.WalkDir(assetFiles, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := assetFiles.ReadFile(name)
		if path.Ext(name) == ".css" {
			style = append(style, text...)
		} else {
			contents[strings.TrimPrefix(name, "assets/")] = text
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	contents["console.css"] = style
	a := &assets{files: map[string]asset{}}
	whole := sha256.New()
	for _, name := range sorted(contents) {
		text := contents[name]
		sum := sha256.Sum256(text)
		whole.Write([]byte(name))
		whole.Write(sum[:])
		kind := mime.TypeByExtension(path.Ext(name))
		if path.Ext(name) == ".js" {
			kind = "text/javascript; charset=utf-8"
		}
		a.files[name] = asset{kind, text, compressed(text, gzip.BestCompression)}
	}
	a.digest = hex.EncodeToString(whole.Sum(nil)[:8])
	return a
}

func compressed(text []byte, level int) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // writing to a buffer does not fail
	}
	return b.Bytes()
}

// ServeHTTP serves DIGEST/NAME.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	digest, name, _ := strings.Cut(r.URL.Path, "/")
	file, ok := a.files[name]
	if !ok || digest != a.digest {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Type", file.kind)
	write(w, r, http.StatusOK, file.plain, file.gzip)
}

// write answers with zipped if that is smaller and the client accepts gzip, and with plain otherwise.
func write(w http.ResponseWriter, r *http.Request, status int, plain, zipped []byte) {
	w.Header().Add("Vary", "Accept-Encoding")
	if zipped != nil && len(zipped) < len(plain) && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		plain = zipped
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(plain)))
	w.WriteHeader(status)
	_, _ = w.Write(plain) // fails only if the client is gone
}
