package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/client"
)

// clientLanguages are the languages of the clients that are measured.
var clientLanguages = [...]string{"go", "typescript", "python"}

// clientDrivers are the commands of the drivers that were built. The conformance tests use these drivers too.
var clientDrivers = map[string][]string{}

// clientDriver builds the driver of a client, once. Call it in the repository.
func clientDriver(ctx context.Context, language string) ([]string, error) {
	if c := clientDrivers[language]; c != nil {
		return c, nil
	}
	dir, err := programs(ctx)
	if err != nil {
		return nil, err
	}
	run := func(args ...string) {
		if err != nil {
			return
		}
		var out []byte
		if out, err = exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			err = fmt.Errorf("%v: %w: %s", args, err, out)
		}
	}
	var command []string
	switch language {
	case "go":
		command = []string{filepath.Join(dir, "client-driver")}
		run("go", "build", "-trimpath", "-o", command[0], "./client/internal/driver")
	case "typescript":
		command = []string{"node", "clients/typescript/dist/test/driver.js"}
		run("npm", "--prefix", "clients/typescript", "ci", "--no-audit", "--no-fund")
		run("npm", "--prefix", "clients/typescript", "run", "build")
	default:
		command = []string{"python3", "-u", "clients/python/tests/driver.py"}
	}
	if err == nil {
		clientDrivers[language] = command
	}
	return command, err
}

// clientProcess is a process of a client, which makes the calls that it is told.
type clientProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu    sync.Mutex
	n     int
	calls map[int]chan clientAnswer
}

type clientAnswer struct {
	N     int             `json:"n"`
	OK    json.RawMessage `json:"ok"`
	Error json.RawMessage `json:"error"`
}

func startClient(ctx context.Context, language, url string) (*clientProcess, error) {
	command, err := clientDriver(ctx, language)
	if err != nil {
		return nil, err
	}
	p := &clientProcess{cmd: exec.CommandContext(ctx, command[0], command[1:]...), calls: map[int]chan clientAnswer{}}
	p.cmd.Env = append(os.Environ(), "PENSTOCK_URL="+url, "PENSTOCK_TOKEN=", "PENSTOCK_TOKEN_FILE=")
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var a clientAnswer
			if json.Unmarshal(lines.Bytes(), &a) != nil {
				continue
			}
			p.mu.Lock()
			done := p.calls[a.N]
			delete(p.calls, a.N)
			p.mu.Unlock()
			if done != nil {
				done <- a
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, done := range p.calls {
			close(done) // it was killed
		}
		p.calls = nil
	}()
	return p, nil
}

// errClientGone is returned by calls of a process that was killed.
var errClientGone = errors.New("the process of the client has ended")

func (p *clientProcess) call(what string, args map[string]any) (json.RawMessage, error) {
	done := make(chan clientAnswer, 1)
	p.mu.Lock()
	if p.calls == nil {
		p.mu.Unlock()
		return nil, errClientGone
	}
	p.n++
	p.calls[p.n] = done
	line, err := json.Marshal(map[string]any{"n": p.n, "call": what, "args": args})
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	p.mu.Unlock()
	if err != nil {
		return nil, errClientGone
	}
	a, answered := <-done
	switch {
	case !answered:
		return nil, errClientGone
	case a.Error != nil:
		return nil, fmt.Errorf("%s: %s", what, a.Error)
	}
	return a.OK, nil
}

func (p *clientProcess) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// clientServer starts an embedded server with a pull queue.
func clientServer(ctx context.Context, spec string) (url string, stop func(), err error) {
	dir, err := programs(ctx)
	if err != nil {
		return "", nil, err
	}
	data, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return "", nil, err
	}
	server, err := start(ctx, dir, "penstock", "up", "--data", data, "--no-auth")
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(data))
	}
	stop = func() {
		server.stop()
		_ = os.RemoveAll(data)
	}
	c, err := client.New(server.url, client.WithToken(""))
	if err == nil {
		_, err = c.PutQueue(ctx, "q", json.RawMessage(spec))
	}
	if err != nil {
		stop()
		return "", nil, err
	}
	return server.url, stop, nil
}

// clientStream streams jobs from one process of a client.
func clientStream(language string, goal float64) Figure {
	return Figure{
		Name: "client-stream-" + language, Unit: "jobs/s, one stream of one process, fsynced", Rounds: 3,
		Goal: fmt.Sprintf("%.0f/s", goal), Met: func(ours, _, _ float64) bool { return ours >= goal },
		Setup: func(ctx context.Context) (Measurements, error) {
			url, stop, err := clientServer(ctx, `{"rate": "unlimited", "pull": true, "capacity": 10000000}`)
			if err != nil {
				return Measurements{}, err
			}
			round := 0
			return Measurements{Close: stop, Ours: func(ctx context.Context) (float64, error) {
				p, err := startClient(ctx, language, url)
				if err != nil {
					return 0, err
				}
				defer p.stop()
				stream := func(n int) error {
					round++
					_, err := p.call("append_stream", map[string]any{
						"queue": "q", "count": n, "prefix": fmt.Sprintf("r%d-", round), "payload_size": 256, "retry_for": 60,
					})
					return err
				}
				if err := stream(1000); err != nil { // the process is warm then
					return 0, err
				}
				n, began := sized(200_000), time.Now()
				err = stream(n)
				return float64(n) / time.Since(began).Seconds(), err
			}}, nil
		},
	}
}

// clientTurn compares a turn through a client with a bare request for one, in the same process.
func clientTurn(language string, goal float64) Figure {
	return Figure{
		Name: "client-turn-" + language, Rounds: 3,
		Unit: "ms, p50 of a turn on an idle queue less that of a bare request in the same language",
		Goal: fmt.Sprintf("%.1f ms", goal), Met: func(ours, _, _ float64) bool { return ours <= goal },
		Setup: func(ctx context.Context) (Measurements, error) {
			url, stop, err := clientServer(ctx, `{"rate": "unlimited", "pull": true}`)
			if err != nil {
				return Measurements{}, err
			}
			return Measurements{Close: stop, Ours: func(ctx context.Context) (float64, error) {
				p, err := startClient(ctx, language, url)
				if err != nil {
					return 0, err
				}
				defer p.stop()
				said, err := p.call("time_turns", map[string]any{
					"queue": "q", "url": url + "/v1/queues/q/turns", "count": sized(500),
				})
				if err != nil {
					return 0, err
				}
				var took struct{ Bare, Client []float64 }
				if err := json.Unmarshal(said, &took); err != nil {
					return 0, err
				}
				slices.Sort(took.Bare)
				slices.Sort(took.Client)
				return 1e3 * (took.Client[len(took.Client)/2] - took.Bare[len(took.Bare)/2]), nil
			}}, nil
		},
	}
}
