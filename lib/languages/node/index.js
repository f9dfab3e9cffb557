// SPDX-License-Identifier: MIT
// Functions in JavaScript for deferred. index.d.ts documents what is exported here.
import { writeSync } from "node:fs";
import { Socket } from "node:net";
import { inspect } from "node:util";
import { cut, encode, Job, select, spanMs, TEXT_MAX, toJson } from "./job.js";

export { Job };
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
  const { timeout, maxAttempts, ...unknown } = limits;
  for (const limit in unknown) throw new RangeError(`function '${name}': unknown limit '${limit}'`);
  functions.set(name, {
    run,
    limits: {
      ...(timeout === undefined ? {} : { timeout_ms: spanMs(timeout) }),
      ...(maxAttempts === undefined ? {} : { max_attempts: maxAttempts }),
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

/** Runs one attempt of a job and returns its outcome, text and delay. For run() and testing.js. */
export async function attempt(job, params) {
  const known = functions.get(job.fn);
  if (!known) return { outcome: "unready", text: `the program has no function '${job.fn}'` };
  let end;
  try {
    for (const hook of before) await hook(job);
    const text = encode(await known.run(JSON.parse(params), job));
    end = { outcome: "ok", text };
  } catch (error) {
    end = error instanceof Verdict
      ? { outcome: error.outcome, text: error.message, afterMs: error.afterMs }
      : { outcome: "failed", text: shown(error) };
  }
  try {
    for (const hook of after) await hook(job);
  } catch (error) {
    job.log(`afterJob: ${shown(error)}`, "error");
  }
  return end;
}

/** An exception with its calls and causes, without those of this library. */
function shown(error) {
  const lines = typeof error === "string" ? error : inspect(error);
  const foreign = (line) => !line.includes(import.meta.url) && !line.includes("(node:internal");
  return lines.split("\n").filter(foreign).join("\n");
}

class Host {
  settings = {};
  job = null;

  send(head, body = Buffer.alloc(0)) {
    const line = Buffer.from(JSON.stringify({ ...head, bytes: body.length }) + "\n");
    if (line.length > HEAD_MAX || body.length > BODY_MAX) throw new RangeError(`${head.type}: the message is too long`);
    const data = body.length ? Buffer.concat([line, body]) : line;
    for (let sent = 0; sent < data.length; ) sent += writeSync(4, data, sent);
  }

  receive(head, body) {
    if (head.type === "setting") this.settings[head.name] = head.value;
    if (head.type === "stop" && head.job === this.job?.id) this.job.asked = true;
    if (head.type === "call") this.answer(head, body);
  }

  async answer(head, body) {
    const params = body.toString("utf8", 0, head.params);
    const job = new Job(this, head, body.toString("utf8", head.params, head.params + (head.parents ?? 0)));
    this.job = job;
    const { outcome, text, afterMs } = await attempt(job, params);
    const bytes = Buffer.from(text ?? "");
    if (outcome === "ok" && bytes.length > TEXT_MAX) {
      job.log(`the result has ${bytes.length} bytes and is cut to ${TEXT_MAX}`, "warning");
    }
    this.job = null;
    const more = { ...(afterMs === undefined ? {} : { after_ms: afterMs }), ...(job.replaced ? { last: 1 } : {}) };
    this.send({ type: "done", job: job.id, outcome, ...more }, cut(bytes, TEXT_MAX));
    if (this.ended) process.exit(0);
  }

  end() {
    this.ended = true;
    if (!this.job) process.exit(0);
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
  process.on("SIGTERM", () => host.job?.abort(new Stop()));
  for (const [name, { limits }] of functions) host.send({ type: "function", name, ...limits });
  host.send({ type: "ready", protocol: 1, version });
  const reader = new Reader((head, body) => host.receive(head, body));
  const buffer = Buffer.allocUnsafe(65536);
  const read = (n) => (reader.read(buffer.subarray(0, n)), true);
  new Socket({ fd: 3, readable: true, writable: false, onread: { buffer, callback: read } })
    .on("end", () => host.end())
    .resume();
}
