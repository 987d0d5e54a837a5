package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// listPage is how many jobs a command asks for at a time.
const listPage = 500

// listed collects jobs of a list, up to limit; 0 is all. One that is seen twice is
// listed once.
func listed(
	r *run, api *client.Client, queueName string, l client.List, limit int,
) (jobs []wire.Job, more bool, err error) {
	seen := map[string]bool{}
	jobs = []wire.Job{}
	for {
		l.Limit = listPage
		page, err := api.Jobs(r.ctx, queueName, l)
		if err != nil {
			return nil, false, err
		}
		for _, j := range page.Jobs {
			if seen[j.ID] {
				continue
			}
			if limit > 0 && len(jobs) == limit {
				return jobs, true, nil
			}
			seen[j.ID] = true
			jobs = append(jobs, j)
		}
		if page.Next == "" {
			return jobs, false, nil
		}
		l.After = page.Next
	}
}

// steps shows how far a command is that takes many requests.
type steps struct {
	r       *run
	what    string
	bar     *progressbar.ProgressBar // nil when standard error is no terminal
	started time.Time
	next    time.Time
}

func newSteps(r *run, what string, total int64) *steps {
	s := &steps{r: r, what: what, started: time.Now()}
	s.next = s.started.Add(plainEvery)
	if _, ok := terminal(r.Err); ok {
		s.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(r.Err), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("jobs"), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionUseANSICodes(true), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
	}
	return s
}

func (s *steps) show(done int64) {
	if s.bar != nil {
		_ = s.bar.Set64(min(done, s.bar.GetMax64())) // it fails only when drawing does
		return
	}
	if now := time.Now(); now.After(s.next) {
		s.next = now.Add(plainEvery)
		s.r.say("%s: %d jobs, %.0f/s", s.what, done, float64(done)/now.Sub(s.started).Seconds())
	}
}

func (s *steps) end() {
	if s.bar != nil {
		_ = s.bar.Clear()
	}
}

// confirm asks for a word, the queue's name as a rule, before something is lost.
func confirm(r *run, word, what string) error {
	if f, ok := r.In.(*os.File); ok {
		if _, isTerminal := terminal(f); !isTerminal {
			return usage(fmt.Errorf("%s: give --yes to do it without being asked", what))
		}
	}
	_, _ = fmt.Fprintf(r.Err, "%s. Type %s to go on: ", what, word)
	answer, _ := bufio.NewReader(r.In).ReadString('\n') // nothing typed is no
	if strings.TrimSpace(answer) != word {
		return &ended{ExitRefused, errors.New("left alone")}
	}
	return nil
}

// plural is a number of jobs.
func plural(n int64) string {
	if n == 1 {
		return "1 job"
	}
	return num(n) + " jobs"
}
