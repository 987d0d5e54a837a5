package redisq_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

const epoch leaky.Instant = 1_700_000_000_000_000

// lossy is a store whose server dies and comes back as it was at an earlier
// instant. Time stands still but for what the test lets pass, so that the
// restart itself gives no queue a rest.
type lossy struct {
	*env
	server  *redistest.Server
	persist persistence
	at      leaky.Instant
	copied  string // the older files
	starts  []law.Start
	jobs    int
}

// persistence is how a Redis keeps what it knows.
type persistence struct {
	name    string
	options redistest.Options
	files   string // in its directory
	// write brings the files up to date, cut makes of a copy what a crash leaves.
	write func(*lossy)
	cut   func(l *lossy, rnd *rand.Rand)
}

var persistences = []persistence{
	{
		"aof everysec cut short",
		redistest.Options{AppendFsync: "everysec", Args: []string{"--auto-aof-rewrite-percentage", "0"}},
		"appendonlydir",
		func(*lossy) {}, // it is written before anything is answered; only fsync waits
		(*lossy).cutAOF,
	},
	{
		"older rdb snapshot",
		redistest.Options{},
		"dump.rdb",
		func(l *lossy) {
			if err := l.server.Client().Save(l.ctx).Err(); err != nil {
				l.t.Fatal(err)
			}
		},
		func(*lossy, *rand.Rand) {},
	},
}

func newLossy(t *testing.T, p persistence) *lossy {
	t.Helper()
	l := &lossy{persist: p, server: redistest.New(t, p.options), at: epoch}
	l.env = open(t, l.server.Client(), redisq.Options{
		Init: true, Partitions: 1,
		Now: func() leaky.Instant { return l.at },
	})
	return l
}

func (l *lossy) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// keep takes the copy that lose goes back to.
func (l *lossy) keep() {
	l.t.Helper()
	l.persist.write(l)
	l.copied = l.t.(*testing.T).TempDir()
	l.copy(l.server.Dir(), l.copied)
}

// lose kills the server and starts it on the copy.
func (l *lossy) lose(rnd *rand.Rand) {
	l.t.Helper()
	l.must(l.server.Kill())
	l.persist.cut(l, rnd)
	l.must(os.RemoveAll(filepath.Join(l.server.Dir(), l.persist.files)))
	l.copy(l.copied, l.server.Dir())
	l.must(l.server.Restart(l.ctx))
	deadline := time.Now().Add(10 * time.Second)
	for err := l.e.Check(l.ctx); err != nil; err = l.e.Check(l.ctx) {
		if time.Now().After(deadline) {
			l.t.Fatalf("redis does not come back: %v", err)
		}
	}
}

func (l *lossy) copy(from, to string) {
	l.t.Helper()
	source := filepath.Join(from, l.persist.files)
	info, err := os.Stat(source)
	l.must(err)
	if info.IsDir() {
		l.must(os.CopyFS(filepath.Join(to, l.persist.files), os.DirFS(source)))
		return
	}
	data, err := os.ReadFile(source)
	l.must(err)
	l.must(os.WriteFile(filepath.Join(to, l.persist.files), data, 0o600))
}

// cutAOF cuts some bytes off the end, as likely as not in the midst of a script's writes.
func (l *lossy) cutAOF(rnd *rand.Rand) {
	l.t.Helper()
	files, err := filepath.Glob(filepath.Join(l.copied, l.persist.files, "*.incr.aof"))
	l.must(err)
	if len(files) != 1 {
		l.t.Fatalf("the AOF is %v", files)
	}
	info, err := os.Stat(files[0])
	l.must(err)
	l.must(os.Truncate(files[0], info.Size()-min(rnd.Int64N(2000), info.Size()/2)))
}

func (l *lossy) add(name string, cost int64) {
	l.t.Helper()
	j := job(name, l.jobs)
	j.Cost = cost
	l.jobs++
	if a := l.append(j); a[0].Outcome != queue.Accepted {
		l.t.Fatalf("append: %+v", a)
	}
}

// start notes that a job starts, at its departure.
func (l *lossy) start(j queue.Reservation) {
	l.starts = append(l.starts, law.Start{At: time.Duration(l.at-epoch)*time.Microsecond + j.In, Cost: j.Cost})
}

// judge holds all that started to the window law. A departure is rounded up to a microsecond.
func (l *lossy) judge(rate leaky.Rate, burst int64) {
	l.t.Helper()
	rule := law.Law{Rate: rate, Burst: burst, MaxCost: 1, Delta: time.Microsecond}
	for _, s := range l.starts {
		rule.MaxCost = max(rule.MaxCost, s.Cost)
	}
	if v := rule.Judge(l.starts); !v.Held {
		var near strings.Builder
		for _, s := range l.starts {
			if d := s.At - v.Worst.From; d >= 0 && d <= v.Worst.Width {
				fmt.Fprintf(&near, " %v(%d)", s.At, s.Cost)
			}
		}
		l.t.Errorf("the window law is broken: %d started within %v from %v, %d may; it lacks %v:%s",
			v.Worst.Starts, v.Worst.Width, v.Worst.From, v.Worst.Allowed, v.Needed, near.String())
	}
}

