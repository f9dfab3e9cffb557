// SPDX-License-Identifier: MIT
// What a producer and a consumer do, step by step: one line of JSON for each thing done.
//
//     create QUEUE JSON        with this metadata
//     put QUEUE TEXT...
//     get QUEUE SECONDS        one message, hidden for so long; null where there is none
//     delete QUEUE ID RECEIPT  "deleted", or the code of the error
//     consume QUEUE SECONDS    takes and holds messages, some for longer than they are hidden, deletes them, until none have come for a while
//     produce QUEUE            puts one message after the other, and deletes each third, until it is killed: what was answered and,
//                              before it is asked for, what is to be deleted
import { once, service, sleep } from "./common.mjs";

const [verb, name, ...args] = process.argv.slice(2);
const queue = service(once).getQueueClient(name);
const say = value => process.stdout.write(`${JSON.stringify(value)}\n`);

async function remove(id, receipt) {
	try {
		await queue.deleteMessage(id, receipt);
		return "deleted";
	} catch (e) {
		return e.code;
	}
}

const verbs = {
	async create(metadata) {
		say((await queue.create({ metadata: JSON.parse(metadata) }))._response.status);
	},
	async put(...texts) {
		for (const text of texts) say((await queue.sendMessage(text)).messageId);
	},
	async get(seconds) {
		const [m] = (await queue.receiveMessages({ visibilityTimeout: Number(seconds) })).receivedMessageItems;
		say(m ? { id: m.messageId, receipt: m.popReceipt, text: m.messageText, count: m.dequeueCount } : null);
	},
	async delete(id, receipt) {
		say(await remove(id, receipt));
	},
	async consume(seconds) {
		const hold = async m => {
			// Every third holder is slower than its lease.
			const slow = m.dequeueCount < 3 && Math.random() < 1 / 3;
			await sleep(slow ? 1000 * seconds + 600 : 20 * Math.random());
			say({
				id: m.messageId,
				receipt: m.popReceipt,
				count: m.dequeueCount,
				did: await remove(m.messageId, m.popReceipt),
				slow,
			});
		};
		const held = [];
		for (let quiet = 0; quiet < 15; quiet++) {
			const items = (
				await queue.receiveMessages({ numberOfMessages: 8, visibilityTimeout: Number(seconds) })
			).receivedMessageItems;
			held.push(...items.map(hold));
			if (items.length) quiet = 0;
			else await sleep(200);
		}
		await Promise.all(held);
	},
	async produce() {
		const one = async lane => {
			for (let n = 0; ; n++) {
				const text = `${process.pid}-${lane}-${n}`;
				try {
					const { messageId, popReceipt } = await queue.sendMessage(text);
					say({ put: text });
					if (n % 3) continue;
					say({ delete: text });
					await queue.deleteMessage(messageId, popReceipt);
					say({ deleted: text });
				} catch (e) {
					if (
						![
							undefined,
							"ECONNREFUSED",
							"ECONNRESET",
							"ServerBusy",
							"REQUEST_SEND_ERROR",
							"EPIPE",
						].includes(e.code)
					)
						say({ error: String(e), code: e.code });
					await sleep(50); // nobody knows whether it was done
				}
			}
		};
		await Promise.all(Array.from({ length: 8 }, (_, lane) => one(lane)));
	},
};

await verbs[verb](...args);
