// A pg-boss process that counts the runs of its no-op job, by one of two ways of pg-boss itself:
//
//   delete    fetch a batch, run it, and delete it: its fastest, but what fails is the loop's affair
//   complete  `work`, which completes a batch and keeps its jobs, and sees to those that fail

import { PgBoss } from "pg-boss";

import { openTally } from "./tally.mjs";

const LOOPS = 4;
const IDLE_MILLISECONDS = 20;

const ran = openTally();
const boss = new PgBoss({
  connectionString: process.env.BENCH_URL,
  supervise: false,
  schedule: false,
});
boss.on("error", console.error);
await boss.start();

async function fetchAndDelete() {
  for (;;) {
    const jobs = await boss.fetch("noop", { batchSize: 2000 });
    if (jobs.length === 0) {
      await new Promise((resolve) => setTimeout(resolve, IDLE_MILLISECONDS));
      continue;
    }
    for (const _ of jobs) ran();
    await boss.deleteJob(
      "noop",
      jobs.map((job) => job.id),
    );
  }
}

async function complete() {
  const settings = {
    batchSize: 1000,
    localConcurrency: LOOPS,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
  };
  await boss.work("noop", settings, async (jobs) => {
    for (const _ of jobs) ran();
  });
}

if (process.env.BENCH_FINISH === "complete") {
  await complete();
} else {
  await Promise.all(Array.from({ length: LOOPS }, fetchAndDelete));
}
