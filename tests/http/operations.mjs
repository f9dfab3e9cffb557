// SPDX-License-Identifier: MIT
// Every operation of the queue protocol by the stock client, and what its users see of it.
import assert from "node:assert/strict";
import node_test from "node:test";
import {
	ACCOUNT,
	ENDPOINT,
	client_keeps,
	collect,
	fails,
	header,
	in_s,
	once,
	queue,
	sdk,
	service,
	sleep,
	status,
	until,
} from "./common.mjs";

const WEEK = 604800;
const GUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const names = async items => (await collect(items)).map(item => item.name);
const test = (name, body) => node_test(name, { timeout: 60000 }, body);
// Properties belong to the account: no two tests of them at once, and each leaves them as they were.
const PLAIN = {
	queueAnalyticsLogging: {
		version: "1.0",
		deleteProperty: false,
		read: false,
		write: false,
		retentionPolicy: { enabled: false },
	},
	hourMetrics: { version: "1.0", enabled: false, retentionPolicy: { enabled: false } },
	minuteMetrics: { version: "1.0", enabled: false, retentionPolicy: { enabled: false } },
	cors: [],
};

// ---- the account

test("an account without settings has all of them off", async () => {
	const got = await service().getProperties();
	assert.equal(status(got), 200);
	assert.deepEqual(
		JSON.parse(JSON.stringify([got.queueAnalyticsLogging, got.hourMetrics, got.minuteMetrics, got.cors])),
		[PLAIN.queueAnalyticsLogging, PLAIN.hourMetrics, PLAIN.minuteMetrics, []],
	);
});

test("service properties come back as they were set", async () => {
	const set = {
		queueAnalyticsLogging: {
			version: "1.0",
			deleteProperty: true,
			read: true,
			write: false,
			retentionPolicy: { enabled: true, days: 5 },
		},
		hourMetrics: {
			version: "1.0",
			enabled: true,
			includeAPIs: true,
			retentionPolicy: { enabled: true, days: 3 },
		},
		minuteMetrics: { version: "1.0", enabled: false, retentionPolicy: { enabled: false } },
		cors: [
			{
				allowedOrigins: "http://a.example,http://b.example",
				allowedMethods: "GET,PUT",
				allowedHeaders: "x-ms-*",
				exposedHeaders: "x-ms-*",
				maxAgeInSeconds: 200,
			},
			{
				allowedOrigins: "*",
				allowedMethods: "OPTIONS",
				allowedHeaders: "",
				exposedHeaders: "",
				maxAgeInSeconds: 1,
			},
		],
	};
	try {
		assert.equal(status(await service().setProperties(set)), 202);
		const got = await service().getProperties();
		for (const name of Object.keys(set))
			assert.deepEqual(JSON.parse(JSON.stringify(got[name])), set[name], name);
		await service().setProperties({ hourMetrics: PLAIN.hourMetrics });
		const then = await service().getProperties();
		assert.equal(then.hourMetrics.enabled, false);
		assert.deepEqual(
			[then.queueAnalyticsLogging.read, then.cors.length],
			[true, 2],
			"what is not named stays",
		);
		await fails(service().setProperties({ cors: Array(6).fill(set.cors[0]) }), 400, "InvalidXmlDocument");
	} finally {
		await service().setProperties(PLAIN);
	}
	assert.deepEqual((await service().getProperties()).cors, []);
});

test("a browser is let in by the rules for cross-origin requests", async () => {
	const url = `${ENDPOINT}/any-queue/messages`;
	const preflight = (origin, method, headers) =>
		fetch(url, {
			method: "OPTIONS",
			headers: {
				Origin: origin,
				"Access-Control-Request-Method": method,
				...(headers && { "Access-Control-Request-Headers": headers }),
			},
		});
	assert.equal((await preflight("http://a.example", "GET")).status, 403);
	try {
		await service().setProperties({
			cors: [
				{
					allowedOrigins: "http://a.example",
					allowedMethods: "GET,POST",
					allowedHeaders: "x-ms-*,content-type",
					exposedHeaders: "x-ms-request-id,x-own",
					maxAgeInSeconds: 77,
				},
			],
		});
		const allowed = await until(async () => {
			const got = await preflight("http://a.example", "POST", "x-ms-date,content-type");
			return got.status === 200 && got;
		}, "the new rules are in force");
		assert.deepEqual(
			["origin", "methods", "headers", "credentials"].map(n =>
				allowed.headers.get(`access-control-allow-${n}`),
			),
			["http://a.example", "POST", "x-ms-date,content-type", "true"],
		);
		assert.equal(allowed.headers.get("access-control-max-age"), "77");
		for (const wrong of [
			["http://b.example", "POST"],
			["http://a.example", "DELETE"],
			["http://a.example", "POST", "authorization"],
		]) {
			const got = await preflight(...wrong);
			assert.deepEqual(
				[got.status, got.headers.get("x-ms-error-code")],
				[403, "CorsPreflightFailure"],
				String(wrong),
			);
		}
		// The answer itself, an error too.
		const refused = await fetch(url, { headers: { Origin: "http://a.example" } });
		assert.equal(refused.status, 403);
		assert.equal(refused.headers.get("access-control-allow-origin"), "http://a.example");
		assert.match(refused.headers.get("access-control-expose-headers"), /x-ms-request-id/);
		assert.equal(
			(await fetch(url, { headers: { Origin: "http://b.example" } })).headers.get(
				"access-control-allow-origin",
			),
			null,
		);
	} finally {
		await service().setProperties(PLAIN);
	}
});

