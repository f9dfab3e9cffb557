// node verify.mjs SECRET...: reads {"headers": ..., "body": ...} and prints, for each secret, the
// body as the library of Standard Webhooks has verified it, or why it refuses it.

import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";

const { headers, body } = JSON.parse(readFileSync(0, "utf8"));
const verdicts = process.argv.slice(2).map(secret => {
	try {
		return { body: new Webhook(secret).verify(body, headers) };
	} catch (e) {
		return { refused: e.message };
	}
});
console.log(JSON.stringify(verdicts));
