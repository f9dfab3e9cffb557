// SPDX-License-Identifier: MIT
// Functions called by the testing module, as the tests of an application call them.
import assert from "node:assert/strict";
import test from "node:test";
import { afterJob, beforeJob, Cancel, Dead, define, Later, run, Snooze, Stop, Unready } from "deferred-program";
import { call, callMany } from "deferred-program/testing";
import { cut, spanMs } from "../job.js";

const hooks = [];
let dies = "";
beforeJob(async (job) => { hooks.push(`before ${job.fn}`); });
afterJob((job) => { hooks.push(`after ${job.fn}`); });
beforeJob(() => { if (dies === "before") throw new Error("no before"); });
afterJob(() => { if (dies === "after") throw new Error("no after"); });

define("resize", { timeout: "10s", maxAttempts: 5 }, async (params, job) => {
  job.progress(0, 2, "fetching");
  job.log("hello", "debug");
  job.log("usual");
  job.defer("send_mail", { to: params.owner, subject: "Größe" }, { delay: "5min" });
  job.defer("bare");
  return { width: 640, attempt: job.attempt };
});

test("a function has an outcome, a result, and what it reported and deferred", async () => {
  hooks.length = 0;
  const done = await call("resize", { owner: "ann@example.org" }, { attempt: 2 });
  assert.equal(done.outcome, "ok");
  assert.deepEqual(done.data, { width: 640, attempt: 2 });
  assert.equal(done.error, null);
  assert.deepEqual(done.progress, [{ done: 0, total: 2, text: "fetching" }]);
  assert.deepEqual(done.logs, [{ level: 4, text: "hello" }, { level: 3, text: "usual" }]);
  assert.deepEqual(done.deferred, [
    { fn: "send_mail", params: { to: "ann@example.org", subject: "Größe" }, options: { delay: "5min" } },
    { fn: "bare", params: {}, options: {} },
  ]);
  assert.deepEqual(hooks, ["before resize", "after resize"]);
});

test("a hook before the job fails the attempt, and one after it is logged", async () => {
  dies = "before";
  let done = await call("resize", {});
  assert.equal(done.outcome, "failed");
  assert.match(done.error, /no before/);
  dies = "after";
  done = await call("resize", {});
  assert.equal(done.outcome, "ok");
  assert.match(done.logs.at(-1).text, /^afterJob: Error: no after/);
  dies = "";
});

test("a step runs once and has the saved value", async () => {
  let charged = 0;
  define("charge", async (params, job) => {
    const charge = () => ({ receipt: 4711, times: ++charged });
    await job.step("charge", charge);
    await job.saveStep("page", (job.steps.page ?? 0) + 1);
    return [await job.step("charge", charge), await job.step("old", charge), job.steps];
  });
  const done = await call("charge", {}, { steps: { old: null, page: 7 } });
  const saved = { charge: { receipt: 4711, times: 1 }, page: 8 };
  assert.deepEqual(done.data, [saved.charge, null, { old: null, ...saved }]);
  assert.deepEqual(done.steps, saved);
});

const TIMES = ["created", "tick", "previousTick"];
const MEMBERS = ["id", "fn", "attempt", "label", "receipt", ...TIMES, "traceparent", "parents"];
define("members", (params, job) => ({
  ...Object.fromEntries(MEMBERS.map((name) => [name, job[name]])), left: job.left(), stop: job.stopAsked(),
  aborted: job.signal.aborted, reason: job.signal.reason instanceof Stop,
}));

