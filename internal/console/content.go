package console

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/wire"
)

// How much of what a job carries is shown.
const (
	maxShownText   = 64 << 10
	maxShownBinary = 1 << 10
)

// content is what a job carries, as it can be read.
type content struct {
	Type    string
	Headers [][2]string
	Text    string
	Size    int64
	// Cut is whether Text is a part of it, Binary whether it is one of a dump in hex.
	Cut, Binary bool
}

func contentOf(j *wire.Job) (c content) {
	c.Type = j.ContentType
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		c.Headers = append(c.Headers, [2]string{name, j.Headers[name]})
	}
	body := []byte(j.Payload)
	if j.PayloadBase64 != nil {
		body, _ = base64.StdEncoding.DecodeString(*j.PayloadBase64) // the API made it
	}
	c.Size = int64(len(body))
	if !utf8.Valid(body) || bytes.ContainsRune(body, 0) {
		c.Binary, c.Cut = true, len(body) > maxShownBinary
		c.Text = hex.Dump(body[:min(len(body), maxShownBinary)])
		return c
	}
	if j.PayloadBase64 == nil && len(body) <= maxShownText { // JSON that the API took for such, and is not too deep
		var pretty bytes.Buffer
		if json.Indent(&pretty, body, "", "  ") == nil {
			body = pretty.Bytes()
		}
	}
	c.Text = clip.Text(string(body[:min(len(body), maxShownText+utf8.UTFMax)]), maxShownText)
	c.Cut = len(c.Text) < len(body)
	return c
}