test("statistics are those of the secondary endpoint", async () => {
	const got = await service(once, `${ENDPOINT}-secondary`).getStatistics();
	assert.equal(status(got), 200);
	// The client of today loses what it was told, so the answer itself is looked at.
	const [, state, time] = got._response.bodyAsText.match(
		/<Status>(.*)<\/Status><LastSyncTime>(.*)<\/LastSyncTime>/,
	);
	assert.equal(state, "live");
	assert.ok(Math.abs(new Date(time) - Date.now()) < 60000);
	await fails(service().getStatistics(), 400, "InvalidQueryParameterValue");
});

test("queues are listed by name, in pages, by prefix, with metadata when asked for", async () => {
	const client = service();
	const prefix = `l${process.pid}-`;
	for (const name of ["d", "b", "e", "a", "c"])
		await client.createQueue(
			prefix + name,
			name === "b" ? { metadata: { owner: "bee", second: "2" } } : {},
		);
	await client.createQueue(`k${process.pid}-other`);
	const all = ["a", "b", "c", "d", "e"].map(n => prefix + n);
	assert.deepEqual(await names(client.listQueues({ prefix })), all);
	for (const size of [1, 2, 4, 5, 5000]) {
		const pages = (await collect(client.listQueues({ prefix }).byPage({ maxPageSize: size }))).map(page =>
			page.queueItems.map(q => q.name),
		);
		assert.deepEqual(pages.flat(), all, `${size} a page`);
		assert.equal(pages.length, Math.ceil(5 / size));
	}
	const first = (await client.listQueues({ prefix }).byPage({ maxPageSize: 2 }).next()).value;
	assert.deepEqual([first.prefix, first.maxPageSize, first.serviceEndpoint], [prefix, 2, ENDPOINT]);
	const rest = await collect(
		client.listQueues({ prefix }).byPage({ continuationToken: first.continuationToken }),
	);
	assert.deepEqual(
		rest.flatMap(page => page.queueItems.map(q => q.name)),
		all.slice(2),
	);
	const found = Object.fromEntries(
		(await collect(client.listQueues({ prefix, includeMetadata: true }))).map(q => [q.name, q.metadata]),
	);
	assert.deepEqual({ ...found[`${prefix}b`] }, { owner: "bee", second: "2" });
	assert.deepEqual(Object.keys(found[`${prefix}a`] || {}), []);
	assert.deepEqual(await names(client.listQueues({ prefix: `${prefix}zz` })), []);
	const every = await names(client.listQueues());
	assert.deepEqual(every, [...every].sort());
	assert.ok(every.includes(`k${process.pid}-other`));
	await fails(client.listQueues().byPage({ maxPageSize: 0 }).next(), 400, "OutOfRangeQueryParameterValue");
	for (const name of all) await client.deleteQueue(name);
	assert.deepEqual(await names(client.listQueues({ prefix })), []);
});

// ---- queues

test("a queue is made once, deleted once", async () => {
	const q = service().getQueueClient(`once${process.pid}`);
	assert.equal(await q.exists(), false);
	const made = await q.create({ metadata: { colour: "Blue" } });
	assert.equal(status(made), 201);
	assert.match(made.requestId, GUID);
	assert.ok(Math.abs(made.date - Date.now()) < 60000);
	assert.ok(made.version);
	assert.equal(await q.exists(), true);
	assert.equal(status(await q.create({ metadata: { COLOUR: "Blue" } })), 204, "the same again");
	const error = await fails(q.create({ metadata: { colour: "blue" } }), 409, "QueueAlreadyExists");
	assert.match(error.details?.errorCode ?? "QueueAlreadyExists", /QueueAlreadyExists/);
	await fails(q.create(), 409, "QueueAlreadyExists");
	const again = await q.createIfNotExists();
	assert.deepEqual([again.succeeded, again.errorCode], [false, "QueueAlreadyExists"]);
	assert.equal((await q.createIfNotExists({ metadata: { colour: "Blue" } })).succeeded, false);
	assert.equal(status(await q.delete()), 204);
	assert.equal(await q.exists(), false);
	await fails(q.delete(), 404, "QueueNotFound");
	assert.deepEqual(
		[
			(await q.deleteIfExists()).succeeded,
			(await q.createIfNotExists()).succeeded,
			(await q.deleteIfExists()).succeeded,
		],
		[false, true, true],
	);
});

