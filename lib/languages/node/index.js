// SPDX-License-Identifier: MIT
// Functions in JavaScript for deferred. index.d.ts documents what is exported here.
import { writeSync } from "node:fs";
import { Socket } from "node:net";
import { inspect } from "node:util";
import { cut, encode, Gone, Job, select, spanMs, TEXT_MAX, toJson } from "./job.js";

export { Gone, Job };
const HEAD_MAX = 16384;
const BODY_MAX = 16 << 20;
const functions = new Map();
const before = [];
const after = [];

class Verdict extends Error {
  constructor(outcome, error, span) {
    super(error);
    this.name = this.constructor.name;
    this.outcome = outcome;
    this.afterMs = span === undefined ? undefined : spanMs(span);
  }
}
export class Later extends Verdict {
  constructor(span, error = "to be tried later") {
    super("later", error, span);
  }
}
export class Snooze extends Verdict {
  constructor(span, error = "not yet") {
    super("snooze", error, span);
  }
}
export class Dead extends Verdict {
  constructor(error = "failed for good") {
    super("dead", error);
  }
}
export class Cancel extends Verdict {
  constructor(error = "not needed any more") {
    super("cancel", error);
  }
}
export class Unready extends Verdict {
  constructor(error = "not ready") {
    super("unready", error);
  }
}
export class Stop extends Verdict {
  constructor() {
    super("failed", "stopped");
  }
}

export function define(name, limits, run) {
  if (typeof limits === "function") [limits, run] = [{}, limits];
  if (functions.has(name)) throw new RangeError(`function '${name}' is defined twice`);
  if (typeof run !== "function") throw new TypeError(`function '${name}': the last argument is not a function`);
  const { timeout, maxAttempts, batch, batchWait, progressResets, ...unknown } = limits;
  for (const limit in unknown) throw new RangeError(`function '${name}': unknown limit '${limit}'`);
  functions.set(name, {
    run,
    limits: {
      ...(timeout === undefined ? {} : { timeout_ms: spanMs(timeout) }),
      ...(maxAttempts === undefined ? {} : { max_attempts: maxAttempts }),
      ...(batch === undefined ? {} : { batch }),
      ...(batchWait === undefined ? {} : { batch_wait_ms: spanMs(batchWait) }),
      ...(progressResets ? { progress_resets: 1 } : {}),
    },
  });
}

export function beforeJob(hook) {
  before.push(hook);
}

export function afterJob(hook) {
  after.unshift(hook);
}

export function defer(connection, fn, params, options) {
  const call = "deferred.defer($1::text, $2::json, $3::json)::text";
  return select(connection, call, fn, toJson(params ?? {}), options ? toJson(options) : null);
}

function endOf(error) {
  return error instanceof Verdict
    ? { outcome: error.outcome, text: error.message, afterMs: error.afterMs }
    : { outcome: "failed", text: shown(error) };
}

/** The end of a job of a batch. Its entry may be a promise. */
async function entryEnd(entry) {
  try {
    const value = await entry;
    return value instanceof Error ? endOf(value) : { outcome: "ok", text: encode(value) };
  } catch (error) {
    return endOf(error);
  }
}

async function execute(jobs) {
  const known = functions.get(jobs[0].fn);
  if (!known) throw new Unready(`the program has no function '${jobs[0].fn}'`);
  for (const job of jobs) for (const hook of before) await hook(job);
  if (!known.limits.batch) return [{ outcome: "ok", text: encode(await known.run(jobs[0].params, jobs[0])) }];
  const entries = (await known.run([...jobs])) ?? jobs.map(() => null);
  if (!Array.isArray(entries)) throw new TypeError(`function '${jobs[0].fn}' did not return a list`);
  if (entries.length !== jobs.length) {
    throw new RangeError(`function '${jobs[0].fn}' returned ${entries.length} outcomes for ${jobs.length} jobs`);
  }
  return Promise.all(entries.map(entryEnd));
}

/** Runs the attempts of jobs of one function and returns the outcome, text and delay of each. For testing.js too. */
export async function attempts(jobs) {
  let ends;
  try {
    ends = await execute(jobs);
  } catch (error) {
    const other = error instanceof Gone ? new Snooze("0s", "another job of the batch is gone") : error;
    ends = jobs.map((job) => endOf(job.gone ? error : other));
  }
  for (const job of functions.has(jobs[0].fn) ? jobs : []) {
    try {
      for (const hook of after) await hook(job);
    } catch (error) {
      job.log(`afterJob: ${shown(error)}`, "error");
    }
  }
  return ends;
}

/** An exception with its calls and causes, without those of this library. */
function shown(error) {
  const lines = typeof error === "string" ? error : inspect(error);
  const foreign = (line) => !line.includes(import.meta.url) && !line.includes("(node:internal");
  return lines.split("\n").filter(foreign).join("\n");
}

