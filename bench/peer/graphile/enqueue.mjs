// Enqueue no-op jobs and print the seconds: `node enqueue.mjs prepare|one|bulk N`.

import { Logger, makeWorkerUtils } from "graphile-worker";

const BULK = 1000;
const [verb, count] = process.argv.slice(2);
const tasks = Number(count ?? 0);

const utils = await makeWorkerUtils({
  connectionString: process.env.BENCH_URL,
  logger: new Logger(() => () => {}),
});

async function one() {
  for (let number = 0; number < tasks; number += 1) {
    await utils.addJob("noop", { number });
  }
}

async function bulk() {
  for (let begin = 0; begin < tasks; begin += BULK) {
    const length = Math.min(BULK, tasks - begin);
    const jobs = Array.from({ length }, (_, index) => ({
      identifier: "noop",
      payload: { number: begin + index },
    }));
    await utils.addJobs(jobs);
  }
}

const work = { prepare: () => utils.migrate(), one, bulk }[verb];
const begin = performance.now();
await work();
console.log((performance.now() - begin) / 1000);
await utils.release();
