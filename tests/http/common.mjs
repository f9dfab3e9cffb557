// SPDX-License-Identifier: MIT
// What the scripts beside this file share. They run where npm puts the packages (see node.py), with ENDPOINT, ACCOUNT and
// KEY in the environment; SDK names another release of the client.
import assert from "node:assert/strict";

export const sdk = await import(process.env.SDK ?? "@azure/storage-queue");
export const { ENDPOINT, ACCOUNT, KEY } = process.env;
export const credential = new sdk.StorageSharedKeyCredential(ACCOUNT, KEY);

// One try: what a server answers only at the second one is not to pass.
export const once = { retryOptions: { maxTries: 1 } };

export function service(options = once, endpoint = ENDPOINT, key = credential) {
	return new sdk.QueueServiceClient(endpoint, key, options);
}

// Release 12.31 drops line feeds before it sends a text.
export function client_keeps(text) {
	return process.env.SDK === "storage-queue-before" ? text.replaceAll("\n", "") : text;
}

export function status(answer) {
	return answer._response.status;
}

export function header(answer, name) {
	return answer._response.headers.get(name);
}

// A rejection with this status and code, as a user of the client sees them.
export async function fails(promise, statusCode, code) {
	const error = await promise.then(
		() => assert.fail(`no error, but ${statusCode} ${code} is due`),
		e => e,
	);
	assert.equal(error.name, "RestError", String(error.stack));
	assert.deepEqual([error.statusCode, error.code], [statusCode, code]);
	return error;
}

let number = 0;

// A queue of a name of its own that exists.
export async function queue(client = service()) {
	const found = client.getQueueClient(`q${process.pid}-${++number}`);
	await found.create();
	return found;
}

export function sleep(ms) {
	return new Promise(resolve => setTimeout(resolve, ms));
}

export async function until(condition, what, ms = 20000) {
	const end = Date.now() + ms;
	for (;;) {
		const value = await condition();
		if (value) return value;
		if (Date.now() > end) assert.fail(`not within ${ms} ms: ${what}`);
		await sleep(50);
	}
}

export function in_s(seconds) {
	return new Date(Date.now() + seconds * 1000);
}

// What an iterator of the client yields. A list without an end is an error.
export async function collect(items) {
	const found = [];
	for await (const item of items) {
		found.push(item);
		assert.ok(found.length < 1000, "the list has no end");
	}
	return found;
}
