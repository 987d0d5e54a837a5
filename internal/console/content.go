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

// Bytes of a payload that are shown.
const (
	maxShownText   = 64 << 10
	maxShownBinary = 1 << 10
)

// content is the readable form of a job's payload.
type content struct {
	Type    string
	Headers [][2]string
	Text    string
	Size    int64
	// Cut reports whether Text is truncated, Binary whether Text is a hex dump.
	Cut, Binary bool
}

func contentOf(j *wire.Job) (c content) {
	c.Type = j.ContentType
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		c.Headers = append(c.Headers, [2]string{name, j.Headers[name]})
	}
	body := []byte(j.Payload)
	if j.PayloadBase64 != nil {
		body, _ = base64.StdEncoding.DecodeString(*j.PayloadBase64) // valid: the API encoded it
	}
	c.Size = int64(len(body))
	if !utf8.Valid(body) || bytes.ContainsRune(body, 0) {
		c.Binary, c.Cut = true, len(body) > maxShownBinary
		c.Text = hex.Dump(body[:min(len(body), maxShownBinary)])
		return c
	}
	if j.PayloadBase64 == nil && len(body) <= maxShownText { // the API has checked that it is JSON and not too deep
		var pretty bytes.Buffer
		if json.Indent(&pretty, body, "", "  ") == nil {
			body = pretty.Bytes()
		}
	}
	c.Text = clip.Text(string(body[:min(len(body), maxShownText+utf8.UTFMax)]), maxShownText)
	c.Cut = len(c.Text) < len(body)
	return c
}
