// Imports the price lists of a day, each once: node import.mjs DAY [break|kill]
import { post, result } from "./windlass.mjs";

const FILES = ["bolts.csv", "nuts.csv", "washers.csv"];
const [day, how] = process.argv.slice(2);
const expires = process.env.EXPIRES ?? "1h";

const call = (verb, body) => post(`control/import-prices/${verb}`, { partition: day, ...body });

const started = await call("start", { expires, once: true });
if (started.code !== 0) {
  // 8: another one runs it; 2: it has succeeded, and happens once.
  console.log(`not now: ${started.msg}`);
  process.exit(started.code);
}
const { batch, tries, done, status } = started.data;
console.log(`try ${tries}, status ${status}, done before: ${done.join(", ") || "nothing"}`);
try {
  for (const [index, file] of FILES.entries()) {
    const step = await call("step", { step: index + 1, batch, data: { file } });
    if (step.code === 451) throw new Error(step.msg);
    if (step.code === 2) {
      console.log(`${step.data.data.file} was loaded before`);
      continue;
    }
    if (file === "nuts.csv" && how === "break") throw new Error("the disk is full");
    if (file === "nuts.csv" && how === "kill") process.kill(process.pid, "SIGKILL");
    const task = { kind: "load_prices", arguments: { file }, key: `${day} ${file}` };
    const rows = await result((await post("tasks", task)).id);
    await call("note", { batch, data: { [file]: rows } });
    console.log(`${file}: ${rows} rows`);
  }
  const { data } = await call("finish", { batch, data: { files: FILES.length } });
  console.log(`finished in ${data.run_seconds.toFixed(1)} s`);
} catch (problem) {
  await call("error", { batch, error: String(problem) });
  console.log(`failed: ${problem.message}`);
  process.exitCode = 1;
}
