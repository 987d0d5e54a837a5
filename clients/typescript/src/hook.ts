/**
 * HookEvent is a report to the hook `on`. Kinds:
 *
 * - retry: a call failed and is tried again after `pause` seconds
 * - token: the token was asked for again after a 401
 * - throttled: a provider asked for a break, and the queue was stopped
 * - throttle_failed: the queue could not be stopped
 * - reconnect: an event stream broke and is continued
 * - resend: a stream of jobs broke, and its unanswered jobs are sent again
 * - lease_failed: a worker cannot lease jobs and keeps trying
 * - extend_failed, settle_failed: the server did not take a worker's report; the worker repeats it
 * - settle_failed: what a paced call used could not be reported; what was charged stands
 * - lost: a lease was lost, and the job's handler was cancelled
 * - blocked: a handler blocked the event loop for longer than its lease
 * - abandoned: a handler did not return within maxTime, or within 1 s after the grace of a stop
 * - misuse: a handler broke a rule, such as throwing something that is not an Error
 * - failed: a handler threw an error; the job is retried
 * - rule_failed: a rule could not be asked, and the middleware followed onError
 */
export interface HookEvent {
  kind:
    | "retry" | "token" | "throttled" | "throttle_failed" | "reconnect" | "resend" | "lease_failed" | "extend_failed"
    | "settle_failed" | "lost" | "blocked" | "abandoned" | "misuse" | "failed" | "rule_failed";
  /** The call, such as "append". */
  call?: string;
  queue?: string;
  rule?: string;
  id?: string;
  error?: unknown;
  /** Number of the failed attempt, from 1. */
  attempt?: number;
  /** Seconds until the next attempt. */
  pause?: number;
  /** Number of jobs concerned. */
  jobs?: number;
}

export type Hook = (event: HookEvent) => void;

/** guard returns a hook that never throws: a fault in a report must not become a fault in the program. */
export function guard(on: Hook | undefined): Hook {
  return (event) => {
    try {
      on?.(event);
    } catch {
      // Nothing can be reported about a hook that fails.
    }
  };
}
