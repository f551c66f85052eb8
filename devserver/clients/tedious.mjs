// The cases of cases.py through tedious, Node's driver:  node tedious.mjs PORT on|off
// tedious is found through TEDIOUS, the folder of its package.

import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual, inspect } from "node:util";

const [port, tls] = process.argv.slice(2);
const { Connection, Request, TYPES, ISOLATION_LEVEL } = createRequire(import.meta.url)(process.env.TEDIOUS ?? "tedious");

const EMOJI = "žluťoučký kůň 日本語 😀👩‍👩‍👧";
const TEN_MEGABYTES = 10 * 1024 * 1024;
const WORKER = "6F9619FF-8B86-D011-B42D-00C04FC964FF";

function expect(actual, expected) {
  if (!isDeepStrictEqual(actual, expected)) {
    throw new Error(`${inspect(actual).slice(0, 1000)} instead of ${inspect(expected).slice(0, 1000)}`);
  }
}

function connect(options = {}) {
  const connection = new Connection({
    server: "127.0.0.1",
    authentication: { type: "default", options: { userName: "sa", password: "readpast" } },
    options: {
      port: Number(port), database: "readpast", encrypt: tls === "on", trustServerCertificate: true,
      requestTimeout: 60_000, useUTC: true, ...options,
    },
  });
  return new Promise((resolve, reject) => connection.connect((error) => (error ? reject(error) : resolve(connection))));
}

/// Runs a request by `connection[how]` and gives its result sets, output values and return code.
function run(connection, how, text, { parameters = [], outputs = [], cancelAfter } = {}) {
  return new Promise((resolve, reject) => {
    const sets = [];
    const returned = {};
    let status;
    const request = new Request(text, (error, rowCount) =>
      error ? reject(error) : resolve({ sets, returned, status, rowCount }));
    for (const [name, type, value, options] of parameters) request.addParameter(name, type, value, options);
    for (const [name, type, value, options] of outputs) request.addOutputParameter(name, type, value, options);
    request.on("columnMetadata", () => sets.push([]));
    request.on("row", (columns) => sets.at(-1).push(columns.map((column) => column.value)));
    request.on("returnValue", (name, value) => (returned[name] = value));
    request.on("doneProc", (_rowCount, _more, code) => (status = code));
    connection[how](request);
    if (cancelAfter) setTimeout(() => request.cancel(), cancelAfter);
  });
}

const batch = (connection, text, options) => run(connection, "execSqlBatch", text, options);
const query = (connection, text, parameters = []) => run(connection, "execSql", text, { parameters });
const value = async (connection, text) => (await batch(connection, text)).sets[0][0][0];
const errorOf = (promise) => promise.then(() => { throw new Error("no error"); }, (error) => error);
const transaction = (connection, how, ...rest) => new Promise((resolve, reject) =>
  connection[how]((error) => (error ? reject(error) : resolve()), ...rest));

