// SPDX-License-Identifier: MIT

/** A number with a unit, or several: "200ms", "5s", "10min", "2h", "1h 30min", "30d". */
export type Span = string;

/** An open client of `pg`. A pool works too, and runs each statement in a transaction of its own. */
export interface Connection {
  query(query: { text: string; values: unknown[] }): Promise<{ rows: any[] }>;
}

export interface Limits {
  /** The time limit of one attempt. Default: that of the configuration. */
  timeout?: Span;
  /** How often the job is tried. Default: that of the configuration. */
  maxAttempts?: number;
  /** An attempt that saved a step of a new name does not count against maxAttempts. */
  progressResets?: boolean;
}

/** The limits of a function that takes a list of jobs. */
export interface BatchLimits extends Limits {
  /** The most jobs of a list, up to 128. */
  batch: number;
  /** How long a job waits until the list is full. Default: not at all. */
  batchWait?: Span;
}

/** How another job, or an event, which this job waited for, has ended. */
export interface Parent {
  /** The number of the job. An event has none. */
  id?: number;
  /** The name of the event. The payload is the result, as JSON text. */
  event?: string;
  outcome: "ok" | "failed" | "skipped" | null;
  result?: string | null;
  /** The result was left out, because the results of all parents exceed 64 KiB. */
  cut?: true;
}

/** The job that a function was called for. It is valid until the function ends. */
export class Job {
  private constructor();
  /** The number of the job, the same in all attempts. Text, because it has 64 bits. */
  readonly id: string;
  readonly fn: string;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** The label of the job, or "". */
  readonly label: string;
  /** Proves to the database that this attempt holds the job. Text, because it has 64 bits. */
  readonly receipt: string;
  /** When the job was deferred. */
  readonly created: Date;
  /** The W3C trace context in which the job was deferred, or "". */
  readonly traceparent: string;
  /** When the schedule of the job was due. Null without a schedule. */
  readonly tick: Date | null;
  /** The tick of the schedule's previous job, or null. */
  readonly previousTick: Date | null;
  /** The params, for a function that takes a list of jobs. */
  readonly params: any;
  /** The jobs that this job waited for, by name, or by number without a name. */
  readonly parents: Record<string, Parent>;
  /**
   * Aborts with a {@link Stop} when the worker ends the attempt: its time is up, the job was cancelled, or the worker
   * stops. A function that ignores the signal is killed with its process after `kill_after`.
   */
  readonly signal: AbortSignal;
  /** The milliseconds until the time limit of the attempt. Null without a limit. */
  left(): number | null;
  /**
   * True if the function should end soon, because the worker stops or the job was cancelled. The answer changes only
   * while the function awaits something.
   */
  stopAsked(): boolean;
  /** The text of a setting of this program, or null. */
  setting(name: string): string | null;
  /** Reports how far the job is; -1 is unknown. At most 200 bytes of the text are kept. */
  progress(done: number, total?: number, text?: string): void;
  /** Writes to the log of the worker. At most 8 KiB are kept. Default: "info". */
  log(text: string, level?: "error" | "warning" | "info" | "debug" | 1 | 2 | 3 | 4): void;
  /** Defers a job in the statement that records the success of this attempt. Default for params: {}. */
  defer(fn: string, params?: unknown, options?: DeferOptions): void;
  /** The values that this and earlier attempts have saved, by name. */
  readonly steps: Record<string, any>;
  /**
   * Calls the function once in the life of the job, saves its value as JSON, and returns the saved value. A later
   * attempt returns the saved value without a call.
   */
  step<Value>(name: string, run: () => Value | Promise<Value>): Promise<Value>;
  /**
   * Saves a value under a name, in place of an earlier one. Resolves when the database has it. Rejects with a
   * {@link Gone} if another attempt may run.
   */
  saveStep<Value>(name: string, value: Value): Promise<Value>;
  /**
   * Records the success of this attempt in the transaction of the caller. Call it last, and commit. The return value
   * of the function is then ignored. Defer further jobs on the same connection.
   */
  finish(connection: Connection, result?: unknown): Promise<void>;
  /** Makes the lease of the job last at least this span from now. Returns its end. */
  extend(connection: Connection, span: Span): Promise<Date>;
  /** Asks the worker to replace this process after the job. */
  last(): void;
}

