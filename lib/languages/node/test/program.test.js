// SPDX-License-Identifier: MIT
// Whole programs, driven over descriptors 3 and 4.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import test from "node:test";

const LIBRARY = new URL("../index.js", import.meta.url);

/** Starts a program of that text. Its descriptors 3 and 4 are sockets here, which it serves as it serves pipes. */
function start(t, text) {
  const source = `import { define, run } from ${JSON.stringify(LIBRARY)};\n${text}\nrun({ version: "7" });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", source],
    { env: { ...process.env, DEFERRED_PROGRAM: "1" }, stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  const program = { child, output: "", left: Buffer.alloc(0) };
  const ended = once(child, "close");
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => { program.output += chunk; });
  const arrivals = child.stdio[4][Symbol.asyncIterator]();
  program.message = async () => {
    for (;;) {
      const end = program.left.indexOf(10);
      if (end >= 0) {
        const head = JSON.parse(program.left.subarray(0, end));
        if (program.left.length > end + (head.bytes ?? 0)) {
          const body = program.left.subarray(end + 1, end + 1 + head.bytes).toString();
          program.left = program.left.subarray(end + 1 + head.bytes);
          return { ...head, body };
        }
      }
      const { value, done } = await arrivals.next();
      if (done) return null;
      program.left = Buffer.concat([program.left, value]);
    }
  };
  program.ready = async () => { while ((await program.message()).type !== "ready"); };
  program.write = (data) => child.stdio[3].write(data);
  program.call = (job, fn, params = "{}", more = {}) => program.write(`${JSON.stringify({
    type: "call", job: String(job), fn, attempt: 1, receipt: "5", created_us: 1760000000123456,
    params: Buffer.byteLength(params), parents: 0, bytes: Buffer.byteLength(params), ...more,
  })}\n${params}`);
  program.end = async () => {
    child.stdio[3].end();
    return (await ended)[0];
  };
  return program;
}

test("a conversation from the start to the end", async (t) => {
  const program = start(t, `
    import { spawnSync } from "node:child_process";
    define("resize", { timeout: "1.5s", maxAttempts: 7 }, ({ width }) => { console.log("printed"); return { width }; });
    define("setting", (name, job) => job.setting(name));
    define("big", () => "x".repeat(8191) + "ö");
    define("invalid", () => Buffer.from([0x61, 0xff]));
    define("held", () => String(spawnSync("readlink", ["/proc/self/fd/3", "/proc/self/fd/4"]).stdout));
    define("replaced", (params, job) => job.last());
    define("wide", (params, job) => job.progress(1e30, undefined, "ö".repeat(300)));
    define("long", (params, job) => job.defer("f".repeat(20000)));
    define("exits", () => { process.on("exit", () => console.log("ended")); });
  `);
  assert.deepEqual(await program.message(),
    { type: "function", name: "resize", timeout_ms: 1500, max_attempts: 7, bytes: 0, body: "" });
  for (const name of ["setting", "big", "invalid", "held", "replaced", "wide", "long", "exits"]) {
    assert.equal((await program.message()).name, name);
  }
  assert.deepEqual(await program.message(), { type: "ready", protocol: 1, version: "7", bytes: 0, body: "" });
  program.write('{"type":"setting","name":"api","value":"a\\"bö\\u00f6"}\n');
  program.call(17, "resize", '{"width": 640}');
  assert.deepEqual(await program.message(),
    { type: "done", job: "17", outcome: "ok", bytes: 13, body: '{"width":640}' });
  program.call("9223372036854775807", "setting", '"api"');
  const { job, body } = await program.message();
  assert.deepEqual([job, body], ["9223372036854775807", 'a"böö']);
  program.call(1, "big");
  assert.equal((await program.message()).type, "log");
  assert.equal((await program.message()).bytes, 8191);
  program.call(1, "invalid");
  assert.equal((await program.message()).bytes, 2);
  program.call(1, "held");
  assert.equal((await program.message()).body, "");
  program.call(1, "replaced");
  assert.equal((await program.message()).last, 1);
  program.call(1, "wide");
  const { done, total, text } = await program.message();
  assert.deepEqual([done, total, text], [Number.MAX_SAFE_INTEGER, -1, "ö".repeat(100)]);
  await program.message();
  program.call(1, "long");
  assert.match((await program.message()).body, /too long/);
  program.write('{"type":"news","bytes":5}\n12345');
  program.call(2, "absent");
  assert.equal((await program.message()).outcome, "unready");
  program.call(2, "exits");
  await program.message();
  assert.equal(await program.end(), 0);
  assert.equal(program.output, "printed\nended\n");
});

test("stop and SIGTERM reach the job that runs, and no other", async (t) => {
  const program = start(t, `
    import { setTimeout as sleep } from "node:timers/promises";
    define("asked", async (params, job) => {
      job.progress(0);
      while (!job.stopAsked()) await sleep(5);
      return String(job.signal.aborted);
    });
    define("waits", async (params, job) => { job.progress(0); await sleep(60000, null, { signal: job.signal }); });
    define("throws", (params, job) => new Promise((resolve, reject) => {
      job.progress(0);
      job.signal.addEventListener("abort", () => reject(job.signal.reason));
      setTimeout(() => {}, 60000).unref();
    }));
    define("returns", () => "ok");
  `);
  await program.ready();
  program.write('{"type":"stop","job":"1","why":"stopping"}\n');
  program.call(1, "asked");
  await program.message();
  program.write('{"type":"stop","job":"99","why":"stopping"}\n{"type":"stop","job":"1","why":"stopping"}\n');
  assert.equal((await program.message()).body, "false");
  program.call(2, "waits");
  await program.message();
  program.child.kill("SIGTERM");
  const { outcome, body } = await program.message();
  assert.equal(outcome, "failed");
  assert.match(body, /abort/);
  program.call(3, "throws");
  await program.message();
  program.child.kill("SIGTERM");
  assert.equal((await program.message()).body, "stopped");
  program.child.kill("SIGTERM");
  program.call(4, "returns");
  assert.equal((await program.message()).body, "ok");
  assert.equal(await program.end(), 0);
});

test("params and parents may be large, and arrive in pieces of any size", async (t) => {
  const program = start(t, 'define("size", (params, job) => [params.length, Object.keys(job.parents).length]);');
  await program.ready();
  const [params, parents] = [`"${"x".repeat(3000000)}"`, '{"a":{"id":1,"outcome":"ok","result":null}}'];
  program.call(1, "size", `${params}${parents}more`, { params: params.length, parents: parents.length });
  assert.equal((await program.message()).body, "[3000000,1]");
  const message = '{"type":"call","job":"2","fn":"size","attempt":1,"receipt":"1","params":9,"bytes":9}\n"abcüé"';
  for (const byte of Buffer.from(message + message)) program.write(Buffer.from([byte]));
  for (let i = 0; i < 2; i++) assert.equal((await program.message()).body, "[5,0]");
  assert.equal(await program.end(), 0);
});

test("a job that runs at the end of the input still answers", async (t) => {
  const program = start(t, `define("slow", async (params, job) => {
    while (!job.stopAsked()) await new Promise((resolve) => { setTimeout(resolve, 5); });
    return "answered";
  });`);
  await program.ready();
  program.call(1, "slow");
  program.write('{"type":"stop","job":"1","why":"stopping"}\n');
  const ended = program.end();
  assert.equal((await program.message()).body, "answered");
  assert.equal(await ended, 0);
});

test("a function that exits ends the program with its status", async (t) => {
  const program = start(t, 'define("leaves", () => { console.log("last words"); process.exit(3); });');
  await program.ready();
  program.call(1, "leaves");
  assert.equal(await program.message(), null);
  assert.equal(await program.end(), 3);
  assert.equal(program.output, "last words\n");
});