const cases = {
  async "batches"(connection) {
    const { sets } = await batch(connection, "SELECT 2 AS n, N'a' AS t; PRINT N'said'; SELECT n FROM (VALUES (1), (2), (3)) v (n)");
    expect(sets, [[[2, "a"]], [[1], [2], [3]]]);
  },

  async "row counts"(connection) {
    await batch(connection, "CREATE TABLE #t (id int NOT NULL PRIMARY KEY)");
    expect((await batch(connection, "INSERT #t (id) VALUES (1), (2), (3)")).rowCount, 3);
    expect((await batch(connection, "DELETE #t WHERE id = 9")).rowCount, 0);
  },

  async "parameters of every type"(connection) {
    const at = new Date(Date.UTC(2026, 10, 21, 12, 34, 56, 120));
    const rows = [
      [TYPES.Bit, true], [TYPES.TinyInt, 255], [TYPES.SmallInt, -2], [TYPES.Int, -2147483648],
      [TYPES.BigInt, "9223372036854775807"], [TYPES.Real, 1.5], [TYPES.Float, -0.1],
      [TYPES.Decimal, -123.45, { precision: 5, scale: 2 }], [TYPES.Numeric, 7, { precision: 38, scale: 0 }],
      [TYPES.VarChar, "für 5 €"], [TYPES.NVarChar, EMOJI], [TYPES.NVarChar, "x".repeat(4001)], [TYPES.NVarChar, ""],
      [TYPES.Char, "abc"], [TYPES.NChar, "日本"], [TYPES.VarBinary, Buffer.from([0, 255])], [TYPES.Binary, Buffer.from([0, 255])],
      [TYPES.UniqueIdentifier, WORKER], [TYPES.Date, new Date(Date.UTC(1999, 11, 31))], [TYPES.DateTime, at],
      [TYPES.DateTime2, at], [TYPES.DateTimeOffset, at],
    ];
    for (const [type, given, options] of rows) {
      const { sets } = await query(connection, "SELECT @p", [["p", type, given, options]]);
      expect([type.name, sets[0][0][0]], [type.name, given]);
      const nothing = await query(connection, "SELECT @p", [["p", type, null, options]]);
      expect([type.name, nothing.sets[0][0][0]], [type.name, null]);
    }
    // The old types are converted to what the procedure takes.
    await batch(connection, "CREATE OR ALTER PROCEDURE dbo.take_text @a varchar(max), @b nvarchar(max) AS SELECT @a, @b");
    const parameters = [["a", TYPES.Text, "abc"], ["b", TYPES.NVarChar, EMOJI]];
    expect((await run(connection, "callProcedure", "dbo.take_text", { parameters })).sets, [[["abc", EMOJI]]]);
    const old = await batch(connection,
      "SELECT CAST('é' AS text), CAST(N'日本' AS ntext), CAST(0x01 AS image), CAST(NULL AS text), CAST('' AS ntext)");
    expect(old.sets, [[["é", "日本", Buffer.from([1]), null, ""]]]);
  },

  async "ten megabytes both ways"(connection) {
    const data = Buffer.alloc(TEN_MEGABYTES, "0123456789abcdef!");
    const text = "0123456789abcdeф".repeat(TEN_MEGABYTES / 32);
    const { sets } = await query(connection, "SELECT @x, @s, DATALENGTH(@x), DATALENGTH(@s)",
      [["x", TYPES.VarBinary, data], ["s", TYPES.NVarChar, text]]);
    const [x, s, bytes, textBytes] = sets[0][0];
    expect([data.equals(x), s === text, Number(bytes), Number(textBytes)], [true, true, data.length, text.length * 2]);
  },

  async "procedures"(connection) {
    await batch(connection, `CREATE OR ALTER PROCEDURE dbo.add_up @a int, @t nvarchar(50), @sum bigint OUTPUT, @text nvarchar(100) OUTPUT AS
      SET NOCOUNT ON; SELECT @a AS a, @t AS t; SET @sum = @a + 1; SET @text = @t + N'!'; RETURN 7`);
    const result = await run(connection, "callProcedure", "dbo.add_up", {
      parameters: [["a", TYPES.Int, 41], ["t", TYPES.NVarChar, EMOJI]],
      outputs: [["sum", TYPES.BigInt, null], ["text", TYPES.NVarChar, null, { length: 100 }]],
    });
    expect([result.status, result.returned, result.sets], [7, { sum: "42", text: EMOJI + "!" }, [[[41, EMOJI]]]]);
  },

  async "table valued parameters"(connection) {
    await batch(connection, "IF TYPE_ID(N'dbo.pair_list') IS NULL CREATE TYPE dbo.pair_list AS TABLE (id int NOT NULL PRIMARY KEY, t nvarchar(20) NULL)");
    await batch(connection, "CREATE OR ALTER PROCEDURE dbo.take_pairs @pairs dbo.pair_list READONLY AS SELECT id, t FROM @pairs ORDER BY id");
    const pairs = {
      schema: "dbo", name: "pair_list",
      columns: [{ name: "id", type: TYPES.Int }, { name: "t", type: TYPES.NVarChar, length: 20 }],
      rows: [[3, "😀"], [1, "a"], [2, null]],
    };
    // The type's name may be left out.
    for (const table of [pairs, { columns: pairs.columns, rows: pairs.rows }]) {
      const { sets } = await run(connection, "callProcedure", "dbo.take_pairs", { parameters: [["pairs", TYPES.TVP, table]] });
      expect(sets, [[[1, "a"], [2, null], [3, "😀"]]]);
    }
  },

  async "transactions"(connection) {
    await batch(connection, "CREATE TABLE #t (id int NOT NULL PRIMARY KEY)");
    await transaction(connection, "beginTransaction");
    await batch(connection, "INSERT #t (id) VALUES (1)");
    await transaction(connection, "saveTransaction", "here");
    await batch(connection, "INSERT #t (id) VALUES (2)");
    await transaction(connection, "rollbackTransaction", "here");
    expect(await value(connection, "SELECT COUNT(*) FROM #t"), 1);
    await transaction(connection, "rollbackTransaction");
    expect(await value(connection, "SELECT COUNT(*) FROM #t"), 0);
    await transaction(connection, "beginTransaction");
    await batch(connection, "INSERT #t (id) VALUES (3)");
    await transaction(connection, "commitTransaction");
    expect(await value(connection, "SELECT COUNT(*) FROM #t"), 1);
  },

  async "isolation levels"(connection) {
    const reader = await connect();
    await batch(connection, "DROP TABLE IF EXISTS dbo.level; CREATE TABLE dbo.level (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT dbo.level (id, n) VALUES (1, 0)");
    await batch(connection, "BEGIN TRANSACTION; UPDATE dbo.level SET n = 1");
    await transaction(reader, "beginTransaction", "", ISOLATION_LEVEL.READ_UNCOMMITTED);
    expect(await value(reader, "SELECT n FROM dbo.level"), 1);
    await transaction(reader, "commitTransaction");
    await transaction(reader, "beginTransaction", "", ISOLATION_LEVEL.READ_COMMITTED);
    expect((await errorOf(batch(reader, "SET LOCK_TIMEOUT 0; SELECT n FROM dbo.level"))).number, 1222);
    await transaction(reader, "rollbackTransaction");
    await batch(connection, "ROLLBACK");
    await transaction(reader, "beginTransaction", "", ISOLATION_LEVEL.SERIALIZABLE);
    await batch(reader, "SELECT n FROM dbo.level WHERE id = 1");
    expect((await errorOf(batch(connection, "SET LOCK_TIMEOUT 0; UPDATE dbo.level SET n = 2 WHERE id = 1"))).number, 1222);
    await transaction(reader, "commitTransaction");
    await batch(connection, "DROP TABLE dbo.level");
    reader.close();
  },

  async "a waiting statement is cancelled"(connection) {
    await batch(connection, "DROP TABLE IF EXISTS dbo.waiting; CREATE TABLE dbo.waiting (id int NOT NULL PRIMARY KEY); INSERT dbo.waiting (id) VALUES (1)");
    await batch(connection, "BEGIN TRANSACTION; UPDATE dbo.waiting SET id = 2");
    const waiting = await connect({ requestTimeout: 300 });
    expect((await errorOf(batch(waiting, "UPDATE dbo.waiting SET id = 3"))).code, "ETIMEOUT");
    expect(await value(waiting, "SELECT 1"), 1);
    expect((await errorOf(batch(waiting, "UPDATE dbo.waiting SET id = 3", { cancelAfter: 100 }))).code, "ECANCEL");
    expect(await value(waiting, "SELECT 2"), 2);
    await batch(connection, "ROLLBACK");
    expect(await value(connection, "SELECT id FROM dbo.waiting"), 1);
    await batch(connection, "DROP TABLE dbo.waiting");
    waiting.close();
  },

  async "errors"(connection) {
    const error = await errorOf(batch(connection, "SELECT 1;\n\nTHROW 50042, N'because 😀', 3"));
    expect([error.number, error.state, error.lineNumber, error.message], [50042, 3, 3, "because 😀"]);
    expect((await errorOf(batch(connection, "SELECT * FROM dbo.nowhere"))).number, 208);
    expect((await errorOf(query(connection, "SELECT @p + 1", [["p", TYPES.NVarChar, "x"]]))).number, 245);
    expect((await errorOf(batch(connection, "SELECT 1 AS a; RAISERROR (N'late', 16, 1)"))).message, "late");
    expect(await value(connection, "SELECT 1"), 1);
  },

  async "prepared statements"(connection) {
    const request = await new Promise((resolve, reject) => {
      const request = new Request("SELECT @a + 1", () => {});
      request.addParameter("a", TYPES.Int);
      request.on("prepared", () => resolve(request));
      request.on("error", reject);
      connection.prepare(request);
    });
    for (const a of [1, 41]) {
      const rows = [];
      await new Promise((resolve, reject) => {
        request.removeAllListeners("row");
        request.on("row", (columns) => rows.push(columns[0].value));
        request.callback = (error) => (error ? reject(error) : resolve());
        connection.execute(request, { a });
      });
      expect(rows, [a + 1]);
    }
    await new Promise((resolve, reject) => {
      request.callback = (error) => (error ? reject(error) : resolve());
      connection.unprepare(request);
    });
  },

  async "a reset connection is as new"(connection) {
    await batch(connection, "CREATE TABLE #left (id int); SET LOCK_TIMEOUT 77; BEGIN TRANSACTION");
    await new Promise((resolve, reject) => connection.reset((error) => (error ? reject(error) : resolve())));
    const { sets } = await batch(connection, "SELECT OBJECT_ID(N'tempdb..#left'), @@LOCK_TIMEOUT, @@TRANCOUNT");
    expect(sets, [[[null, -1, 0]]]);
  },

  async "a foreign producer and worker"(connection) {
    const schema = "q_" + randomUUID().replaceAll("-", "").slice(0, 12);
    const folder = new URL("../../sql/", import.meta.url);
    for (const script of readdirSync(folder).filter((name) => /^\d.*\.sql$/.test(name)).sort()) {
      const text = readFileSync(new URL(script, folder), "utf8").replaceAll("$(schema)", schema);
      for (const part of text.split(/^\s*GO\s*$/im).filter((part) => part.trim())) await batch(connection, part);
    }
    const call = (procedure, parameters) => run(connection, "callProcedure", `${schema}.${procedure}`, { parameters });
    const queue = ["queue", TYPES.NVarChar, "emails"];
    const worker = ["worker_id", TYPES.UniqueIdentifier, WORKER];
    await call("create_queue", [queue]);
    const payloads = [0, 1, 2].map((number) => Buffer.from(`job ${number} 😀`));
    for (const payload of payloads) await call("enqueue", [queue, ["payload", TYPES.VarBinary, payload]]);
    await call("register_worker", [queue, worker, ["name", TYPES.NVarChar, "foreign"], ["lease_ms", TYPES.Int, 60_000]]);
    const claimed = (await call("claim", [queue, worker, ["max", TYPES.Int, 2]])).sets[0];
    expect(claimed.map((row) => row.at(9).toString()).sort(), payloads.slice(0, 2).map(String));
    for (const [jobId, fence] of claimed) {
      await call("finish_one", [queue, worker, ["job_id", TYPES.BigInt, jobId], ["fence", TYPES.Int, fence]]);
    }
    expect(await value(connection, `SELECT COUNT(*) FROM ${schema}.jobs`), 1);
  },
};

const label = `tedious${tls === "on" ? " TLS" : ""}`;
const counts = { passed: 0, failed: 0, skipped: 0 };
for (const [name, play] of Object.entries(cases)) {
  const connection = await connect();
  try {
    await play(connection);
    counts.passed += 1;
  } catch (error) {
    counts.failed += 1;
    console.log(`${label}: ${name}: failed: ${error.stack ?? error}`);
  }
  connection.close();
}
console.log(`${label}: ` + Object.entries(counts).map(([outcome, count]) => `${count} ${outcome}`).join(", "));
process.exit(counts.failed ? 1 : 0);
