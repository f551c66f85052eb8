// Adds four orders, each with the job that prices it: one by Dapper, one by EF Core, two at once.
//
//     dotnet run --project examples/csharp/Producer -- 1001

using System.ComponentModel.DataAnnotations.Schema;
using System.Data;
using System.Text.Json;
using Dapper;
using Microsoft.Data.SqlClient;
using Microsoft.EntityFrameworkCore;

var connectionString = Environment.GetEnvironmentVariable("READPAST_URL")
    ?? throw new InvalidOperationException("READPAST_URL is not set");
var id = int.Parse(args[0]);

await CreateTable();
Item[] items = [new("book", 2), new("pen", 3)];
Console.WriteLine($"job {await AddWithDapper(new Order(id, "Ada", items))}");
Console.WriteLine($"job {await AddWithEntityFramework(new Order(id + 1, "Grace", items))}");
await AddMany([new Order(id + 2, "Edsger", items), new Order(id + 3, "Barbara", items)]);

async Task<long> AddWithDapper(Order order)
{
    await using var connection = new SqlConnection(connectionString);
    await connection.OpenAsync();
    await using var transaction = await connection.BeginTransactionAsync();

    var job = new DynamicParameters(new { queue = "orders", text = ToJson(order), kind = "price" });
    job.Add("job_id", dbType: DbType.Int64, direction: ParameterDirection.Output);
    await connection.ExecuteAsync("readpast.enqueue", job, transaction, commandType: CommandType.StoredProcedure);
    var jobId = job.Get<long>("job_id");
    await connection.ExecuteAsync(
        "INSERT dbo.orders (id, customer, pricing_job) VALUES (@Id, @Customer, @jobId)",
        new { order.Id, order.Customer, jobId },
        transaction);

    await transaction.CommitAsync();
    return jobId;
}

async Task<long> AddWithEntityFramework(Order order)
{
    await using var shop = new ShopContext(connectionString);
    await using var transaction = await shop.Database.BeginTransactionAsync();

    var jobId = new SqlParameter("@job_id", SqlDbType.BigInt) { Direction = ParameterDirection.Output };
    await shop.Database.ExecuteSqlAsync(
        $"EXEC readpast.enqueue @queue = N'orders', @text = {ToJson(order)}, @kind = 'price', @job_id = {jobId} OUTPUT");
    shop.Orders.Add(new OrderRow { Id = order.Id, Customer = order.Customer, PricingJob = (long)jobId.Value });
    await shop.SaveChangesAsync();

    await transaction.CommitAsync();
    return (long)jobId.Value;
}

async Task AddMany(Order[] orders)
{
    await using var connection = new SqlConnection(connectionString);
    await connection.OpenAsync();
    await using var transaction = await connection.BeginTransactionAsync();

    await connection.ExecuteAsync(
        "INSERT dbo.orders (id, customer) VALUES (@Id, @Customer)",
        orders.Select(order => new { order.Id, order.Customer }),
        transaction);
    await connection.ExecuteAsync(  // one round trip for all jobs
        """
        DECLARE @jobs readpast.enqueue_list;
        INSERT @jobs (ordinal, text, kind) SELECT CAST([key] AS int), value, 'price' FROM OPENJSON(@orders);
        EXEC readpast.enqueue_batch @queue = N'orders', @jobs = @jobs, @report = 0;
        """,
        new { orders = ToJson(orders) },
        transaction);

    await transaction.CommitAsync();
}

async Task CreateTable()
{
    await using var connection = new SqlConnection(connectionString);
    await connection.ExecuteAsync(
        """
        IF OBJECT_ID(N'dbo.orders') IS NULL
            CREATE TABLE dbo.orders
                (id int NOT NULL PRIMARY KEY, customer nvarchar(100) NOT NULL, pricing_job bigint NULL);
        """);
}

static string ToJson<T>(T value) => JsonSerializer.Serialize(value, JsonSerializerOptions.Web);

record Item(string Product, int Quantity);

record Order(int Id, string Customer, Item[] Items);

[Table("orders")]
class OrderRow
{
    [Column("id"), DatabaseGenerated(DatabaseGeneratedOption.None)]
    public int Id { get; set; }

    [Column("customer")]
    public required string Customer { get; set; }

    [Column("pricing_job")]
    public long? PricingJob { get; set; }
}

class ShopContext(string connectionString) : DbContext
{
    public DbSet<OrderRow> Orders => Set<OrderRow>();

    protected override void OnConfiguring(DbContextOptionsBuilder options) => options.UseSqlServer(connectionString);
}
