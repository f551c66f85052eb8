// A program that stays: counts the words of each job's text.
//
//     readpast work texts --keep -- node examples/work/count_words.mjs
//
// It gets a job a line, as JSON, and answers a line each; docs/work.md has the protocol. Put your own work into
// `handle`.

import { createInterface } from "node:readline";

/** The job will never succeed: it is not tried again. */
class Dead extends Error {}

/** Returns the output as text, or nothing. An error has the job tried again later. */
async function handle(job) {
  if (job.payload_text === null) throw new Dead("the payload is not text");
  return String(job.payload_text.split(/\s+/).filter(Boolean).length);
}

// Standard output is for answers alone. What a library prints goes to standard error.
const answers = process.stdout;
console.log = console.error;

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const job = JSON.parse(line);
  const answer = { job_id: job.job_id };
  try {
    const output = await handle(job);
    if (output !== undefined) answer.output_text = output;
  } catch (error) {
    answer.error = error instanceof Dead ? error.message : String(error.stack ?? error);
    if (error instanceof Dead) answer.dead = true;
  }
  answers.write(JSON.stringify(answer) + "\n");
}
