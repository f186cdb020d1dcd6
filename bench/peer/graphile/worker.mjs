// A Graphile Worker process that counts the runs of its no-op task.

import { Logger, run } from "graphile-worker";

import { openTally } from "./tally.mjs";

const ran = openTally();

await run({
  preset: {
    worker: {
      connectionString: process.env.BENCH_URL,
      concurrentJobs: 100,
      maxPoolSize: 10,
      localQueue: { size: 2000 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      logger: new Logger(() => () => {}),
    },
  },
  taskList: { noop: () => ran() },
});