/** The options of `deferred.defer()`; see deferred_sql(3). */
export interface DeferOptions {
  queue?: string;
  label?: string;
  tags?: string[];
  priority?: number;
  delay?: Span;
  run_at?: string | Date;
  expires?: Span;
  expires_at?: string | Date;
  key?: string;
  key_until?: "end" | "start" | Span;
  on_duplicate?: "skip" | "error" | "replace" | "update";
  max_attempts?: number;
  timeout?: Span;
  backoff_floor?: Span;
  backoff_ceiling?: Span;
  backoff_exponent?: number;
  concurrency_key?: string;
  concurrency?: number;
  after?: unknown;
  flow?: string | number | boolean;
  traceparent?: string;
}

/**
 * Offers a function. A string or a Uint8Array that it returns is stored unchanged, null and undefined are not stored,
 * and any other value is stored as JSON. The worker keeps 8 KiB. An exception means that the attempt has failed.
 */
export function define<Params = any>(name: string, run: (params: Params, job: Job) => unknown): void;
export function define<Params = any>(name: string, limits: Limits, run: (params: Params, job: Job) => unknown): void;

/**
 * Offers a function of a list of jobs. It returns null or undefined, or an array with an entry for each job. An entry
 * is a result as above, or a promise of it. An Error, or a promise that is rejected, is the outcome of that job. If the
 * function itself throws, the attempts of all jobs have ended so.
 */
export function define(name: string, limits: BatchLimits, run: (jobs: Job[]) => unknown): void;

/** Calls the hook with each job before its function. If the hook throws, the attempt has failed. */
export function beforeJob(hook: (job: Job) => unknown): void;

/** Calls the hook with each job after its function. If the hook throws, the library logs the error. */
export function afterJob(hook: (job: Job) => unknown): void;

/**
 * Announces the functions and serves the worker. At the end of its input it calls `process.exit(0)`. Without
 * `DEFERRED_PROGRAM` in the environment it returns at once, so a test can import the file.
 */
export function run(options?: { /** of the application */ version?: string }): void;

/**
 * Defers a job on an open connection, in the transaction of the caller. Returns the id of the job, or null if the queue
 * is full and drops jobs. It does not open, commit or retry. Default for params: {}.
 */
export function defer(
  connection: Connection,
  fn: string,
  params?: unknown,
  options?: DeferOptions,
): Promise<string | null>;

/** An exception that ends the attempt in another way than as failed. */
declare class Verdict extends Error {
  readonly outcome: string;
  readonly afterMs?: number;
}
/** The attempt failed. The next one starts after the span. Default: the usual delay. */
export class Later extends Verdict {
  constructor(span?: Span, reason?: string);
}
/** The attempt does not count. The next one starts after the span. Default: the usual delay. */
export class Snooze extends Verdict {
  constructor(span?: Span, reason?: string);
}
/** The job failed for good. */
export class Dead extends Verdict {
  constructor(reason?: string);
}
/** The job is not needed any more. */
export class Cancel extends Verdict {
  constructor(reason?: string);
}
/** An operator has to act first. The attempt does not count. */
export class Unready extends Verdict {
  constructor(reason?: string);
}
/**
 * Another attempt of this job may run, so a step was not saved. End the work for this job. If a function that takes a
 * list of jobs lets it pass, the attempts of the other jobs do not count. These jobs are tried again soon.
 */
export class Gone extends Error {}
/** The reason of `job.signal`. */
export class Stop extends Verdict {
  constructor();
}
