// Command plainproxy is the peer of the pacing proxy: httputil.ReverseProxy in front of the URL in its argument.
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
	to, err := url.Parse(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024},
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", l.Addr())
	log.Fatal((&http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}).Serve(l))
}
