// defer(), finish() and extend() on clients of pg. tests/programs/test_library_node.py starts it.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import pg from "pg";
import { defer, define } from "deferred-program";
import { call } from "deferred-program/testing";

const client = new pg.Client();
const pool = new pg.Pool();
before(() => client.connect());
after(async () => {
	await client.end();
	await pool.end();
});

const job = async id => (await pool.query("select * from deferred.job where id = $1", [id])).rows[0];
const transaction = async (end, work) => {
	await client.query("begin");
	try {
		return await work();
	} finally {
		await client.query(end);
	}
};

test("defer() stores a job in the transaction of the caller", async () => {
	const params = { owner: "Größe 日本 😀", nul: "\0" };
	const id = await transaction("commit", async () => {
		const deferred = await defer(client, "resize", params, { label: "Ä", delay: "5min" });
		assert.equal(await job(deferred), undefined);
		return deferred;
	});
	assert.equal(typeof id, "string");
	const { fn, label, state } = await job(id);
	assert.deepEqual([fn, label, state], ["resize", "Ä", "delayed"]);
	const { rows } = await pool.query("select params::text from deferred.__deferred where id = $1", [id]);
	assert.deepEqual(JSON.parse(rows[0].params), params);
	const undone = await transaction("rollback", () => defer(client, "bare"));
	assert.equal(await job(undone), undefined);
});

test("defer() on a pool commits", async () => assert.equal((await job(await defer(pool, "bare"))).fn, "bare"));

test("defer() passes the server's refusal on", () =>
	assert.rejects(defer(pool, "resize", {}, { colour: "red" }), /colour/));

define("extends", (params, job) => job.extend(client, "10min"));
define("finishes", (params, job) => job.finish(client, { said: "Größe" }));

test("finish() and extend() act on the job in the transaction of the caller", async () => {
	// A claimed message has an id and a receipt, as the job of a function has.
	await defer(pool, null, {}, { queue: "orders" });
	const {
		rows: [claimed],
	} = await pool.query("select id, receipt from deferred.claim('orders')");
	const { id } = claimed;
	const extended = await transaction("commit", () => call("extends", {}, claimed));
	assert.equal(extended.outcome, "ok", extended.error);
	assert.ok(new Date(extended.data) > Date.now() + 9 * 60000);
	const { state } = await job(id);
	const undone = await transaction("rollback", () => call("finishes", {}, claimed));
	assert.equal(undone.outcome, "ok", undone.error);
	assert.equal((await job(id)).state, state);
	await transaction("commit", () => call("finishes", {}, claimed));
	assert.equal((await job(id)).state, "done");
	const {
		rows: [mine],
	} = await pool.query("select result from deferred.my_job where id = $1", [id]);
	assert.equal(mine.result, '{"said":"Größe"}');
	const again = await transaction("rollback", () => call("finishes", {}, claimed));
	assert.equal(again.outcome, "failed");
	assert.match(again.error, /receipt/);
});
