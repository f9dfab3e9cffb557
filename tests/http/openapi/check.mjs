// Checks the OpenAPI document given by stdin: {"document", "bodies": [{"schema", "value"}]}. A schema is a place in the
// document. Prints what is wrong, one line each.
import { Validator } from "@seriousme/openapi-schema-validator";
import Ajv2020 from "ajv/dist/2020.js";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { document, bodies } = JSON.parse(Buffer.concat(chunks).toString());
const checked = await new Validator().validate(structuredClone(document));
if (!checked.valid) console.log("document:", JSON.stringify(checked.errors));
const ajv = new Ajv2020.default({ strict: false, allErrors: true });
ajv.addSchema({ $id: "openapi", ...document });
for (const { schema, value } of bodies) {
	const validate = ajv.getSchema(`openapi#${schema}`);
	if (!validate(value)) console.log(schema, JSON.stringify(validate.errors), JSON.stringify(value));
}
