// Enqueue no-op jobs and print the seconds: `node enqueue.mjs prepare|one|bulk N`.
// With BENCH_KEYS, jobs of as many keys, each key in strict order.

import { PgBoss } from "pg-boss";

const BULK = 1000;
const [verb, count] = process.argv.slice(2);
const tasks = Number(count ?? 0);
const keys = Number(process.env.BENCH_KEYS ?? 0);
const queue = keys ? { policy: "key_strict_fifo" } : {};
const keyOf = (number) => (keys ? { singletonKey: `L${number % keys}` } : {});

const boss = new PgBoss({
  connectionString: process.env.BENCH_URL,
  supervise: false,
  schedule: false,
});
await boss.start();

async function one() {
  for (let number = 0; number < tasks; number += 1) {
    await boss.send("noop", { number }, keyOf(number));
  }
}

async function bulk() {
  for (let begin = 0; begin < tasks; begin += BULK) {
    const length = Math.min(BULK, tasks - begin);
    const jobs = Array.from({ length }, (_, index) => {
      const number = begin + index;
      return { data: { number }, ...keyOf(number) };
    });
    await boss.insert("noop", jobs);
  }
}

const work = { prepare: () => boss.createQueue("noop", queue), one, bulk }[verb];
const begin = performance.now();
await work();
console.log((performance.now() - begin) / 1000);
await boss.stop({ graceful: false });
