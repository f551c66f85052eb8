// Adds three orders, each with the job that prices it: one alone, two at once.
//
//     npm install --prefix examples/node
//     node examples/node/producer.mjs 1001

import sql from "mssql";

const id = Number(process.argv[2]);
const items = [{ product: "book", quantity: 2 }, { product: "pen", quantity: 3 }];
const pool = await sql.connect(process.env.READPAST_URL);
try {
  await createTable();
  const jobId = await inTransaction((request) => add(request, { id, customer: "Ada", items }));
  console.log(`job ${jobId}`);
  const orders = [{ id: id + 1, customer: "Grace", items }, { id: id + 2, customer: "Edsger", items }];
  await inTransaction((request) => addMany(request, orders));
} finally {
  await pool.close();
}

async function inTransaction(work) {
  const transaction = pool.transaction();
  await transaction.begin();
  try {
    const result = await work(() => transaction.request());
    await transaction.commit();
    return result;
  } catch (error) {
    await transaction.rollback().catch(() => {}); // an error of enqueue has rolled it back already
    throw error;
  }
}

async function add(request, order) {
  const { output } = await request()
    .input("queue", sql.NVarChar, "orders")
    .input("text", sql.NVarChar(sql.MAX), JSON.stringify(order))
    .input("kind", sql.NVarChar, "price")
    .output("job_id", sql.BigInt)
    .execute("readpast.enqueue");
  await request()
    .input("id", sql.Int, order.id)
    .input("customer", sql.NVarChar, order.customer)
    .input("job_id", sql.BigInt, output.job_id)
    .query("INSERT dbo.orders (id, customer, pricing_job) VALUES (@id, @customer, @job_id)");
  return output.job_id;
}

async function addMany(request, orders) {
  for (const { id, customer } of orders) {
    await request()
      .input("id", sql.Int, id)
      .input("customer", sql.NVarChar, customer)
      .query("INSERT dbo.orders (id, customer) VALUES (@id, @customer)");
  }
  // One round trip for all jobs.
  await request().input("orders", sql.NVarChar(sql.MAX), JSON.stringify(orders)).query(`
    DECLARE @jobs readpast.enqueue_list;
    INSERT @jobs (ordinal, text, kind) SELECT CAST([key] AS int), value, 'price' FROM OPENJSON(@orders);
    EXEC readpast.enqueue_batch @queue = N'orders', @jobs = @jobs, @report = 0;`);
}

async function createTable() {
  await pool.request().query(`
    IF OBJECT_ID(N'dbo.orders') IS NULL
      CREATE TABLE dbo.orders
        (id int NOT NULL PRIMARY KEY, customer nvarchar(100) NOT NULL, pricing_job bigint NULL);`);
}
