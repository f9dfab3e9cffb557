// node parse.mjs FILE...: prints a line of JSON for each mail, as mailparser and its splitter read it.

import { createHash } from "node:crypto";
import { createReadStream, readFileSync } from "node:fs";
import { pipeline } from "node:stream/promises";
import libmime from "libmime";
import { simpleParser } from "mailparser";
import { Splitter } from "mailsplit";

// Content types as they are nested, and of each leaf the charset and the encoding.
async function structure(file) {
	const root = { list: [] },
		leaves = [];
	const nodes = new Map([[null, root]]);
	const splitter = new Splitter({ ignoreEmbedded: true });
	splitter.on("data", part => {
		if (part.type !== "node") return;
		const place = { type: part.contentType, list: [] };
		nodes.get(part.parentNode || null).list.push(place);
		nodes.set(part, place);
		if (!part.multipart) leaves.push([part.contentType, part.charset || null, part.encoding || null]);
	});
	await pipeline(createReadStream(file), splitter);
	const shape = place => (place.list.length ? [place.type, ...place.list.map(shape)] : place.type);
	return { shape: shape(root.list[0]), leaves };
}

const people = field =>
	(field ? [field].flat().flatMap(f => f.value) : []).filter(a => a.address).map(a => [a.name, a.address]);

for (const file of process.argv.slice(2)) {
	const mail = await simpleParser(readFileSync(file), {
		skipHtmlToText: true,
		skipTextToHtml: true,
		keepCidLinks: true,
	});
	console.log(
		JSON.stringify({
			...(await structure(file)),
			subject: mail.subject,
			date: mail.date,
			id: mail.messageId,
			text: mail.text,
			html: mail.html || undefined,
			from: people(mail.from),
			to: people(mail.to),
			cc: people(mail.cc),
			reply_to: people(mail.replyTo),
			own: libmime.decodeWords(mail.headers.get("x-order")),
			files: mail.attachments.map(a => [
				a.filename || null,
				a.cid || null,
				a.contentDisposition || null,
				createHash("sha256").update(a.content).digest("hex"),
			]),
		}),
	);
}
