// Package queuetest is the contract of package queue as a program: the invariants of docs/design.md and every rule
// that an engine follows, for any engine to run.
//
// It promises determinism: the engine takes its time from a clock that only the suite moves, instants are compared
// exactly, and nothing waits for anything to settle. It refuses to look inside an engine: what cannot be told from
// outside through queue.Engine is left to that engine's own tests.
//
// Run holds one engine against the rules. Differential holds two engines against each other, on the same random
// operations at the same instants.
//
// What follows is what somebody who writes an engine must know and would otherwise have to guess from the suite.
// Instants are integer microseconds of the engine's clock. It is read once a call, and never runs back.
//
// # Order
//
// A queue counts the cost of all that was ever appended to it. A job's turn is that count before its own cost was
// added, less its priority times 2^49, and it keeps its turn for life. So a lane in order of turn is in order of
// priority, and within one of arrival. A job that comes back waits at its turn.
//
// # Append
//
// Jobs are decided in order. The first that applies is the answer: Invalid, by Job.Validate; UnknownQueue; the id is
// known (Duplicate, or Conflict if the fingerprint is another one; the same call repeated after a lost reply answers
// as it did); Lapsed, because ExpiresAt has passed; Invalid, because the job can never fit its queue or lane, or
// NotBefore is too far ahead; LaneFull; ScheduleFull; what the rules say; Full; Lapsed, because it would depart after
// ExpiresAt. Else it is Accepted. Neither LaneFull nor ScheduleFull is ever deferred: that would be a way around the
// lane's capacity.
//
// Rules are asked in their order, the parent's first. A job is charged to all that allow it when, and only when, it is
// Accepted or SetAside, else to none. Jobs of one call see what those before them took. What comes back from the
// overflow, is replayed, imported or released is asked nothing.
//
// The ETA assumes that every lane in which jobs wait takes its turn: with i jobs before it in its lane, m other lanes
// and n jobs waiting, min(n, i x (m+1) + m) are ahead of it. It is the latest by the bucket of the queue, its lane, its
// limits and its parent, and exact only where nothing but the queue's own pace decides it: a queue that never had a
// lane, a priority or a schedule, and in which nothing is leased or held.
//
// Full promises staggered instants: each refused caller is told one interval T later than the one before, beginning
// when the next job leaves, and starting over when the promise would reach further than a full queue takes to drain.
//
// # Reserve
//
// A request under the number of the client's last one is answered as that was. Else it takes back up to 100 leases that
// ran out (each spends an attempt), ends jobs that have expired, lets scheduled jobs that are due wait, and visits the
// queues from which something may depart within the horizon, in order of the instant at which that became possible,
// then of the order in which the queues were made. A visit grants job after job until the pace, Max, the bytes,
// max_in_flight or the queue's share ends it. Slots that passed before the visit are lost and counted, never granted.
//
// One client a partition watches and is told exactly when to ask again. The others are told that time and a backup of
// 250 ms for each client seen lately, at most 2 s. Who finds the watcher half a horizon late takes over: until then all
// that can depart is granted. A watcher that asks once a horizon or more often has a deputy, the first of the others to
// ask while there is none that asked within 250 ms: it is told to come half a horizon after the watcher, or three times
// as long after it as that has yet to come.
//
// What becomes due earlier publishes a Wakeup with the watcher's name, or with none if nobody watches. A pull queue is
// on no agenda but that of requests that name it.
//
// # Lanes
//
// Lanes share a queue by self-clocked fair queueing (Golestani, INFOCOM 1994). The queue keeps served, the tag of the
// lane that was served last. A lane that becomes ready gets served plus the cost of its first job; the ready lane with
// the lowest tag is next, ties by digest; when its job was granted, served is its tag, and its tag grows by that
// job's cost. A lane that waits for its own rate rests until an instant, and one with as many in flight as it may is
// busy; neither is looked at. A lane never makes the queue grant later than its own pace says: nothing is granted ahead
// for its sake. A changed rule makes all that rest or are busy ready, a hundred a visit, and each is then judged anew.
//
// # Limits and groups
//
// The next departure of a queue is the latest of its bucket, its further paces, its quotas and its stop. A quota that
// has less left than the next job costs is forfeited: cheaper jobs do not pass. A limit that is changed is followed by
// its successor; taking one away and giving it again, or deleting the queue and making it again, is no way around it.
//
// A parent's pace holds over all members of its group: its children, and itself for its own jobs. They share it by
// start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996): a member that becomes ready gets the greater of its own
// finish and the group's served; granting cost c sets served to its tag and finish to its tag plus c. A departure
// may be granted ahead for the sake of a member's pace, as for the parent's.
//
// # What becomes of a lease
//
// A settlement needs a lease that stands; one equal to the last that was accepted is answered as that was; any other is
// stale. Deliver and Bury end the job. Fail spends an attempt and schedules it, and is the last one at max_attempts or
// behind retry.deadline. Release spends nothing, and gives its slot back if no later departure was granted. Throttle
// stops the queue, or the lane, and Down counts for the circuit; neither spends an attempt. Hold keeps the job's place
// until Decide. A lease that runs out is held or dead where on_unknown says so.
//
// A stop is a later next departure that earns no credit: the bucket is raised to it when the next job goes. An open
// circuit is a stop that each grant, a probe, renews for twice as long. Only a settlement closes it; what fails
// while it is open spends no attempt. While attempts go on without an answer, an Extend counts a failure each time that
// circuit.slow has passed. Departures before the last decrease of an adapted rate do not lower it again.
//
// # Overflow
//
// A queue has a backlog while jobs are recorded as deferred or are known to be on the overflow. Then, and when it is
// full, a job that may wait is SetAside; one that may not uses only the places that the low-water mark leaves. Readmit
// takes jobs in the order of the stream: at or below the queue's order everything is passed over, and each final
// outcome moves the order along. The first job that finds no room, clashes, or is none of ours ends the call.
// A record whose job never came is given up once all that was set aside half a minute later was seen.
//
// # What outlives what
//
// Ended jobs keep state, fingerprint and last settlement for retention.for, and at most retention.max of them. Dead
// jobs belong to a queue's name and outlive it. Deleting a queue remembers its bucket and limits by name. After a
// restart that may have lost writes, buckets are held for a burst and the costliest job; embedded, what is on file is
// a ceiling that no grant was beyond. Moving a queue keeps every job's state, place and attempts, but no lease.
//
// # Left open
//
// Nobody can rely on the order in which jobs of several queues in one Append are decided, on which goes first of jobs
// of several queues that end in the same instant, on when a lowered retention.max takes effect, or on whether a raised
// retention makes known again what was forgotten.
package queuetest
