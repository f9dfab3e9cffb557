// SPDX-License-Identifier: MIT
// The job object, and what the other modules share.

export const TEXT_MAX = 8192; // bytes of a result, an error or a log line that are kept
const REFUSED = {
  invalid: "a name follows the rule for function names, and a value has at most 64 KiB",
  full: "a job has at most 1,000 steps of together 1 MiB",
  refused: "the log of the worker says why",
};
const LEVELS = { error: 1, warning: 2, info: 3, debug: 4 };
const UNIT_MS = { ms: 1, s: 1e3, sec: 1e3, m: 6e4, min: 6e4, h: 36e5, d: 864e5, w: 6048e5 };

/** The milliseconds of a span such as "200ms", "5s" or "1h 30min". */
export function spanMs(span) {
  const one = "(\\d+(?:\\.\\d+)?) ?(ms|sec|s|min|m|h|d|w)(?![a-z])";
  if (typeof span !== "string" || !new RegExp(`^${one}( ?${one})*$`).test(span)) {
    throw new RangeError(`span '${span}' is not text of a number with a unit: write 200ms, 5s, 10min, 2h or 30d`);
  }
  let ms = 0;
  for (const [, number, unit] of span.matchAll(new RegExp(one, "g"))) ms += number * UNIT_MS[unit];
  return Math.round(ms);
}

/** Text or bytes as bytes, cut to a number of bytes without half a character at the end. */
export function cut(text, max) {
  const bytes = text instanceof Uint8Array ? Buffer.from(text) : Buffer.from(String(text));
  if (bytes.length <= max) return bytes;
  let end = max;
  while (end > max - 4 && (bytes[end] & 0xc0) === 0x80) end--;
  return bytes.subarray(0, end);
}

/** The stored form of a returned value: text and bytes unchanged, null for null and undefined, JSON of others. */
export function encode(value) {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" || value instanceof Uint8Array) return value;
  return toJson(value);
}

/** JSON of a value. A function, for example, has none. */
export function toJson(value) {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`a ${typeof value} has no JSON form`);
  return text;
}

/** One statement on a client or pool of pg. Its answer has one value. */
export async function select(connection, call, ...values) {
  const { rows } = await connection.query({ text: `select ${call} as value`, values });
  return rows[0].value;
}

export class Gone extends Error {
  name = "Gone";
}

const moment = (us) => (us ? new Date(us / 1000) : null);
const whole = (number) => Math.min(Math.trunc(number), Number.MAX_SAFE_INTEGER) || 0;

export class Job {
  #host;
  #params;
  #parents;
  #steps;
  #controller = new AbortController();

  constructor(host, head, params, parents, steps) {
    this.#host = host;
    this.#params = { text: params };
    this.#parents = parents;
    this.#steps = steps;
    this.id = head.job;
    this.fn = head.fn;
    this.attempt = head.attempt;
    this.label = head.label ?? "";
    this.receipt = head.receipt;
    this.created = moment(head.created_us);
    this.traceparent = head.traceparent ?? "";
    this.tick = moment(head.tick_us);
    this.previousTick = moment(head.previous_tick_us);
    this.deadline = head.timeout_ms ? performance.now() + head.timeout_ms : null;
    this.asked = this.replaced = this.gone = false;
  }

  get signal() {
    return this.#controller.signal;
  }

  get params() {
    if (this.#params.text !== undefined) this.#params = { value: JSON.parse(this.#params.text) };
    return this.#params.value;
  }

  get parents() {
    return (this.#parents = typeof this.#parents === "string" ? JSON.parse(this.#parents || "{}") : this.#parents);
  }

  get steps() {
    return (this.#steps = typeof this.#steps === "string" ? JSON.parse(this.#steps || "{}") : this.#steps);
  }

  abort(reason) {
    this.#controller.abort(reason);
  }

  left() {
    return this.deadline === null ? null : Math.max(0, this.deadline - performance.now());
  }

  stopAsked() {
    return this.asked || this.signal.aborted;
  }

  setting(name) {
    return this.#host.settings[name] ?? null;
  }

  progress(done, total = -1, text = "") {
    const head = { type: "progress", job: this.id, done: whole(done), total: whole(total ?? -1) };
    this.#host.send({ ...head, text: cut(text ?? "", 200).toString() });
  }

  log(text, level = "info") {
    const number = LEVELS[level] ?? level;
    if (![1, 2, 3, 4].includes(number)) throw new RangeError(`level '${level}' is not error, warning, info or debug`);
    this.#host.send({ type: "log", job: this.id, level: number }, cut(text, TEXT_MAX));
  }

  defer(fn, params, options) {
    const body = Buffer.from(toJson(params ?? {}));
    const more = Buffer.from(options ? toJson(options) : "");
    this.#host.send({ type: "defer", job: this.id, fn, params: body.length }, Buffer.concat([body, more]));
  }

  async step(name, run) {
    return Object.hasOwn(this.steps, name) ? this.steps[name] : this.saveStep(name, await run());
  }

  async saveStep(name, value) {
    const text = toJson(value ?? null);
    const outcome = await this.#host.saveStep(this, name, Buffer.from(text));
    this.gone = outcome === "gone";
    if (this.gone) throw new Gone(`step '${name}' was not saved, since another attempt may run`);
    if (outcome !== "saved") throw new Error(`step '${name}' was not saved: ${REFUSED[outcome] ?? outcome}`);
    return (this.steps[name] = JSON.parse(text));
  }

  async finish(connection, result) {
    const text = encode(result);
    await select(connection, "deferred.finish($1::bigint, $2::bigint, $3::text)", this.id, this.receipt,
      text instanceof Uint8Array ? Buffer.from(text).toString() : text);
  }

  extend(connection, span) {
    const call = "deferred.extend($1::bigint, $2::bigint, $3::bigint)";
    return select(connection, call, this.id, this.receipt, spanMs(span));
  }

  last() {
    this.replaced = true;
  }
}
