// Windlass over HTTP, with nothing but what Node has itself.
import { setTimeout as sleep } from "node:timers/promises";

const { WINDLASS_URL: address = "http://127.0.0.1:8484", WINDLASS_TOKEN: token } = process.env;
const TRIES = 5;

// Sent again under one key until an answer comes: whatever got lost, it is done once.
export async function post(path, body) {
  const key = crypto.randomUUID();
  return send(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": key },
    body: JSON.stringify(body),
  });
}

// What a task returned. Each question waits up to 20 seconds at the other side.
export async function result(id) {
  for (;;) {
    const task = await send(`tasks/${id}/result?wait=20s`, {});
    if (task.error !== null) throw new Error(task.error);
    if (task.ended) return task.result;
  }
}

async function send(path, { headers, ...options }) {
  const all = { ...headers, Authorization: `Bearer ${token}` };
  for (let tries = 1; ; tries++) {
    let answer;
    try {
      answer = await fetch(`${address}/api/${path}`, { ...options, headers: all });
    } catch (problem) {
      if (tries === TRIES) throw problem;
    }
    // 429: too fast for this token; 503: the database is away. Both pass.
    if (answer && (![429, 503].includes(answer.status) || tries === TRIES)) return read(answer);
    await sleep(1_000 * Number(answer?.headers.get("Retry-After") ?? tries));
  }
}

async function read(answer) {
  const body = await answer.json();
  if (!answer.ok) throw new Error(`${body.title}: ${body.detail}`);
  return body;
}
