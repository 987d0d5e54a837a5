// Command plainproxy is the peer of the pacing proxy: httputil.ReverseProxy in front of the URL in its argument.
// Without an argument, its calls wait until their callers leave, which shows what a waiting call costs net/http alone.
package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	handler := http.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	if len(os.Args) > 1 {
		to, err := url.Parse(os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		handler = &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
			Transport: &http.Transport{MaxIdleConnsPerHost: 1024},
		}
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", l.Addr())
	log.Fatal((&http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}).Serve(l))
}
