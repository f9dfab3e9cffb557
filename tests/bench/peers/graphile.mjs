// SPDX-License-Identifier: MIT
// graphile-worker, set up as its own performance page and test say: what peers.py starts. Settings come as one JSON
// object, the answer is one JSON object on standard output.
//
//     graphile.mjs migrate  {conninfo}
//     graphile.mjs once     {conninfo, concurrency, queue_size}      runs what is due, ends when nothing is left
//     graphile.mjs loop     {conninfo, concurrency, queue_size}      runs until SIGTERM; prints "ready" first
//     graphile.mjs send     {conninfo, clients, seconds}             addJob(), one transaction each
//     graphile.mjs pace     {conninfo, count, interval_ms}           addJob() at a steady pace; says when each was called
//     graphile.mjs bulk     {conninfo, jobs, batch}                  addJobs(), `batch` jobs a call
import { makeWorkerUtils, run, runMigrations, runOnce, Logger } from "graphile-worker";
import pg from "pg";
import { Tally, answer, connection, count_until, pace, settings } from "./common.mjs";

const [verb, set] = settings();
const tally = new Tally();
const logger = new Logger(() => (level, message) => {
	if (level === "error" || level === "warning") console.error(message);
});
const preset = {
	worker: {
		concurrentJobs: set.concurrency ?? 24,
		localQueue: set.queue_size ? { size: set.queue_size } : { size: -1 },
		completeJobBatchDelay: set.queue_size ? 0 : -1,
		failJobBatchDelay: set.queue_size ? 0 : -1,
		logger,
	},
};
const taskList = {
	noop: (_payload, helpers) => tally.add(BigInt(helpers.job.id)),
	stamp: payload => tally.stamp(payload.n),
};
const pool = max => {
	const made = new pg.Pool({ ...connection(set.conninfo), max });
	made.on("error", e => console.error(e.message));
	made.on("connect", client => client.on("error", e => console.error(e.message)));
	return made;
};

if (verb === "migrate") {
	const pgPool = pool(2);
	await runMigrations({ pgPool, preset });
	await pgPool.end();
} else if (verb === "once") {
	const pgPool = pool(preset.worker.concurrentJobs + 1);
	await runOnce({ pgPool, preset, taskList });
	await pgPool.end();
	answer(tally.result());
} else if (verb === "loop") {
	const pgPool = pool(preset.worker.concurrentJobs + 1);
	const runner = await run({ pgPool, preset, taskList, noHandleSignals: true, parsedCronItems: [] });
	process.on("SIGTERM", () => runner.stop());
	console.log("ready");
	await runner.promise;
	await pgPool.end();
	answer(tally.result());
} else {
	const pgPool = pool(set.clients ?? 1);
	const utils = await makeWorkerUtils({ pgPool, preset });
	if (verb === "send") {
		answer(await count_until(set.clients, set.seconds, () => utils.addJob("noop", { n: 1 })));
	} else if (verb === "pace") {
		answer(await pace(set.count, set.interval_ms, n => utils.addJob("stamp", { n })));
	} else {
		const start = performance.now();
		for (let sent = 0; sent < set.jobs; sent += set.batch)
			await utils.addJobs(
				Array.from({ length: Math.min(set.batch, set.jobs - sent) }, () => ({
					identifier: "noop",
					payload: { n: 1 },
				})),
			);
		answer({ calls: set.jobs, seconds: (performance.now() - start) / 1000 });
	}
	await utils.release();
	await pgPool.end();
}
