// Package queuetest is the contract of package queue as a program. It checks the invariants of docs/design.md, and
// every rule that an engine must follow, on any engine.
//
// The suite is deterministic: an engine takes its time from a clock that only the suite moves, instants are compared
// exactly, and nothing waits for work to settle. The suite looks at engines only through queue.Engine; each engine
// tests its own internals.
//
// Run checks one engine against the rules, and RunPart against some of them. Differential compares two engines by the
// same random operations at the same instants.
//
// The rest of this page has what the author of an engine needs to know and would otherwise have to guess from the
// suite. Instants are integer microseconds of the engine's clock. An engine reads its clock once a call, and the clock
// never runs back.
//
// # Order
//
// A queue counts the total cost of all jobs ever appended to it. A job's turn is that total before its own cost is
// added, minus its priority times 2^49. It keeps its turn for life. So a lane sorted by turn is sorted by priority,
// then by arrival. A job that comes back waits at its turn.
//
// # Append
//
// Jobs are decided in order. The first of these outcomes that applies is the answer:
//
//   - Invalid, by Job.Validate;
//   - UnknownQueue;
//   - Duplicate, or Conflict with another fingerprint, if the id is known; a call repeated after a lost reply gets the
//     same answer again;
//   - Lapsed, because ExpiresAt has passed;
//   - Invalid, because the job can never fit its queue or lane, or NotBefore is too far ahead;
//   - LaneFull, then ScheduleFull;
//   - the answer of the rules;
//   - Full;
//   - Lapsed, because the job would depart after ExpiresAt;
//   - Accepted.
//
// LaneFull and ScheduleFull are never deferred, since that would get around the lane's capacity.
//
// Rules are asked in order, the parent's first. A job is charged to every rule that allows it if it is Accepted or
// SetAside, and otherwise to none. Each job of a call sees the charges of the jobs before it. Jobs that come back from
// the overflow, or are replayed, imported or released, ask no rule.
//
// The ETA assumes that every lane with waiting jobs takes its turn. With i jobs before it in its lane, m other lanes
// and n waiting jobs, min(n, i x (m+1) + m) jobs are ahead of it. The ETA is the latest by the buckets of the queue,
// its lane, its limits and its parent. It is exact only if the queue's own pace alone decides it: the queue has never
// had a lane, a priority or a schedule, and no job in it is leased or held.
//
// Full promises staggered instants. Each refused caller is promised one interval T later than the caller before,
// beginning with the next departure. The promises start over once they reach further than a full queue takes to drain.
//
// # Reserve
//
// A request with the number of the client's last request gets the same answer again. Any other request does this:
//
//  1. It takes back up to 100 leases that ran out. Each spends an attempt.
//  2. It ends jobs that have expired, and lets scheduled jobs that are due wait.
//  3. It visits the queues from which a job may depart within the horizon, in the order of the instants at which that
//     became possible, ties by age of the queue.
//
// A visit grants jobs until the pace, Max, the bytes, max_in_flight or the queue's share ends it. Slots that passed
// before the visit are lost and counted, never granted.
//
// One client of each partition watches and is told exactly when to ask again. The others are told that time and a
// backup of 250 ms for each client seen lately, at most 2 s. A client that finds the watcher half a horizon late takes
// over, and is granted all that may depart. A watcher that asks at least once a horizon has a deputy: the first other
// client to ask, until it has not asked for 250 ms. The deputy is told to come half a horizon after the watcher, or
// three times the remaining time after it.
//
// A job that becomes due earlier publishes a Wakeup with the watcher's name, or without a name if nobody watches. A
// pull queue is visited only by requests that name it.
//
// # Lanes
//
// Lanes share a queue by self-clocked fair queueing (Golestani, INFOCOM 1994). The queue keeps served, the tag of the
// lane served last. A lane that becomes ready gets the tag served plus the cost of its first job. The ready lane with
// the lowest tag is next, ties by digest. Granting its job raises served to its tag, and adds that job's cost to the
// tag.
//
// A lane that waits for its own rate rests until an instant. A lane at its max_in_flight is busy. Neither is examined.
// A lane with a rate that becomes ready again keeps the tag that its last departure left, but it falls at most one
// round behind: it gets at least served less the length of a job of weight 1. It has forgotten the tag once its bucket
// delays nothing any more, as of the horizon. A lane never delays the queue's departures beyond its pace, since nothing
// is granted ahead for its sake. When a rule changes, all resting and busy lanes become ready, a hundred a visit, and
// each is judged again.
//
// # Limits and groups
//
// The next departure of a queue is the latest by its bucket, its other paces, its quotas and its stop. If a quota has
// less left than the next job costs, the rest is forfeited: cheaper jobs do not pass. A changed limit inherits the
// state of its predecessor. Removing and restoring a limit does not get around it, nor does deleting and making the
// queue.
//
// A parent's pace covers all members of its group: its children, and the parent itself for its own jobs. Members share
// the pace by start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996). A member that becomes ready gets the greater
// of its own finish and the group's served as its tag. Granting cost c sets served to its tag, and finish to its tag
// plus c. A departure may be granted ahead for the sake of a member's pace, as for the parent's.
//
// Pull children take turns with the others, but each class of clients serves only its own members: drainers the
// ordinary ones, the clients of a pull child only that child. A pull child whose client got less than it asked for has
// a claim, until its client is half a horizon late. It joins with its claim as a newly active member does. A request
// leaves the next slot to a member of others with a lower tag, if their clients can be expected to ask for it. It takes
// the slot itself from a quarter of a horizon before it. So no slot is lost, whoever stops asking. A member that others
// passed over counts as behind served by at most the slots of half a horizon.
//
// # How a lease ends
//
// A settlement needs a valid lease. A settlement equal to the last accepted one gets the same answer again, and any
// other is stale.
//
//   - Deliver and Bury end the job.
//   - Fail spends an attempt and schedules the job. At max_attempts, or after retry.deadline, it ends the job.
//   - Release spends nothing, and gives the slot back if no later departure was granted.
//   - Throttle stops the queue or the lane, and Down counts for the circuit. Neither spends an attempt.
//   - Hold keeps the job's place until Decide.
//
// A lease that runs out makes its job held or dead if on_unknown says so.
//
// A stop is a later next departure that earns no credit: the bucket is raised to it when the next job departs. An open
// circuit is a stop that each grant, a probe, renews for twice as long. Only a settlement closes the circuit, and
// failures while it is open spend no attempt. While attempts continue without an answer, an Extend counts a failure
// each time that circuit.slow has passed. Departures from before the last decrease of an adaptive rate do not lower it
// again.
//
// # Overflow
//
// A queue has a backlog while jobs are recorded as deferred or known to be on the overflow. During a backlog, and when
// the queue is full, a job that may wait is SetAside. Other jobs use only the places above the low-water mark.
//
// Readmit takes jobs in the order of the stream. It passes over all jobs at or below the queue's order, and each final
// outcome advances the order. The first job that finds no room, clashes, or is an orphan ends the call. A record whose
// job never came is given up once all jobs that were set aside up to half a minute later have been seen.
//
// # What is kept
//
// Ended jobs keep their state, fingerprint and last settlement for retention.for, at most retention.max of them. Dead
// jobs belong to a queue's name and outlive the queue. A deleted queue's bucket and limits are remembered by name.
// After a restart that may have lost writes, buckets are held for a burst and the costliest job. Embedded, the file has
// a ceiling that no grant has exceeded. Moving a queue keeps every job's state, place and attempts, but no lease.
//
// # Undefined
//
// The contract leaves open:
//
//   - the order in which jobs of several queues in one Append are decided;
//   - which of several queues' jobs goes first if they end in the same instant;
//   - when a lowered retention.max takes effect;
//   - whether a raised retention makes forgotten jobs known again.
package queuetest
