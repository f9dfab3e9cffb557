// SPDX-License-Identifier: MIT
// The load of http_load.c by the stock client: put|turn PORT QUEUE CONNECTIONS SECONDS MOST, with ACCOUNT and KEY in the environment.
import { QueueServiceClient, StorageSharedKeyCredential } from "@azure/storage-queue";

const [verb, port, name, connections, seconds, most] = process.argv.slice(2);
const { ACCOUNT, KEY } = process.env;
const queue = new QueueServiceClient(
	`http://127.0.0.1:${port}/${ACCOUNT}`,
	new StorageSharedKeyCredential(ACCOUNT, KEY),
	{ retryOptions: { maxTries: 1 } },
).getQueueClient(name);
const text = "x".repeat(100);
const took = [];
let begun = 0;
let empty = false;

async function turn() {
	const [m] = (await queue.receiveMessages({ visibilityTimeout: 300 })).receivedMessageItems;
	if (m) await queue.deleteMessage(m.messageId, m.popReceipt);
	else empty = true;
}

// Connected, and compiled: one second that changes nothing.
const warm = performance.now() + 1000;
await Promise.all(
	Array.from({ length: Number(connections) }, async () => {
		while (performance.now() < warm) await queue.peekMessages();
	}),
);
const start = performance.now();
const end = start + seconds * 1000;
let last = start;
await Promise.all(
	Array.from({ length: Number(connections) }, async () => {
		while (performance.now() < end && begun < most && !empty) {
			begun++;
			const from = performance.now();
			if (verb === "put") await queue.sendMessage(text);
			else await turn();
			if (empty) return;
			last = performance.now();
			took.push((last - from) * 1000);
		}
	}),
);
took.sort((a, b) => a - b);
const at = share => Math.round(took[Math.floor(took.length * share)] ?? 0);
console.log(JSON.stringify({ done: took.length, seconds: (last - start) / 1000, p50_us: at(0.5), p99_us: at(0.99) }));
