package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

//go:embed templates
var templateFiles embed.FS

// templates are the parsed pages by name, each with the layout and the shared parts.
type templates map[string]*template.Template

// parseTemplates parses layout.html and part-*.html, which all pages share, and the pages. It panics on an invalid
// template.
func parseTemplates(c *Console) *templates {
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err)
	}
	base := template.Must(template.New("layout.html").Funcs(c.funcs()).
		ParseFS(templateFiles, "templates/layout.html", "templates/part-*.html"))
	all := templates{}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".html")
		if name == "layout" || strings.HasPrefix(name, "part-") {
			continue
		}
		t := template.Must(template.Must(base.Clone()).ParseFS(templateFiles, "templates/"+f.Name()))
		all[name] = t
	}
	return &all
}

// view is the data of a template.
type view struct {
	Page  *page // nil for a page outside the table
	Title string
	Who   wire.Whoami
	Data  any // the result of the page's read

	// render sets the fields below.
	Theme    string
	Here     string // the path of the page
	SignedIn bool   // with a session
	Nav      []navEntry
	Now      time.Time
	AsOf     time.Time // of the data: Now unless the data is older
	Script   string    // the page's script; may be empty
	Version  string
}

// navEntry is a link in the navigation.
type navEntry struct {
	Name, URL string
	Current   bool
}

// render answers with a page.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, name string, v *view) {
	v.Theme, v.Now, v.Version = themeOf(r), time.Now().UTC(), c.o.Version
	v.AsOf = v.Now
	if older, is := v.Data.(interface{ asOf() time.Time }); is && !older.asOf().IsZero() {
		v.AsOf = older.asOf()
	}
	v.Here = c.ownPath(c.o.Prefix + r.URL.RequestURI())
	v.SignedIn = tokenOf(r) != "" && len(v.Who.Grants) > 0
	v.Nav = c.navOf(v)
	if _, is := c.assets.files["js/"+name+".js"]; is {
		v.Script = c.asset("js/" + name + ".js")
	}
	var page bytes.Buffer
	if err := (*c.pages)[name].Execute(&page, v); err != nil {
		http.Error(w, "cannot render the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	v.Data = nil // free the data before the client has read the page
	var zipped []byte
	if page.Len() > 1400 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		zipped = compressed(page.Bytes(), gzip.BestSpeed)
	}
	size := 0
	if page.Len() > freeSize {
		size = page.Cap() + cap(zipped)
	}
	if err := heldFor(r).become(int64(size)); err != nil && name != "problem" {
		c.problem(w, r, v.Who, faultOf(err))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	write(w, r, status, page.Bytes(), zipped)
}

// navOf returns links to the pages that the user's roles allow.
func (c *Console) navOf(v *view) (entries []navEntry) {
	for i := range pages {
		p := &pages[i]
		if p.nav == "" || !mayHave(v.Who, p.role) {
			continue
		}
		open := v.Page != nil && (v.Page.name == p.name || strings.HasPrefix(v.Page.path, p.path+"/"))
		entries = append(entries, navEntry{Name: p.nav, URL: c.root + strings.TrimSuffix(p.path, "{$}"), Current: open})
	}
	return entries
}

func (c *Console) asset(name string) string {
	return c.root + "/assets/" + c.assets.digest + "/" + name
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
