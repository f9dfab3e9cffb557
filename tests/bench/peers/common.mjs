// SPDX-License-Identifier: MIT
// What the programs beside this file share.

export function settings() {
	return [process.argv[2], JSON.parse(process.argv[3] ?? "{}")];
}

// "host=/x port=1 dbname=y" as the options of node-postgres.
export function connection(conninfo) {
	const parts = Object.fromEntries(conninfo.split(" ").map(word => word.split("=")));
	return { host: parts.host, port: Number(parts.port), user: parts.user, database: parts.dbname };
}

export function answer(value) {
	console.log(JSON.stringify(value));
}

// What ran in this process. The ids' sum and exclusive-or are held against the database's own: with the count,
// they tell a job that was left out or run twice, and cost nothing beside it.
export class Tally {
	count = 0;
	sum = 0n;
	xor = 0n;
	times = []; // when every 1,000th began
	stamps = []; // [n, when it began]

	add(id) {
		this.sum += id;
		this.xor ^= id;
		if (this.count++ % 1000 === 0) this.times.push(now());
	}

	stamp(n) {
		this.stamps.push([n, now()]);
	}

	result() {
		return {
			count: this.count,
			sum: String(this.sum),
			xor: String(this.xor),
			times: this.times,
			stamps: this.stamps,
		};
	}
}

// Seconds of the clock that all processes of the machine share.
export function now() {
	return Number(process.hrtime.bigint()) / 1e9;
}

// `clients` callers, each with one call under way, until the time is up.
export async function count_until(clients, seconds, call) {
	await call(); // connected, prepared
	const start = performance.now();
	const end = start + seconds * 1000;
	let calls = 0;
	const caller = async () => {
		while (performance.now() < end) {
			await call();
			calls++;
		}
	};
	await Promise.all(Array.from({ length: clients }, caller));
	return { calls, seconds: (performance.now() - start) / 1000 };
}

// `count` calls at a steady pace, each on time even if the one before is still under way.
export async function pace(count, interval_ms, call) {
	await call(-1);
	const stamps = [];
	const calls = [];
	const start = performance.now();
	for (let n = 0; n < count; n++) {
		const wait = start + (n + 1) * interval_ms - performance.now();
		if (wait > 0) await new Promise(resolve => setTimeout(resolve, wait));
		stamps.push([n, now()]);
		calls.push(call(n));
	}
	await Promise.all(calls);
	return { stamps };
}
