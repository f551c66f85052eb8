// Prices orders, a job per line (docs/protocol.md).
//
//     readpast work orders --keep -- node examples/node/price_orders.mjs

const prices = new Map([["book", 1250], ["pen", 120]]); // in cents

/** The job will never succeed: it is not retried. */
class BadPayload extends Error {}

function price(payload) {
  const order = parse(payload);
  if (!Array.isArray(order?.items)) throw new BadPayload("the order has no items");
  let total = 0;
  for (const { product, quantity } of order.items) {
    if (!prices.has(product)) throw new Error(`no price for ${product}`);
    total += quantity * prices.get(product);
  }
  return String(total);
}

function parse(payload) {
  if (payload === null) throw new BadPayload("the payload is not text");
  try {
    return JSON.parse(payload);
  } catch (error) {
    throw new BadPayload(error.message);
  }
}

// Standard output is only for replies: everything else that is printed goes to standard error.
const reply = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);

// Not readline: it also ends lines at U+2028, which a payload may have.
let line = "";
for await (const chunk of process.stdin.setEncoding("utf8")) {
  line += chunk;
  if (!chunk.endsWith("\n")) continue; // the next job comes after the reply
  const { job_id, payload_text } = JSON.parse(line);
  line = "";
  try {
    reply(JSON.stringify({ job_id, output_text: price(payload_text) }) + "\n");
  } catch (error) {
    const dead = error instanceof BadPayload || undefined;
    reply(JSON.stringify({ job_id, error: dead ? error.message : error.stack, dead }) + "\n");
  }
}
