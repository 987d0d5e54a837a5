package queuetest

import (
	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
)

// pairPull is usually a pull queue. Its name puts it on the partition of the others, whatever the number of partitions.
const pairPull = "pull5"

// somePull draws whether a queue is a pull queue.
func (p *pair) somePull(name string) bool {
	n := rapid.IntRange(0, 19).Draw(p.T, "pull")
	return n == 19 && name != "g.keep" || name == pairPull && n > 3
}

func (p *pair) pull() {
	name := pairPull
	if rapid.IntRange(0, 9).Draw(p.T, "another") == 9 {
		name = p.queueName()
	}
	p.pullAs(rapid.SampledFrom(p.clients).Draw(p.T, "client"), name, rapid.IntRange(1, 8).Draw(p.T, "max"))
}

func (p *pair) pullAs(client, name string, most int) int {
	client += "-" + name
	p.numbers[client]++
	req := queue.ReserveRequest{
		Client: queue.Client{ID: client, Name: client, Version: "1"}, Number: p.numbers[client], Max: most, Queue: name,
	}
	p.drawDistance(&req)
	twins := p.request("pull "+name+" by", req, true)
	if !p.refused { // a refused request cannot be repeated
		p.grants[client] = &request{req, twins}
	}
	p.twins = append(p.twins, twins...)
	return len(twins)
}

// pullAll reserves and delivers the jobs of pull queues.
func (p *pair) pullAll() (n int) {
	for _, q := range pairQueues {
		if i, err := p.engines[0].Get(p.ctx, q); err == nil && i.Spec.Pull {
			n += p.pullAs(p.clients[0], q, 100)
		}
	}
	return n
}