test("a queue made again under its name is empty", async () => {
	const q = await queue();
	await q.sendMessage("of the first");
	await q.delete();
	await fails(q.sendMessage("between"), 404, "QueueNotFound");
	await q.create();
	assert.equal((await q.peekMessages()).peekedMessageItems.length, 0);
	assert.equal((await q.getProperties()).approximateMessagesCount, 0);
});

test("names that no queue can have are refused", async () => {
	for (const name of ["ab", "a".repeat(64)]) await fails(service().createQueue(name), 400, "OutOfRangeInput");
	for (const name of ["Upper", "two--dashes", "-first", "last-", "under_score", "a.dot", "bl%20ank", "b|ar"])
		await fails(service().createQueue(name), 400, "InvalidResourceName");
	for (const name of ["abc", "a".repeat(63), "1-2-3"]) {
		assert.equal(status(await service().createQueue(name)), 201, name);
		await service().deleteQueue(name);
	}
});

test("metadata is replaced as a whole, and counts the messages beside it", async () => {
	const q = await queue();
	assert.equal(status(await q.setMetadata({ one: "1", two: "Zwei" })), 204);
	let got = await q.getProperties();
	assert.deepEqual({ ...got.metadata }, { one: "1", two: "Zwei" });
	assert.equal(got.approximateMessagesCount, 0);
	await q.sendMessage("seen");
	await q.sendMessage("hidden", { visibilityTimeout: 60 });
	await q.setMetadata({ three: "3" });
	got = await q.getProperties();
	assert.deepEqual([{ ...got.metadata }, got.approximateMessagesCount], [{ three: "3" }, 2]);
	await q.setMetadata();
	assert.deepEqual({ ...(await q.getProperties()).metadata }, {});
	await fails(q.setMetadata({ "not-a-name": "x" }), 400, "InvalidMetadata");
	await fails(q.setMetadata({ large: "x".repeat(9000) }), 400, "MetadataTooLarge");
	await fails(service().getQueueClient("no-such-queue").setMetadata({ a: "1" }), 404, "QueueNotFound");
	await fails(service().getQueueClient("no-such-queue").getProperties(), 404, "QueueNotFound");
});

test("stored access policies come back as they were set", async () => {
	const q = await queue();
	assert.deepEqual((await q.getAccessPolicy()).signedIdentifiers, []);
	const policy = {
		id: "policy-1",
		accessPolicy: {
			startsOn: new Date("2020-01-01T00:00:00Z"),
			expiresOn: new Date("2099-01-01T12:30:00Z"),
			permissions: "raup",
		},
	};
	assert.equal(status(await q.setAccessPolicy([policy, { id: "bare", accessPolicy: {} }])), 204);
	const got = (await q.getAccessPolicy()).signedIdentifiers;
	assert.deepEqual(
		got.map(p => p.id),
		["policy-1", "bare"],
	);
	assert.deepEqual({ ...got[0].accessPolicy }, policy.accessPolicy);
	await fails(
		q.setAccessPolicy(Array.from({ length: 6 }, (_, i) => ({ ...policy, id: `p${i}` }))),
		400,
		"InvalidXmlDocument",
	);
	await fails(q.setAccessPolicy([policy, policy]), 400, "InvalidXmlDocument");
	assert.equal((await q.getAccessPolicy()).signedIdentifiers.length, 2, "what was refused changed nothing");
	await q.setAccessPolicy([]);
	assert.deepEqual((await q.getAccessPolicy()).signedIdentifiers, []);
	await fails(service().getQueueClient("no-such-queue").getAccessPolicy(), 404, "QueueNotFound");
});

// ---- who may

function by_url(url, kind = sdk.QueueClient) {
	return new kind(url, new sdk.AnonymousCredential(), once);
}

