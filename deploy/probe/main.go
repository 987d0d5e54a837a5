// Probe checks whether a server on the same machine is ready, for health checks of containers without a shell:
// "probe http://127.0.0.1:8080/readyz" exits with 0 if the answer is 200. Otherwise it prints the reason and exits with
// 1.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"
)

const timeout = 3 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "probe: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("give one URL, for example http://127.0.0.1:8080/readyz")
	}
	u, err := url.Parse(args[0])
	if err != nil {
		return err
	}
	// The certificate is for the public name, so it is not verified. That is safe on loopback only.
	if ip, err := netip.ParseAddr(u.Hostname()); err != nil || !ip.IsLoopback() {
		return fmt.Errorf("%s: must be an address of this machine, for example 127.0.0.1", args[0])
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // a part is enough
		return fmt.Errorf("%s: %s %s", args[0], resp.Status, why)
	}
	return nil
}
