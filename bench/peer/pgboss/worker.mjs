// A pg-boss process that counts the runs of its no-op job; a batch is fetched, run and completed
// by one statement each, and the next one is fetched at once while batches come back full.

import { PgBoss } from "pg-boss";

import { openTally } from "./tally.mjs";

const ran = openTally();

const boss = new PgBoss({
  connectionString: process.env.BENCH_URL,
  supervise: false,
  schedule: false,
});
boss.on("error", console.error);
await boss.start();

const settings = {
  batchSize: 2000,
  localConcurrency: 4,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
};
await boss.work("noop", settings, async (jobs) => {
  for (const _ of jobs) ran();
});
