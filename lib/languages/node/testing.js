// SPDX-License-Identifier: MIT
// Functions of a program, called in the process of a test. testing.d.ts documents them.
import { attempts, Stop } from "./index.js";
import { Job, spanMs, toJson } from "./job.js";

export async function call(fn, params, options = {}) {
  const [done] = await callMany(fn, [params ?? {}], options);
  return done;
}

export async function callMany(fn, params, options = {}) {
  const given = params.map((one, i) => prepare(fn, one, options, i));
  const ends = await attempts(given.map(({ job }) => job));
  return given.map(({ job, done }, i) => finish(job, done, ends[i]));
}

function prepare(fn, params, options, i) {
  const reported = { deferred: [], progress: [], logs: [], steps: {} };
  const done = { outcome: "", result: null, error: null, after: null, ...reported, last: false };
  const send = (head, body) => {
    if (head.type === "defer") {
      const text = body.subarray(head.params).toString();
      const given = JSON.parse(body.subarray(0, head.params));
      done.deferred.push({ fn: head.fn, params: given, options: text ? JSON.parse(text) : {} });
    }
    if (head.type === "progress") done.progress.push({ done: head.done, total: head.total, text: head.text });
    if (head.type === "log") done.logs.push({ level: head.level, text: body.toString() });
  };
  const microseconds = (date) => (date ? date.getTime() * 1000 : undefined);
  const head = {
    job: String(BigInt(options.id ?? 1) + BigInt(i)),
    fn,
    attempt: options.attempt ?? 1,
    label: options.label,
    receipt: String(options.receipt ?? 1),
    traceparent: options.traceparent,
    created_us: microseconds(options.created ?? new Date()),
    tick_us: microseconds(options.tick),
    previous_tick_us: microseconds(options.previousTick),
    timeout_ms: options.timeout === undefined ? undefined : spanMs(options.timeout),
  };
  const saveStep = async (_, name, value) => ((done.steps[name] = JSON.parse(value)), "saved");
  const host = { settings: options.settings ?? {}, send, saveStep };
  const text = (value) => (value ? toJson(value) : "");
  const job = new Job(host, head, toJson(params), text(options.parents), text(options.steps));
  job.asked = options.stop === true;
  options.signal?.addEventListener("abort", () => job.abort(new Stop()));
  if (options.signal?.aborted) job.abort(new Stop());
  return { job, done };
}

function finish(job, done, { outcome, text, afterMs }) {
  const shown = text instanceof Uint8Array ? Buffer.from(text).toString() : text;
  Object.assign(done, { outcome, [outcome === "ok" ? "result" : "error"]: shown, last: job.replaced });
  if (afterMs !== undefined) done.after = afterMs;
  Object.defineProperty(done, "data", { get: () => (done.result === null ? null : JSON.parse(done.result)) });
  return done;
}
