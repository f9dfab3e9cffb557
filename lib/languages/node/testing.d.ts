// SPDX-License-Identifier: MIT
import type { DeferOptions, Parent, Span } from "./index.js";

/** Members of the job, and what surrounds it. */
export interface CallOptions {
  id?: string | number;
  attempt?: number;
  label?: string;
  receipt?: string | number;
  created?: Date;
  traceparent?: string;
  tick?: Date;
  previousTick?: Date;
  parents?: Record<string, Parent>;
  /** The steps that earlier attempts have saved. */
  steps?: Record<string, unknown>;
  /** The span from which `job.left()` counts down. */
  timeout?: Span;
  /** The settings of the program. */
  settings?: Record<string, string>;
  /** `job.stopAsked()` is true. */
  stop?: boolean;
  /** Aborts `job.signal` with a `Stop`. */
  signal?: AbortSignal;
}

/** The end of an attempt. */
export interface Done {
  outcome: "ok" | "failed" | "later" | "snooze" | "dead" | "cancel" | "unready";
  /** The result as text, or null. */
  result: string | null;
  /** The value of a result that is JSON. */
  readonly data: any;
  error: string | null;
  /** The delay of Later and Snooze in milliseconds, or null. */
  after: number | null;
  /** The jobs that `job.defer()` deferred. */
  deferred: { fn: string; params: any; options: DeferOptions }[];
  progress: { done: number; total: number; text: string }[];
  /** Levels: 1 is error, 2 warning, 3 info, 4 debug. */
  logs: { level: number; text: string }[];
  /** The steps that this attempt has saved. */
  steps: Record<string, any>;
  /** The function asked for a new process. */
  last: boolean;
}

/**
 * Runs one attempt in this process, with hooks. Params and result pass through JSON. No limit applies, and no database
 * is needed.
 */
export function call(fn: string, params?: unknown, options?: CallOptions): Promise<Done>;

/** The same for a function that takes a list of jobs, with the params of each. Their ids follow each other. */
export function callMany(fn: string, params: unknown[], options?: CallOptions): Promise<Done[]>;
