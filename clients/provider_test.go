package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// providerEvents is how many events the provider sends at /provider/events.
const providerEvents = 3

// provide plays the provider. At /provider/echo it answers with the request, and at /provider/events with events. It
// sends an event only after the one before was acknowledged at /provider/ack, so that events which are held back
// anywhere never come.
func (p *proxy) provide(w http.ResponseWriter, r *http.Request) {
	switch path := strings.TrimPrefix(r.URL.Path, "/provider"); {
	case path == "/ack":
		select {
		case p.acks <- struct{}{}:
		case <-r.Context().Done():
		}
	case path == "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range providerEvents {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", n+1)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-p.acks:
			case <-r.Context().Done():
				return
			}
		}
	case strings.HasPrefix(path, "/echo"):
		own := []string{}
		for name := range r.Header {
			if strings.HasPrefix(name, "Penstock-") {
				own = append(own, name)
			}
		}
		slices.Sort(own)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"method": r.Method, "uri": r.RequestURI, "body": string(readAll(r.Body)),
			"authorization": r.Header.Get("Authorization"), "penstock": own,
		})
	default:
		_, _ = io.WriteString(w, `{"provider":true}`)
	}
}