test("the job has the members that were given, and 64-bit numbers as text", async () => {
  const given = {
    id: "9223372036854775807", receipt: "-9223372036854775808", attempt: 3, label: "Größe",
    traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`, created: new Date(1760000000000),
    tick: new Date(1760000100000), previousTick: new Date(1760000050000),
    parents: { pack: { id: 17, outcome: "ok", result: "three boxes" } },
  };
  const { data } = await call("members", {}, { ...given, timeout: "10s", stop: true, signal: AbortSignal.abort() });
  assert.ok(data.left > 0 && data.left <= 10000);
  const { left, ...rest } = data;
  assert.deepEqual(rest, {
    ...JSON.parse(JSON.stringify(given)), fn: "members", stop: true, aborted: true, reason: true,
  });
});

test("members that were not given are empty", async () => {
  const { data } = await call("members");
  const { label, traceparent, tick, previousTick, parents, left, stop, aborted } = data;
  assert.deepEqual({ label, traceparent, tick, previousTick, parents, left, stop, aborted }, {
    label: "", traceparent: "", tick: null, previousTick: null, parents: {}, left: null, stop: false, aborted: false,
  });
});

define("setting", (params, job) => job.setting("api"));
test("settings are text or null", async () => {
  assert.equal((await call("setting", {}, { settings: { api: "x" } })).result, "x");
  assert.equal((await call("setting")).result, null);
});

const VERDICTS = { later: Later, snooze: Snooze, dead: Dead, cancel: Cancel, unready: Unready };
define("verdict", ([name, ...rest]) => { throw new VERDICTS[name](...rest); });
test("verdicts are outcomes", async () => {
  for (const name in VERDICTS) {
    const done = await call("verdict", [name, "1.5s"]);
    assert.deepEqual([done.outcome, done.result], [name, null]);
    assert.equal(done.after, ["later", "snooze"].includes(name) ? 1500 : null);
  }
  assert.equal((await call("verdict", ["later", "1h 30min", "busy"])).error, "busy");
  assert.equal((await call("verdict", ["dead", "gone"])).error, "gone");
  assert.equal((await call("verdict", ["later"])).after, null);
  const wrong = await call("verdict", ["later", 30]);
  assert.equal(wrong.outcome, "failed");
  assert.match(wrong.error, /span '30' is not text of a number with a unit/);
});

define("returns", ({ value }) => value);
define("bytes", () => Buffer.from("Größe"));
define("nothing", () => {});
define("strange", () => () => {});
define("big", () => ({ n: 1n }));
test("text and bytes are stored unchanged, null is not, other values are JSON", async () => {
  const values = [["Größe", "Größe"], [17, "17"], [true, "true"], [null, null], [["a"], '["a"]'], ["", ""]];
  for (const [value, result] of values) {
    assert.equal((await call("returns", { value })).result, result);
  }
  assert.equal((await call("bytes")).result, "Größe");
  assert.equal((await call("nothing")).result, null);
  for (const fn of ["strange", "big"]) assert.equal((await call(fn)).outcome, "failed");
});

define("fail", async () => deeper());
const deeper = () => { throw new Error("boom", { cause: new RangeError("deep") }); };
define("fails_with_text", () => { throw "text"; });
define("fails_with_data", () => { throw { code: 5 }; });
define("rejects", () => Promise.reject(new Error("later boom")));
test("an exception fails with its calls and its cause, without those of the library", async () => {
  const { outcome, error } = await call("fail");
  assert.equal(outcome, "failed");
  assert.match(error, /^Error: boom\n +at deeper \(.*testing\.test\.js:\d+:\d+\)\n[^]*RangeError: deep/);
  assert.doesNotMatch(error, /node\/index\.js|node:internal/);
  assert.equal((await call("fails_with_text")).error, "text");
  assert.match((await call("fails_with_data")).error, /code: 5/);
  assert.match((await call("rejects")).error, /later boom/);
});

test("a function that is not there is unready", async () => {
  const done = await call("absent");
  assert.equal(done.outcome, "unready");
  assert.match(done.error, /no function 'absent'/);
});

test("wrong definitions are refused", () => {
  for (const wrong of [
    ["resize", () => {}], ["other", { timeout: "5 parsecs" }, () => {}],
    ["other", { timeout: 5000 }, () => {}], ["other", { time_out: "5s" }, () => {}], ["other", { timeout: "5s" }],
  ]) {
    assert.throws(() => define(...wrong));
  }
});

test("spans", () => {
  const spans = {
    "200ms": 200, "5s": 5000, "10min": 600000, "1.5h": 5400000, "2 d": 172800000, "1h30m": 5400000, "1w": 604800000,
    "0s": 0,
  };
  for (const span in spans) assert.equal(spanMs(span), spans[span], span);
  const refused = ["", "5", "s", "5 x", "-5s", "5s ", "5ss", 5, null, undefined];
  for (const wrong of refused) assert.throws(() => spanMs(wrong));
});

test("text is cut between characters", () => {
  assert.equal(cut("ö".repeat(8), 15).toString(), "ö".repeat(7));
  assert.equal(cut("ö".repeat(8), 16).toString(), "ö".repeat(8));
  assert.equal(cut("😀", 3).length, 0);
});

test("a function of a list of jobs is called with the params of each", async () => {
  define("insert", { batch: 3, batchWait: "500ms" }, (jobs) =>
    jobs.map(async ({ id, params }) => (params.wrong ? new Dead(`no ${id}`) : { id })));
  const [good, bad] = await callMany("insert", [{}, { wrong: true }], { id: 7 });
  assert.deepEqual([good.outcome, good.data], ["ok", { id: "7" }]);
  assert.deepEqual([bad.outcome, bad.error], ["dead", "no 8"]);
  assert.equal((await call("insert", { wrong: true })).outcome, "dead");
});

test("run() returns at once without a worker", () => assert.equal(run(), undefined));