test("a key that is wrong, or none, learns nothing and changes nothing", async () => {
	const q = await queue();
	await q.sendMessage("secret");
	const wrong = new sdk.StorageSharedKeyCredential(
		ACCOUNT,
		Buffer.from("no key of this account").toString("base64"),
	);
	const stranger = new sdk.StorageSharedKeyCredential("nobodyknows", Buffer.from("a key").toString("base64"));
	for (const other of [wrong, new sdk.AnonymousCredential()]) {
		const client = service(once, ENDPOINT, other);
		const theirs = client.getQueueClient(q.name);
		for (const attempt of [
			() => client.getProperties(),
			() => client.createQueue("not-made"),
			() => names(client.listQueues()),
			() => theirs.getProperties(),
			() => theirs.delete(),
			() => theirs.sendMessage("x"),
			() => theirs.receiveMessages(),
			() => theirs.peekMessages(),
			() => theirs.clearMessages(),
			() => theirs.setMetadata({ a: "1" }),
			() => theirs.setAccessPolicy([]),
			() => client.setProperties(PLAIN),
			() => client.getQueueClient("no-such-queue").getProperties(),
		])
			await fails(attempt(), 403, "AuthenticationFailed");
	}
	await assert.rejects(service(once, ENDPOINT.replace(ACCOUNT, "nobodyknows"), stranger).getProperties(), e =>
		[403, 404].includes(e.statusCode),
	);
	assert.deepEqual(
		(await q.peekMessages()).peekedMessageItems.map(m => [m.messageText, m.dequeueCount]),
		[["secret", 0]],
	);
	assert.equal(await service().getQueueClient("not-made").exists(), false);
});

test("a signature for an account opens what its letters say", async () => {
	const q = await queue();
	const account = (permissions, types = "sco", expires = in_s(600), more = {}) =>
		by_url(
			service().generateAccountSasUrl(
				expires,
				sdk.AccountSASPermissions.parse(permissions),
				types,
				more,
			),
			sdk.QueueServiceClient,
		);
	const all = account("rwdlacup");
	const made = all.getQueueClient(`sas${process.pid}`);
	await made.create({ metadata: { a: "1" } });
	assert.ok((await names(all.listQueues())).includes(made.name));
	await made.setMetadata({ a: "2" });
	assert.equal((await made.getProperties()).metadata.a, "2");
	await made.sendMessage("by signature");
	const [m] = (await made.receiveMessages()).receivedMessageItems;
	const updated = await made.updateMessage(m.messageId, m.popReceipt, "again", 0);
	await made.deleteMessage(m.messageId, updated.popReceipt);
	await made.clearMessages();
	assert.equal((await made.peekMessages()).peekedMessageItems.length, 0);
	await all.getProperties();
	await made.delete();

	const on = client => client.getQueueClient(q.name);
	await fails(on(account("r")).sendMessage("x"), 403, "AuthorizationPermissionMismatch");
	await on(account("a")).sendMessage("x");
	await fails(on(account("a")).receiveMessages(), 403, "AuthorizationPermissionMismatch");
	assert.equal((await on(account("p")).receiveMessages()).receivedMessageItems.length, 1);
	await fails(on(account("rwdlacup", "s")).sendMessage("x"), 403, "AuthorizationResourceTypeMismatch");
	await fails(names(account("rwdlacup", "o").listQueues()), 403, "AuthorizationResourceTypeMismatch");
	await fails(on(account("rwdlacup", "sco", in_s(-5))).peekMessages(), 403, "AuthenticationFailed");
	await fails(
		on(account("rwdlacup", "sco", in_s(600), { startsOn: in_s(300) })).peekMessages(),
		403,
		"AuthenticationFailed",
	);
	await fails(
		on(account("rwdlacup", "sco", in_s(600), { protocol: "https" })).peekMessages(),
		403,
		"AuthorizationProtocolMismatch",
	);
	await on(account("r", "o", in_s(600), { ipRange: { start: "127.0.0.1" } })).peekMessages();
	await fails(
		on(account("r", "o", in_s(600), { ipRange: { start: "10.0.0.1", end: "10.0.0.9" } })).peekMessages(),
		403,
		"AuthorizationSourceIPMismatch",
	);
	await assert.rejects(on(account("rwdlacup")).getAccessPolicy(), { statusCode: 403 });
	const url = new URL(service().generateAccountSasUrl(in_s(600), sdk.AccountSASPermissions.parse("r"), "sco"));
	url.searchParams.set("sp", "rwdlacup");
	await fails(on(by_url(url.href, sdk.QueueServiceClient)).sendMessage("x"), 403, "AuthenticationFailed");
});

test("a signature for a queue opens that queue alone", async () => {
	const [q, other] = [await queue(), await queue()];
	const sas = (permissions, more = {}) =>
		by_url(
			q.generateSasUrl({
				expiresOn: in_s(600),
				permissions: sdk.QueueSASPermissions.parse(permissions),
				...more,
			}),
		);
	const all = sas("raup");
	await all.sendMessage("one");
	assert.equal((await all.peekMessages()).peekedMessageItems[0].messageText, "one");
	const [m] = (await all.receiveMessages()).receivedMessageItems;
	const { popReceipt } = await all.updateMessage(m.messageId, m.popReceipt, undefined, 30);
	await all.deleteMessage(m.messageId, popReceipt);
	await all.getProperties();
	await fails(all.delete(), 403, "AuthorizationPermissionMismatch");
	await fails(sas("r").sendMessage("x"), 403, "AuthorizationPermissionMismatch");
	await fails(sas("a").peekMessages(), 403, "AuthorizationPermissionMismatch");
	await fails(by_url(all.url.replace(q.name, other.name)).peekMessages(), 403, "AuthenticationFailed");
	await fails(sas("r", { startsOn: in_s(300) }).peekMessages(), 403, "AuthenticationFailed");
});

