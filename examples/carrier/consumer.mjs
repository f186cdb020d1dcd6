// A consumer of carried tasks for Node: node consumer.mjs amqp://host visits
import amqp from "amqplib";

const [url, queue] = process.argv.slice(2);

// The kinds that it can run: a function of the arguments by name, and of the message.
const handlers = {
  stock_level: async ({ code }) => `${code.length} in stock, counted by Node ${process.version}`,
};

async function answer(message) {
  if (message.windlass !== 1) return { outcome: "refused", error: "this is Windlass protocol 1" };
  const handler = handlers[message.kind];
  if (!handler) return { outcome: "refused", error: `there is no ${message.kind} here` };
  if (Date.now() / 1000 + message.timeout > message.deadline) return { outcome: "expired" };
  try {
    return { outcome: "succeeded", result: (await handler(message.arguments, message)) ?? null };
  } catch (error) {
    return { outcome: "failed", error: String(error), trace: error?.stack ?? "" };
  }
}

const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
await channel.prefetch(20);
await channel.assertQueue(queue, { durable: true });
await channel.consume(queue, async (delivery) => {
  const message = await new Response(delivery.content).json().catch(() => null);
  // What nobody can answer comes to no other consumer.
  if (!message?.reply_to) return channel.reject(delivery, false);
  const reply = JSON.stringify({ windlass: 1, id: message.id, ...(await answer(message)) });
  const options = { persistent: true, correlationId: message.id };
  // First the reply, then the acknowledgement: a death in between loses nothing.
  channel.sendToQueue(message.reply_to, Buffer.from(reply), options, () => channel.ack(delivery));
});
console.log(`consuming ${queue}`);
