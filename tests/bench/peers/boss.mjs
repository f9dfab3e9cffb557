// SPDX-License-Identifier: MIT
// pg-boss, batches of 1,000 by fetch() and complete(): what peers.py starts. Settings come as one JSON object, the
// answer is one JSON object on standard output.
//
//     boss.mjs migrate  {conninfo}
//     boss.mjs once     {conninfo, batch, loops}            runs what is due, ends when nothing is left
//     boss.mjs loop     {conninfo, notify}                  runs until SIGTERM; prints "ready" first
//     boss.mjs send     {conninfo, clients, seconds}        send(), one transaction each
//     boss.mjs pace     {conninfo, count, interval_ms, notify}  send() at a steady pace; says when each was called
//     boss.mjs bulk     {conninfo, jobs, batch}             insert(), `batch` jobs a call
import { PgBoss } from "pg-boss";
import { Tally, answer, connection, count_until, pace, settings } from "./common.mjs";

const [verb, set] = settings();
const tally = new Tally();

// A queue of its own for the latency by NOTIFY: the rest is not to pay for it.
const QUEUE = "noop";
const queue_of = notify => (notify ? "stamp_notify" : "stamp_poll");

// Upkeep and schedules are off in all but the migration: neither is part of running a job.
const boss = new PgBoss({
	...connection(set.conninfo),
	max: Math.max(set.clients ?? 1, set.loops ?? 1) + 1,
	schedule: false,
	supervise: false,
	migrate: verb === "migrate",
	useListenNotify: Boolean(set.notify),
});
boss.on("error", e => console.error(e.message));
await boss.start();

if (verb === "migrate") {
	await boss.createQueue(QUEUE);
	await boss.createQueue(queue_of(false));
	await boss.createQueue(queue_of(true), { notify: true });
} else if (verb === "once") {
	const loop = async () => {
		for (;;) {
			const jobs = await boss.fetch(QUEUE, { batchSize: set.batch });
			if (jobs.length === 0) return;
			for (const job of jobs) tally.add(job.data.n ? 1n : 0n);
			await boss.complete(
				QUEUE,
				jobs.map(job => job.id),
			);
		}
	};
	await Promise.all(Array.from({ length: set.loops }, loop));
} else if (verb === "loop") {
	const stopped = new Promise(resolve => process.on("SIGTERM", resolve));
	const stamp = jobs => {
		for (const job of jobs) tally.stamp(job.data.n);
	};
	await boss.work(queue_of(set.notify), { batchSize: 100, pollingIntervalSeconds: 0.5 }, async jobs =>
		stamp(jobs),
	);
	console.log("ready");
	await stopped;
} else if (verb === "send") {
	answer(await count_until(set.clients, set.seconds, () => boss.send(QUEUE, { n: 1 })));
} else if (verb === "pace") {
	answer(await pace(set.count, set.interval_ms, n => boss.send(queue_of(set.notify), { n })));
} else {
	const start = performance.now();
	for (let sent = 0; sent < set.jobs; sent += set.batch)
		await boss.insert(
			QUEUE,
			Array.from({ length: Math.min(set.batch, set.jobs - sent) }, () => ({ data: { n: 1 } })),
		);
	answer({ calls: set.jobs, seconds: (performance.now() - start) / 1000 });
}
await boss.stop();
if (verb === "once" || verb === "loop") answer(tally.result());