test("a stored policy opens a queue until it is changed", async () => {
	const q = await queue();
	await q.sendMessage("one");
	const client = by_url(q.generateSasUrl({ identifier: "shop" }));
	await fails(client.peekMessages(), 403, "AuthenticationFailed");
	await q.setAccessPolicy([
		{ id: "shop", accessPolicy: { startsOn: in_s(-600), expiresOn: in_s(600), permissions: "r" } },
	]);
	assert.equal((await client.peekMessages()).peekedMessageItems[0].messageText, "one");
	await fails(client.sendMessage("x"), 403, "AuthorizationPermissionMismatch");
	await q.setAccessPolicy([
		{ id: "shop", accessPolicy: { startsOn: in_s(-600), expiresOn: in_s(600), permissions: "ra" } },
	]);
	await client.sendMessage("two");
	await q.setAccessPolicy([
		{ id: "shop", accessPolicy: { startsOn: in_s(-600), expiresOn: in_s(-300), permissions: "ra" } },
	]);
	await fails(client.peekMessages(), 403, "AuthenticationFailed");
	await q.setAccessPolicy([]);
	await fails(client.peekMessages(), 403, "AuthenticationFailed");
});

// ---- messages

test("a message is put, peeked, taken, deleted", async () => {
	const q = await queue();
	const put = await q.sendMessage('Hello & <world> "x"');
	assert.equal(status(put), 201);
	assert.match(put.messageId, GUID);
	assert.match(put.requestId, GUID);
	assert.ok(put.popReceipt.length > 0);
	assert.equal(put.expiresOn - put.insertedOn, WEEK * 1000);
	assert.equal(+put.nextVisibleOn, +put.insertedOn);
	assert.ok(Math.abs(put.insertedOn - Date.now()) < 60000);

	const [seen] = (await q.peekMessages()).peekedMessageItems;
	assert.deepEqual(
		[seen.messageId, seen.messageText, seen.dequeueCount, +seen.insertedOn, +seen.expiresOn],
		[put.messageId, 'Hello & <world> "x"', 0, +put.insertedOn, +put.expiresOn],
	);
	assert.deepEqual([seen.popReceipt, seen.nextVisibleOn], [undefined, undefined]);

	const before = Date.now();
	const got = await q.receiveMessages();
	assert.equal(status(got), 200);
	const [taken] = got.receivedMessageItems;
	assert.deepEqual(
		[taken.messageId, taken.messageText, taken.dequeueCount, +taken.insertedOn, +taken.expiresOn],
		[put.messageId, 'Hello & <world> "x"', 1, +put.insertedOn, +put.expiresOn],
	);
	assert.notEqual(taken.popReceipt, put.popReceipt);
	assert.ok(Math.abs(taken.nextVisibleOn - before - 30000) < 3000, "hidden for 30 s unless asked otherwise");
	assert.equal((await q.receiveMessages()).receivedMessageItems.length, 0);
	assert.equal((await q.peekMessages()).peekedMessageItems.length, 0, "what is hidden is not shown");
	assert.equal((await q.getProperties()).approximateMessagesCount, 1, "but counted");

	await fails(q.deleteMessage(put.messageId, put.popReceipt), 400, "PopReceiptMismatch");
	assert.equal(status(await q.deleteMessage(taken.messageId, taken.popReceipt)), 204);
	await fails(q.deleteMessage(taken.messageId, taken.popReceipt), 404, "MessageNotFound");
	assert.equal((await q.getProperties()).approximateMessagesCount, 0);
});

test("the receipt of a put is good until the message is taken", async () => {
	const q = await queue();
	const one = await q.sendMessage("one");
	await q.deleteMessage(one.messageId, one.popReceipt);
	const two = await q.sendMessage("two");
	const updated = await q.updateMessage(two.messageId, two.popReceipt, "changed", 0);
	await fails(q.deleteMessage(two.messageId, two.popReceipt), 400, "PopReceiptMismatch");
	assert.equal((await q.peekMessages()).peekedMessageItems[0].messageText, "changed");
	await q.deleteMessage(two.messageId, updated.popReceipt);
	assert.equal((await q.getProperties()).approximateMessagesCount, 0);
});

