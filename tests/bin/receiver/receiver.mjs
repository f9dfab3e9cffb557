// Genkit's telemetry server: receives traces by OTLP/HTTP at /api/otlp/v1/traces, and shows a trace at /api/traces/ID.
// Arguments: the port, and the folder where traces are stored. Node does not load the ES modules of the package, so
// its CommonJS modules are used.
import { createRequire } from 'node:module';

const { LocalFileLogStore, LocalFileTraceStore, startTelemetryServer } = createRequire(import.meta.url)(
    '@genkit-ai/telemetry-server'
);

const [port, folder] = process.argv.slice(2);
const place = { storeRoot: folder, indexRoot: folder };
await startTelemetryServer({
    port: Number(port),
    traceStore: new LocalFileTraceStore(place),
    logStore: new LocalFileLogStore(place),
});
