// What index.d.ts and testing.d.ts allow, and what they refuse. The compiler reads it.
import { Client, Pool } from "pg";
import { afterJob, beforeJob, Dead, define, defer, Later, run, Stop } from "deferred-program";
import { call } from "deferred-program/testing";

interface Picture { url: string }
define<Picture>("resize", { timeout: "10s", maxAttempts: 5 }, async (params, job) => {
  const answer = await fetch(params.url, { signal: job.signal });
  if (answer.status === 429) throw new Later("30s");
  if (job.stopAsked() || (job.left() ?? 1000) < 10) throw new Dead("no time");
  job.progress(0, 2, "fetching");
  job.defer("send_mail", { to: job.parents.pack?.result }, { key: job.id, delay: "5min" });
  const since: Date | null = job.previousTick;
  const end: Date = await job.extend(new Client(), "10min");
  return { width: 640, since, end, stopped: job.signal.reason instanceof Stop };
});
beforeJob((job) => job.log(job.fn, "debug"));
afterJob(async (job) => job.log(job.setting("api") ?? "", 3));
const id: string | null = await defer(new Pool(), "resize", { url: "x" });
const done = await call("resize", { url: "x" }, { attempt: 2, parents: { pack: { id: 1, outcome: "ok", result: "x" } } });
const after: number | null = done.after;
run({ version: `${id} ${after} ${done.deferred[0]?.fn}` });

// @ts-expect-error a span has a unit
new Later(30);
// @ts-expect-error unknown limit
define("other", { time_out: "5s" }, () => null);
// @ts-expect-error unknown option
await defer(new Pool(), "resize", {}, { colour: "red" });
