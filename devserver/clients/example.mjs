import assert from "node:assert";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Connection, Request } from "tedious";

const program = spawn("readpast-devserver", ["--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
let port;
for await (const line of createInterface(program.stdout)) {
  port = /^Server=tcp:127\.0\.0\.1,(\d+);/.exec(line)?.[1];
  if (port) break;
}

const connection = new Connection({
  server: "127.0.0.1",
  authentication: { type: "default", options: { userName: "sa", password: "readpast" } },
  options: { port: Number(port), database: "readpast", trustServerCertificate: true },
});
await new Promise((resolve, reject) => connection.connect((error) => (error ? reject(error) : resolve())));

const rows = await new Promise((resolve, reject) => {
  const found = [];
  const request = new Request(
    "CREATE TABLE #orders (id int, total decimal(9, 2)); INSERT #orders VALUES (1, 9.5), (2, 20); SELECT id, total FROM #orders",
    (error) => (error ? reject(error) : resolve(found)),
  );
  request.on("row", (columns) => found.push(columns.map((column) => column.value)));
  connection.execSqlBatch(request);
});
assert.deepEqual(rows, [[1, 9.5], [2, 20]]);

connection.close();
program.kill();
console.log("the example is right");