// Whatever a restart lost, what was granted before it and what is granted after
// it obey the window law together.
func TestWindowLawWhateverWasLost(t *testing.T) {
	t.Parallel()
	for _, p := range persistences {
		for _, c := range []struct {
			rate  string
			burst int64
			costs int64
		}{
			{"3/s", 1, 1},
			{"1000/s", 1, 1},
			{"20/s", 5, 1},
			{"10/s", 1, 6},
			{"7/m", 3, 4},
		} {
			t.Run(fmt.Sprintf("%s/%s burst %d costs to %d", p.name, c.rate, c.burst, c.costs), func(t *testing.T) {
				rate, err := leaky.ParseRate(c.rate)
				if err != nil {
					t.Fatal(err)
				}
				rnd := rand.New(rand.NewPCG(uint64(c.burst), uint64(c.costs)))
				l := newLossy(t, p)
				put := func() { l.put("email", rate, func(s *queue.Spec) { s.Burst = c.burst }) }
				put()
				interval := leaky.Instant(rate.Interval().Microseconds())
				costs := int64(1)
				work := func(steps int) {
					for range steps {
						for range rnd.IntN(3) {
							l.add("email", 1+rnd.Int64N(costs)*rnd.Int64N(2))
						}
						for _, j := range l.reserve("email").Jobs {
							s := deliver(j)[0]
							if rnd.IntN(10) == 0 {
								s.Verdict = queue.Release // and it does not start
							} else {
								l.start(j)
							}
							if rnd.IntN(2) == 0 {
								l.settle(s)
							}
						}
						if rnd.IntN(30) == 0 { // no way around the rate
							l.must(l.e.Delete(l.ctx, "email", queue.AnyRevision, true))
							put()
						}
						l.at += leaky.Instant(rnd.Int64N(int64(interval)))
					}
				}
				lost := 0
				for round := range int64(8) {
					work(20)
					l.keep()
					kept := len(l.starts)
					costs = min(1+round, c.costs) // the costliest so far is lost with the rest
					work(5 + rnd.IntN(20))
					lost += len(l.starts) - kept
					l.lose(rnd)
					put() // it may have been lost, and then nobody knows that it granted
					l.at += leaky.Instant(rnd.IntN(1000))
				}
				work(100)
				if lost < 8 {
					t.Errorf("only %d grants were lost", lost)
				}
				l.judge(rate, c.burst)
			})
		}
	}
}

// wait lets time pass until n more have started.
func (l *lossy) wait(name string, n int) {
	l.t.Helper()
	for end := l.at + 3600_000_000; n > 0; l.at += 20_000 {
		for _, j := range l.reserve(name).Jobs {
			l.start(j)
			n--
		}
		if l.at > end {
			l.t.Fatalf("nothing starts for an hour: %+v", l.info(name))
		}
	}
}

// What the hold after a restart must cover may be lost as well: that a job as
// costly as those to come was granted, and the queue itself.
func TestHoldWhateverWasLost(t *testing.T) {
	t.Parallel()
	for _, p := range persistences {
		p.cut = func(*lossy, *rand.Rand) {} // just what comes after keep is lost
		t.Run(p.name+"/the costliest job", func(t *testing.T) {
			for _, burst := range []int64{1, 3} {
				l := newLossy(t, p)
				l.put("email", leaky.PerSecond(1), func(s *queue.Spec) { s.Burst = burst })
				l.add("email", 1)
				l.wait("email", 1)
				l.keep()
				l.at += 10_000_000
				for range burst + 1 {
					l.add("email", 5)
				}
				l.wait("email", int(burst+1))
				l.lose(nil)
				l.add("email", 1)
				l.wait("email", 1) // under a hold that knows of no cost but 1
				for range 3 {
					l.add("email", 5)
					l.add("email", 2)
				}
				l.wait("email", 6)
				l.judge(leaky.PerSecond(1), burst)
			}
		})
		t.Run(p.name+"/the queue", func(t *testing.T) {
			l := newLossy(t, p)
			l.put("other", leaky.PerSecond(1), nil)
			l.keep()
			for range 2 {
				l.put("email", leaky.PerSecond(1), nil)
				l.add("email", 1)
				l.add("email", 1)
				l.wait("email", 1)
				if len(l.starts) == 1 {
					l.lose(nil)
				}
			}
			l.judge(leaky.PerSecond(1), 1)
		})
	}
}