test("messages are taken in the order they came in, 32 at most", async () => {
	const q = await queue();
	const texts = Array.from({ length: 40 }, (_, i) => `message ${i}`);
	for (const text of texts) await q.sendMessage(text);
	assert.deepEqual(
		(await q.peekMessages({ numberOfMessages: 32 })).peekedMessageItems.map(m => m.messageText),
		texts.slice(0, 32),
	);
	assert.deepEqual(
		(await q.peekMessages({ numberOfMessages: 2 })).peekedMessageItems.map(m => m.messageText),
		texts.slice(0, 2),
	);
	const first = (await q.receiveMessages({ numberOfMessages: 32, visibilityTimeout: 60 })).receivedMessageItems;
	const rest = (await q.receiveMessages({ numberOfMessages: 32, visibilityTimeout: 60 })).receivedMessageItems;
	assert.deepEqual(
		[...first, ...rest].map(m => m.messageText),
		texts,
	);
	assert.equal(new Set([...first, ...rest].map(m => m.messageId)).size, 40);
	for (const m of [...first, ...rest]) await q.deleteMessage(m.messageId, m.popReceipt);
	for (const n of [0, 33]) {
		await fails(q.receiveMessages({ numberOfMessages: n }), 400, "OutOfRangeQueryParameterValue");
		await fails(q.peekMessages({ numberOfMessages: n }), 400, "OutOfRangeQueryParameterValue");
	}
});

test("any text that XML can carry arrives as it was sent", async () => {
	const q = await queue();
	const texts = [
		"",
		" ",
		"  led and trailed  ",
		"tab\tline\nend\n",
		"ünïcødé, 日本語, עברית, 🐘🧵",
		'<a href="x">&amp;&#65;</a>',
		"]]>",
		'{"a": [1, "ü"], "b": null}',
		"[1, 2]",
		'"quoted"',
		"null",
		"true",
		"12",
		"0.10",
		"'; drop table x; --",
		"\\u0041 \\ \\\\ %41 %",
		"\u007f\u0085\u2028\ufffd",
		"a\u0300",
		"😀".repeat(1000),
	];
	for (const text of texts.map(client_keeps)) {
		const { messageId } = await q.sendMessage(text);
		assert.equal((await q.peekMessages()).peekedMessageItems[0].messageText, text);
		const [m] = (await q.receiveMessages()).receivedMessageItems;
		assert.deepEqual([m.messageId, m.messageText], [messageId, text]);
		const { popReceipt } = await q.updateMessage(m.messageId, m.popReceipt, text + text, 0);
		assert.equal((await q.peekMessages()).peekedMessageItems[0].messageText, text + text, "by an update");
		await q.deleteMessage(m.messageId, popReceipt);
	}
	await fails(q.sendMessage("\u0001"), 400, "InvalidXmlDocument");
	assert.equal((await q.receiveMessages()).receivedMessageItems.length, 0);
});

test("a text of 64 KiB is taken, one byte more is not", async () => {
	const q = await queue();
	for (const text of [
		"x".repeat(65536),
		"&".repeat(65536),
		"ü".repeat(32768),
		"🐘".repeat(16384),
		`<${"日".repeat(21844)}&>0`,
	]) {
		assert.ok(Buffer.byteLength(text) <= 65536 && Buffer.byteLength(text) > 65532);
		await q.sendMessage(text);
		const [m] = (await q.receiveMessages()).receivedMessageItems;
		assert.ok(m.messageText === text);
		await q.deleteMessage(m.messageId, m.popReceipt);
	}
	const { messageId, popReceipt } = await q.sendMessage("small");
	for (const text of ["x".repeat(65537), `x${"ü".repeat(32768)}`, "&".repeat(65537), "x".repeat(1000000)]) {
		await fails(q.sendMessage(text), 413, "RequestBodyTooLarge");
		await fails(q.updateMessage(messageId, popReceipt, text, 0), 413, "RequestBodyTooLarge");
	}
	assert.equal((await q.getProperties()).approximateMessagesCount, 1);
	assert.equal((await q.peekMessages()).peekedMessageItems[0].messageText, "small");
});

test("32 messages of 64 KiB come in one answer", async () => {
	const q = await queue();
	await Promise.all(
		Array.from({ length: 32 }, (_, i) => q.sendMessage(`${String(i).padStart(4)}${"<".repeat(65532)}`)),
	);
	const items = (await q.receiveMessages({ numberOfMessages: 32 })).receivedMessageItems;
	assert.equal(items.length, 32);
	assert.ok(items.every(m => m.messageText.length === 65536));
	assert.deepEqual(
		items.map(m => Number(m.messageText.slice(0, 4))).sort((a, b) => a - b),
		Array.from({ length: 32 }, (_, i) => i),
	);
});