class Host {
  settings = {};
  jobs = []; // that run
  gathered = []; // the calls of a batch that have come

  send(head, body = Buffer.alloc(0)) {
    const line = Buffer.from(JSON.stringify({ ...head, bytes: body.length }) + "\n");
    if (line.length > HEAD_MAX || body.length > BODY_MAX) throw new RangeError(`${head.type}: the message is too long`);
    const data = body.length ? Buffer.concat([line, body]) : line;
    for (let sent = 0; sent < data.length; ) sent += writeSync(4, data, sent);
  }

  receive(head, body) {
    if (head.type === "setting") this.settings[head.name] = head.value;
    const asked = head.type === "stop" && this.jobs.find((job) => job.id === head.job);
    if (asked) asked.asked = true;
    if (head.type === "stepped" && head.job === this.asking?.job) this.asking.resolve(head.outcome);
    if (head.type === "call") this.answer(head, body);
  }

  /** Returns the outcome when the step is stored. One step is on its way at a time. */
  saveStep(job, name, value) {
    if (!this.saves) throw new Error("the worker is older than 0.2.0 and saves no steps");
    const answer = this.saving.then(() => {
      if (!this.jobs.includes(job)) throw new Error(`job ${job.id} has ended`);
      this.send({ type: "step", job: job.id, name }, value);
      return new Promise((resolve) => (this.asking = { job: job.id, resolve }));
    });
    this.saving = answer.catch(() => {});
    return answer;
  }

  async answer(head, body) {
    const params = body.toString("utf8", 0, head.params);
    const behind = head.params + (head.parents ?? 0);
    const parents = body.toString("utf8", head.params, behind);
    const steps = body.toString("utf8", behind, behind + (head.steps ?? 0));
    this.gathered.push(new Job(this, head, params, parents, steps));
    if (head.more > 0) return;
    const jobs = this.gathered;
    [this.jobs, this.gathered] = [jobs, []];
    this.saves = head.steps !== undefined;
    [this.saving, this.asking] = [Promise.resolve(), null];
    const ends = await attempts(jobs);
    this.jobs = [];
    jobs.forEach((job, i) => this.done(job, ends[i]));
    if (this.ended) process.exit(0);
  }

  done(job, { outcome, text, afterMs }) {
    const bytes = Buffer.from(text ?? "");
    if (outcome === "ok" && bytes.length > TEXT_MAX) {
      job.log(`the result has ${bytes.length} bytes and is cut to ${TEXT_MAX}`, "warning");
    }
    const more = { ...(afterMs === undefined ? {} : { after_ms: afterMs }), ...(job.replaced ? { last: 1 } : {}) };
    this.send({ type: "done", job: job.id, outcome, ...more }, cut(bytes, TEXT_MAX));
  }

  end() {
    this.ended = true;
    if (this.jobs.length === 0) process.exit(0);
  }
}

/** Cuts what is read into messages. The body of a large one is copied once. */
class Reader {
  #line = "";
  #head = null;
  #body;
  #filled = 0;

  constructor(receive) {
    this.receive = receive;
  }

  read(chunk) {
    for (let at = 0; at < chunk.length || this.#complete(); ) {
      if (this.#complete()) {
        const [head, body] = [this.#head, this.#body];
        this.#head = null;
        this.receive(head, body);
      } else if (this.#head) {
        const copied = chunk.copy(this.#body, this.#filled, at);
        this.#filled += copied;
        at += copied;
      } else {
        const end = chunk.indexOf(10, at);
        this.#line += chunk.latin1Slice(at, end < 0 ? chunk.length : end);
        at = end < 0 ? chunk.length : end + 1;
        if (end < 0) continue;
        this.#head = JSON.parse(Buffer.from(this.#line, "latin1").toString());
        this.#body = Buffer.allocUnsafe(this.#head.bytes ?? 0);
        this.#line = "";
        this.#filled = 0;
      }
    }
  }

  #complete() {
    return this.#head !== null && this.#filled === this.#body.length;
  }
}

export function run({ version = "" } = {}) {
  if (!process.env.DEFERRED_PROGRAM) return;
  const host = new Host();
  process.on("SIGTERM", () => host.jobs.forEach((job) => job.abort(new Stop())));
  for (const [name, { limits }] of functions) host.send({ type: "function", name, ...limits });
  host.send({ type: "ready", protocol: 1, version });
  const reader = new Reader((head, body) => host.receive(head, body));
  const buffer = Buffer.allocUnsafe(65536);
  const read = (n) => (reader.read(buffer.subarray(0, n)), true);
  new Socket({ fd: 3, readable: true, writable: false, onread: { buffer, callback: read } })
    .on("end", () => host.end())
    .resume();
}
