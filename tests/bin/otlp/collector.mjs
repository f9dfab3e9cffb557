// A collector for tests: it reads OTLP/HTTP in JSON into the messages that OpenTelemetry generates from its protobuf
// files, and answers as the specification says. Each request that it accepts becomes a line of JSON on standard output.
// The first line is the port.
import http from 'node:http';
import root from '@opentelemetry/otlp-proto-exporter-base/build/src/generated/root.js';

const { ExportTraceServiceRequest: Request, ExportTraceServiceResponse: Response } =
    root.opentelemetry.proto.collector.trace.v1;
const IDS = { traceId: 32, spanId: 16, parentSpanId: 16 };

// JSON of OTLP has ids in hexadecimal, JSON of protobuf in Base64.
function withIds(value) {
    if (Array.isArray(value)) return value.map(withIds);
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(
        Object.entries(value).map(([name, member]) => {
            if (!(name in IDS)) return [name, withIds(member)];
            if (typeof member !== 'string' || member.length !== IDS[name] || /[^0-9a-f]/.test(member))
                throw new Error(`${name} is not an id: ${member}`);
            return [name, Buffer.from(member, 'hex').toString('base64')];
        })
    );
}

// fromObject() ignores what it does not know. So all that was sent must come back.
function same(sent, read, path) {
    if (Array.isArray(sent)) {
        if (!Array.isArray(read) || sent.length !== read.length) throw new Error(`${path}: not the same list`);
        sent.forEach((element, i) => same(element, read[i], `${path}[${i}]`));
    } else if (sent !== null && typeof sent === 'object') {
        for (const name of Object.keys(sent)) same(sent[name], read?.[name], `${path}.${name}`);
    } else if (sent !== read) {
        throw new Error(`${path}: ${JSON.stringify(sent)} was read as ${JSON.stringify(read)}`);
    }
}

function accept(text) {
    const sent = withIds(JSON.parse(text));
    const wrong = Request.verify(Request.fromObject(sent));
    if (wrong) throw new Error(wrong);
    const read = Request.toObject(Request.decode(Request.encode(Request.fromObject(sent)).finish()), {
        longs: String,
        bytes: String,
    });
    same(sent, read, 'request');
    return read;
}

const server = http.createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
        let status = 200, answer = Response.toObject(Response.create({ partialSuccess: {} }));
        try {
            if (request.method !== 'POST' || request.url !== '/v1/traces') throw new Error('not the path of traces');
            if (request.headers['content-type'] !== 'application/json') throw new Error('not JSON');
            console.log(JSON.stringify(accept(Buffer.concat(chunks).toString('utf8'))));
        } catch (error) {
            status = 400;
            answer = { code: 3, message: String(error.message) };
        }
        response.writeHead(status, { 'Content-Type': 'application/json' });
        response.end(JSON.stringify(answer));
    });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