test("a message is visible again when its time is up, and counted", async () => {
	const q = await queue();
	await q.sendMessage("one");
	const [first] = (await q.receiveMessages({ visibilityTimeout: 3 })).receivedMessageItems;
	assert.equal((await q.receiveMessages()).receivedMessageItems.length, 0);
	const [second] = await until(async () => {
		const items = (await q.receiveMessages({ visibilityTimeout: 1 })).receivedMessageItems;
		return items.length && items;
	}, "visible again");
	assert.deepEqual(
		[second.messageId, second.dequeueCount, +second.insertedOn],
		[first.messageId, 2, +first.insertedOn],
	);
	assert.notEqual(second.popReceipt, first.popReceipt);
	await fails(q.deleteMessage(first.messageId, first.popReceipt), 400, "PopReceiptMismatch");
	await fails(q.updateMessage(first.messageId, first.popReceipt, "late", 10), 400, "PopReceiptMismatch");
	await sleep(1300);
	assert.equal((await q.peekMessages()).peekedMessageItems[0].dequeueCount, 2);
	assert.equal(
		status(await q.deleteMessage(second.messageId, second.popReceipt)),
		204,
		"nobody took it since: the receipt is good",
	);
});

test("an update renews the lease, changes the text, and voids the old receipt", async () => {
	const q = await queue();
	await q.sendMessage("first");
	const [m] = (await q.receiveMessages({ visibilityTimeout: 2 })).receivedMessageItems;
	const before = Date.now();
	const longer = await q.updateMessage(m.messageId, m.popReceipt, undefined, 100);
	assert.equal(status(longer), 204);
	assert.ok(Math.abs(longer.nextVisibleOn - before - 100000) < 3000);
	assert.notEqual(longer.popReceipt, m.popReceipt);
	await fails(q.updateMessage(m.messageId, m.popReceipt, "x", 0), 400, "PopReceiptMismatch");
	await sleep(2300);
	assert.equal((await q.receiveMessages()).receivedMessageItems.length, 0, "the lease was renewed");
	const changed = await q.updateMessage(m.messageId, longer.popReceipt, "second & last", 0);
	const [again] = (await q.receiveMessages()).receivedMessageItems;
	assert.deepEqual(
		[again.messageText, again.dequeueCount, +again.insertedOn, +again.expiresOn],
		["second & last", 2, +m.insertedOn, +m.expiresOn],
	);
	await fails(q.deleteMessage(m.messageId, changed.popReceipt), 400, "PopReceiptMismatch");
	const empty = await q.updateMessage(m.messageId, again.popReceipt, "", 0);
	assert.equal((await q.peekMessages()).peekedMessageItems[0].messageText, "", "the empty text is a text");
	await q.deleteMessage(m.messageId, empty.popReceipt);
});

test("a message waits for its delay, and is gone after its time to live", async () => {
	const q = await queue();
	const late = await q.sendMessage("late", { visibilityTimeout: 5 });
	assert.equal(late.nextVisibleOn - late.insertedOn, 5000);
	const brief = await q.sendMessage("brief", { messageTimeToLive: 3 });
	assert.equal(brief.expiresOn - brief.insertedOn, 3000);
	assert.deepEqual(
		(await q.peekMessages({ numberOfMessages: 32 })).peekedMessageItems.map(m => m.messageText),
		["brief"],
	);
	await sleep(3300);
	assert.ok(
		!(await q.peekMessages({ numberOfMessages: 32 })).peekedMessageItems.some(
			m => m.messageText === "brief",
		),
	);
	await fails(q.deleteMessage(brief.messageId, brief.popReceipt), 404, "MessageNotFound");
	const [m] = await until(async () => {
		const items = (await q.receiveMessages()).receivedMessageItems;
		return items.length && items;
	}, "visible");
	assert.deepEqual([m.messageText, m.dequeueCount], ["late", 1]);
	assert.equal((await q.getProperties()).approximateMessagesCount, 1);
	// A message that expires while it is held is gone as well.
	const held = await q.sendMessage("held", { messageTimeToLive: 3 });
	const [h] = (await q.receiveMessages({ visibilityTimeout: 30 })).receivedMessageItems;
	assert.equal(h.messageId, held.messageId);
	await sleep(3300);
	await fails(q.deleteMessage(h.messageId, h.popReceipt), 404, "MessageNotFound");
});

