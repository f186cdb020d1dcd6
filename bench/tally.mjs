// The same tally as bench/tally.py: two little-endian 64-bit numbers in a file per process.

import { openSync, writeSync } from "node:fs";
import { join } from "node:path";

const WRITE_EVERY = 200;

export function openTally() {
  const cells = Buffer.alloc(16);
  let file = null;
  let runs = 0;

  function write() {
    cells.writeBigUInt64LE(BigInt(runs), 8);
    writeSync(file, cells, 0, 16, 0);
  }

  function start() {
    file = openSync(join(process.env.BENCH_TALLY, `${process.pid}.tally`), "w");
    cells.writeBigUInt64LE(BigInt(Date.now()) * 1_000_000n, 0);
    setInterval(write, 10).unref();
  }

  return function ran() {
    if (file === null) start();
    runs += 1;
    if (runs % WRITE_EVERY === 0) write();
  };
}
