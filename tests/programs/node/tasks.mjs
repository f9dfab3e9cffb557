// The functions that tests/programs/README.md lists.
import { spawn, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import {
	afterJob,
	beforeJob,
	Cancel,
	Dead,
	define,
	Later,
	run,
	Snooze,
	Unready,
} from "../../../lib/languages/node/index.js";

if (process.env.NOISE) console.log("noise on standard output");
const hooks = { before: 0, after: 0 };
beforeJob(() => {
	hooks.before++;
});
afterJob(() => {
	hooks.after++;
});

const limits = { timeout: "10s", maxAttempts: 5 };
const seconds = date => (date ? Math.floor(date.getTime() / 1000) : null);
const ignore = value => (value, null);

define("echo", limits, params => params);
define("fail", limits, ({ error }) => {
	throw new Error(error);
});
define("later", { timeout: "1500ms", maxAttempts: 7 }, ({ span }) => {
	throw new Later(span);
});
define("snooze", limits, ({ span }) => {
	throw new Snooze(span);
});
define("dead", limits, ({ error }) => {
	throw new Dead(error);
});
define("cancel", limits, ({ error }) => {
	throw new Cancel(error);
});
define("unready", limits, ({ error }) => {
	throw new Unready(error);
});
define("nothing", limits, () => undefined);
define("text", limits, ({ text }) => text);
define("bytes", limits, () => Buffer.from([0x61, 0xff, 0x62]));
define("big", limits, ({ bytes }) => "x".repeat(bytes));
define("strange", limits, () => () => {});
define("length", limits, ({ text }) => {
	let characters = 0; // an array of them may exceed the memory
	for (const _ of text) characters++;
	return { characters };
});
define("members", limits, (params, job) => ({
	id: job.id,
	fn: job.fn,
	attempt: String(job.attempt),
	label: job.label,
	receipt: job.receipt,
	traceparent: job.traceparent,
	created: seconds(job.created),
	tick: seconds(job.tick),
	previous_tick: seconds(job.previousTick),
}));
define("left", limits, (params, job) => ({ ms: job.left() === null ? null : Math.floor(job.left()) }));
define("parents", limits, (params, job) => job.parents);
define("progress", limits, ({ done, total, text }, job) => ignore(job.progress(done, total, text)));
define("log", limits, ({ text, level }, job) => ignore(job.log(text, level)));
define("defer", limits, ({ fn, params, options }, job) => ignore(job.defer(fn, params, options)));
define("step", limits, async ({ name, value }, job) => {
	let ran = 0;
	const saved = await job.step(name, () => (ran++, value));
	return { value: saved, ran, steps: job.steps };
});
define("save", limits, async ({ name, values }, job) => {
	await Promise.all(values.map((value) => job.saveStep(name, value)));
	return job.steps;
});
define("setting", limits, ({ name }, job) => ({ value: job.setting(name) }));
define("print", limits, ({ text, error }) => {
	process.stdout.write(text ?? "");
	process.stderr.write(error ?? "");
});
define("stop_asked", limits, async (params, job) => {
	while (!job.stopAsked()) await sleep(10);
	return "asked";
});
define("stopped", limits, async ({ ms }, job) => {
	await sleep(ms, null, { signal: job.signal }).catch(() => job.signal.throwIfAborted());
	return "slept";
});
define("sleep", limits, ({ ms }, job) => {
	ignore(job.progress(0, 1, "begun"));
	return sleep(ms, "slept", { signal: job.signal }).catch(() => "stopped");
});
define("last", limits, (params, job) => (job.last(), "last"));
define("children", limits, () => String(spawnSync("readlink", ["/proc/self/fd/3", "/proc/self/fd/4"]).stdout));
define("left_behind", limits, () => {
	const child = spawn("sleep", ["60"], { stdio: "inherit" });
	child.unref();
	return String(child.pid);
});
define("hooks", limits, () => hooks);
define("at_exit", limits, ({ path }) => {
	process.on("exit", () => writeFileSync(path, "bye"));
});

const entry = async job => {
	const { do: word, text, error, span } = job.params;
	if (word === "progress") job.progress(1, 2, text);
	while (word === "stop_asked" && !job.stopAsked()) await sleep(10);
	if (word === "try") return [await job.step("one", () => job.params.value)];
	if (word === "dead") throw new Dead(error);
	if (word === "fail") throw new Error(error);
	const entries = { text, params: job.params, snooze: new Snooze(span), strange: () => 1, stop_asked: "asked" };
	return entries[word];
};
define("many", { ...limits, batch: 3, batchWait: "200ms" }, async jobs => {
	const given = word => jobs.find(job => job.params.do === word)?.params;
	if (given("raise")) throw new Error(given("raise").error);
	if (given("null")) return null;
	const saved = new Map();
	for (const job of jobs.filter(job => job.params.do === "step")) {
		saved.set(job, [await job.step("one", () => job.params.value)]);
	}
	return [...jobs.map(job => saved.get(job) ?? entry(job)), ...(given("long") ? ["too many"] : [])];
});

run({ version: "1.2-test" });