test("a time to live reaches from a second to for ever", async () => {
	const q = await queue();
	for (const messageTimeToLive of [1, WEEK, WEEK + 1, 2147483647, 2147483648]) {
		const put = await q.sendMessage("x", { messageTimeToLive });
		assert.equal(put.expiresOn - put.insertedOn, messageTimeToLive * 1000);
	}
	for (const messageTimeToLive of [-1, 9007199254740991]) {
		const put = await q.sendMessage("x", { messageTimeToLive });
		assert.equal(put.expiresOn.toISOString(), "9999-12-31T23:59:59.000Z");
	}
	for (const messageTimeToLive of [0, -2])
		await fails(q.sendMessage("x", { messageTimeToLive }), 400, "InvalidQueryParameterValue");
	await q.sendMessage("x", { visibilityTimeout: WEEK, messageTimeToLive: -1 });
	await q.sendMessage("x", { visibilityTimeout: 9, messageTimeToLive: 10 });
	await fails(
		q.sendMessage("x", { visibilityTimeout: 10, messageTimeToLive: 10 }),
		400,
		"InvalidQueryParameterValue",
	);
	for (const visibilityTimeout of [-1, WEEK + 1]) {
		await fails(q.sendMessage("x", { visibilityTimeout }), 400, "OutOfRangeQueryParameterValue");
		await fails(q.receiveMessages({ visibilityTimeout }), 400, "OutOfRangeQueryParameterValue");
	}
	await fails(q.receiveMessages({ visibilityTimeout: 0 }), 400, "OutOfRangeQueryParameterValue");
	const [m] = (await q.receiveMessages({ visibilityTimeout: WEEK })).receivedMessageItems;
	await fails(q.updateMessage(m.messageId, m.popReceipt, "x", WEEK + 1), 400, "OutOfRangeQueryParameterValue");
	await q.updateMessage(m.messageId, m.popReceipt, "x", WEEK);
});

test("clearing takes all messages, hidden ones too", async () => {
	const q = await queue();
	assert.equal(status(await q.clearMessages()), 204);
	for (let i = 0; i < 5; i++) await q.sendMessage(`${i}`, { visibilityTimeout: i === 4 ? 100 : 0 });
	const [m] = (await q.receiveMessages()).receivedMessageItems;
	assert.equal(status(await q.clearMessages()), 204);
	assert.equal((await q.getProperties()).approximateMessagesCount, 0);
	await fails(q.deleteMessage(m.messageId, m.popReceipt), 404, "MessageNotFound");
	await q.sendMessage("next");
	assert.equal((await q.receiveMessages()).receivedMessageItems[0].messageText, "next");
});

test("what is not there is named", async () => {
	const none = service().getQueueClient("no-such-queue");
	const q = await queue();
	const id = "00000000-0000-4000-8000-000000000001";
	for (const attempt of [
		() => none.sendMessage("x"),
		() => none.receiveMessages(),
		() => none.peekMessages(),
		() => none.clearMessages(),
		() => none.updateMessage(id, "x", "x", 0),
		() => none.deleteMessage(id, "x"),
	])
		await fails(attempt(), 404, "QueueNotFound");
	await fails(q.deleteMessage(id, "AAAA"), 404, "MessageNotFound");
	await fails(q.updateMessage(id, "AAAA", "x", 0), 404, "MessageNotFound");
	const { messageId, popReceipt } = await q.sendMessage("x");
	const other = await queue();
	await fails(other.deleteMessage(messageId, popReceipt), 404, "MessageNotFound");
	await fails(q.deleteMessage(messageId, "bm90IG91cnM="), 400, "PopReceiptMismatch");
	const error = await fails(q.receiveMessages({ numberOfMessages: 33 }), 400, "OutOfRangeQueryParameterValue");
	assert.equal(error.response.headers.get("x-ms-error-code"), "OutOfRangeQueryParameterValue");
	assert.match(error.response.bodyAsText, /<MaximumAllowed>32<\/MaximumAllowed>/);
});

test("an answer carries the request's own name", async () => {
	const q = await queue();
	const got = await q.sendMessage("x");
	assert.ok(got.clientRequestId);
	assert.equal(
		header(got, "x-ms-client-request-id"),
		got._response.request.headers.get("x-ms-client-request-id"),
	);
	assert.match(header(got, "content-type"), /^application\/xml/);
	assert.equal(got.errorCode, undefined);
});

test("many at once: each message goes to one consumer", async () => {
	const q = await queue();
	const sent = (await Promise.all(Array.from({ length: 200 }, (_, i) => q.sendMessage(`${i}`)))).map(
		m => m.messageId,
	);
	assert.equal(new Set(sent).size, 200);
	const taken = [];
	await Promise.all(
		Array.from({ length: 16 }, async () => {
			for (;;) {
				const items = (await q.receiveMessages({ numberOfMessages: 7, visibilityTimeout: 60 }))
					.receivedMessageItems;
				if (items.length === 0) return;
				taken.push(...items);
				await Promise.all(items.map(m => q.deleteMessage(m.messageId, m.popReceipt)));
			}
		}),
	);
	assert.deepEqual(taken.map(m => m.messageId).sort(), sent.sort());
	assert.equal((await q.getProperties()).approximateMessagesCount, 0);
});
