// Validates objects of Kubernetes and KEDA, and files of Compose. Standard input is a JSON array of them. Standard output
// is a JSON array with a list of faults for each.
import Ajv from 'ajv';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { text } from 'node:stream/consumers';

const require = createRequire(import.meta.url);
const compose = require(`${dirname(require.resolve('dclint/package.json'))}/schemas/compose.schema.json`);
const formats = { duration: true, expose: true, ports: true, subnet_ip_address: true };
const ajv = new Ajv({ allErrors: true, strict: false, formats });
const validateCompose = ajv.compile({ ...compose, $schema: undefined });

// The schemas of Kubernetes allow any member besides the known ones, which Kubernetes drops or refuses. So a member that
// the validation has not read is unknown.
function watch(value, path, unread) {
	if (typeof value !== 'object' || value === null)
		return value;
	const inside = Object.fromEntries(Object.keys(value).map(key => [key, watch(value[key], `${path}/${key}`, unread)]));
	Object.keys(value).forEach(key => unread.add(`${path}/${key}`));
	return new Proxy(value, {
		get(target, key) {
			unread.delete(`${path}/${String(key)}`);
			return Object.hasOwn(inside, key) ? inside[key] : Reflect.get(target, key);
		},
	});
}

function validateObject(object) {
	const [group, version] = object.apiVersion.includes('/') ? object.apiVersion.split('/') : ['', object.apiVersion];
	const models = group === 'keda.sh' ? '@kubernetes-models/keda' : 'kubernetes-models';
	const model = require([models, group, version].filter(Boolean).join('/'))[object.kind];
	if (!model)
		return [`${object.apiVersion} has no ${object.kind}`];
	const unread = new Set();
	try {
		model.prototype.validate.call(watch(object, '', unread));
	} catch (error) {
		return [error.message];
	}
	// A member inside an unknown one is not a fault of its own.
	return [...unread].filter(path => !unread.has(path.slice(0, path.lastIndexOf('/')))).map(path => `${path} is unknown`);
}

const faults = object => {
	if (object.kind)
		return validateObject(object);
	return validateCompose(object) ? [] : validateCompose.errors.map(e => `${e.instancePath} ${e.message}`);
};
console.log(JSON.stringify(JSON.parse(await text(process.stdin)).map(faults)));
