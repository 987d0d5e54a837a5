package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/browser"
)

// The page of a queue has the picture with its forecast, and the form to try another rate.
func TestPictureOfQueue(t *testing.T) {
	scene := pictureScenes()["busy"]
	h := New(Options{API: scene})
	for query, c := range map[string]struct{ has, lacks []string }{
		"": {
			[]string{
				`role="img" aria-label="Arrivals and departures. 2,630 jobs in queue. Done about 14:11 UTC`,
				">lane gmail.com is empty</text>", `class="handle"`, `<input name="rate" value="" placeholder="14/s"`,
				`<a href="/console/queues/email?window=15m" data-key="15m" aria-current="true">15 minutes</a>`,
				`class="pole mark"`, ">deployed drainer v2.4.1</td>",
				`<p class="wrong" id="rate-wrong" role="status" data-live></p>`,
			}, []string{"28/s", "NaN", "style=", "<no value>"},
		},
		"?rate=28%2Fs&window=24h": {
			[]string{
				`<input name="rate" value="28/s"`, `At 28/s: <strong class="">done about 14:04:03 UTC</strong>`,
				">at 28/s: done 14:04:03</td>", `<input type="hidden" name="window" value="24h">`,
				`<a href="/console/queues/email?window=24h" data-soft>Clear</a>`,
				`<a href="/console/queues/email?rate=28%2Fs&amp;window=15m" data-key="15m">15 minutes</a>`,
			}, []string{"NaN"},
		},
		"?rate=fast": {
			[]string{
				`<input name="rate" value="fast"`, "data-live>rate: invalid rate &#34;fast&#34;</p>", "Done about 14:11 UTC",
			}, []string{"At fast", "Clear</a>"},
		},
		"?window=2h": {[]string{`aria-current="true">15 minutes</a>`}, nil},
	} {
		page := visit(t, h, "GET", "/console/queues/email"+query, goodToken, nil)
		if page.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", query, page.StatusCode)
		}
		for _, text := range c.has {
			if !strings.Contains(page.body, text) {
				t.Errorf("%s: without %s", query, text)
			}
		}
		for _, text := range c.lacks {
			if strings.Contains(page.body, text) {
				t.Errorf("%s: with %s", query, text)
			}
		}
	}
}

// The overview has the picture of the queues that it selects, without the forecast if the API has none.
func TestPictureOfQueues(t *testing.T) {
	scene := pictureScenes()["busy"]
	h := New(Options{API: scene})
	for _, none := range []bool{false, true} {
		scene.none = none
		page := visit(t, h, "GET", "/console/?name=mail", goodToken, nil)
		has := []string{
			"email paused: wrong link in the footer</text>", "2,630 jobs in queue",
			`<a href="/console/?name=mail&amp;window=24h" data-key="24h" data-soft>24 hours</a>`,
		}
		forecast := []string{"lane gmail.com is empty", "Done about 14:11 UTC"}
		lacks := []string{`class="handle"`, `name="rate"`, "NaN"}
		if none {
			lacks = append(lacks, forecast...)
		} else {
			has = append(has, forecast...)
		}
		for n, text := range append(has, lacks...) {
			want := n < len(has)
			if page.StatusCode != http.StatusOK || strings.Contains(page.body, text) != want {
				t.Errorf("without a forecast %v: %d, with %s: %v", none, page.StatusCode, text, !want)
			}
		}
	}
}

// The curves of the overview sum up the queues that its filter selects.
func TestPictureFollowsTheFilter(t *testing.T) {
	scene := pictureScenes()["busy"]
	var asked []string
	h := New(Options{API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/curves" || r.URL.Path == "/v1/forecast" {
			asked = append(asked, r.URL.Path+"?"+r.URL.RawQuery)
		}
		scene.ServeHTTP(w, r)
	})})
	for query, want := range map[string]string{
		"":                        "[/v1/curves?window=15m /v1/forecast?]",
		"?name=mail":              "[/v1/curves?name=mail&window=15m /v1/forecast?name=mail]",
		"?state=full&window=24h":  "[/v1/curves?queues=email&window=24h /v1/forecast?queues=email]",
		"?sort=-fill&window=none": "[/v1/curves?window=15m /v1/forecast?]",
	} {
		asked = nil
		visit(t, h, "GET", "/console/"+query, goodToken, nil)
		if fmt.Sprint(asked) != want {
			t.Errorf("%s asks for %v, want %s", query, asked, want)
		}
	}
}

// In a real browser no text of a picture covers another one, at any width and in any scene, and nothing overflows.
func TestPictureFits(t *testing.T) {
	scenes := pictureScenes()
	now := scenes["busy"]
	server := httptest.NewServer(New(Options{API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now.ServeHTTP(w, r)
	})}))
	defer server.Close()
	defer server.CloseClientConnections()
	p := browser.New(t, browser.Options{})
	p.Go(server.URL + "/console/sign-in")
	p.Type("input[name=token]", goodToken)
	p.Click("button.primary")
	p.Text("#overview")
	for name, scene := range scenes {
		p.Go("about:blank")
		now = scene
		query := url.Values{"rate": {"28/s"}}
		if name == "day" {
			query.Set("window", "24h")
		}
		p.Go(server.URL + "/console/queues/email?" + query.Encode())
		for _, width := range []int64{2000, 1440, 1024, 700, 390} {
			p.Resize(width, 900)
			for _, wrong := range browser.Value[[]string](p, `(() => {
				const wrong = [], box = (e) => e.getBoundingClientRect();
				const texts = [...document.querySelectorAll("#picture .drawing text")].filter((e) => box(e).width);
				texts.forEach((a, n) => texts.slice(n + 1).forEach((b) => {
					const [x, y] = [box(a), box(b)];
					if (x.left < y.right && y.left < x.right && x.top + 2 < y.bottom - 2 && y.top + 2 < x.bottom - 2)
						wrong.push(a.textContent + " covers " + b.textContent);
				}));
				const card = box(document.querySelector(".picture"));
				for (const e of texts) if (box(e).right > card.right || box(e).left < card.left)
					wrong.push(e.textContent + " is outside");
				if (texts.length < 4) wrong.push("only " + texts.length + " texts");
				return wrong;
			})()`) {
				t.Errorf("%s at %d px: %s", name, width, wrong)
			}
		}
	}
	p.Wrong() // the API of this test has no events
}
