// Prices orders, a job per line (docs/protocol.md).
//
//     dotnet build examples/csharp/Worker
//     readpast work orders --keep -- dotnet examples/csharp/Worker/bin/Debug/net10.0/Worker.dll

using System.Text.Json;
using System.Text.Json.Serialization;

var prices = new Dictionary<string, long> { ["book"] = 1250, ["pen"] = 120 };  // in cents
var json = new JsonSerializerOptions
{
    PropertyNamingPolicy = JsonNamingPolicy.SnakeCaseLower,
    DefaultIgnoreCondition = JsonIgnoreCondition.WhenWritingNull,
    RespectNullableAnnotations = true,
    RespectRequiredConstructorParameters = true,
};

// Standard output is only for replies: everything else that is printed goes to standard error.
using var jobs = new StreamReader(Console.OpenStandardInput());
using var replies = new StreamWriter(Console.OpenStandardOutput()) { AutoFlush = true, NewLine = "\n" };
Console.SetOut(Console.Error);

while (jobs.ReadLine() is { } line)
{
    var job = JsonSerializer.Deserialize<Job>(line, json)!;
    Reply reply;
    try
    {
        reply = new Reply(job.JobId, OutputText: Price(job).ToString());
    }
    catch (JsonException error)  // the payload will never be right
    {
        reply = new Reply(job.JobId, Error: error.Message, Dead: true);
    }
    catch (Exception error)  // another attempt may succeed
    {
        reply = new Reply(job.JobId, Error: error.ToString());
    }
    replies.WriteLine(JsonSerializer.Serialize(reply, json));
}

long Price(Job job)
{
    if (job.PayloadText is null)
        throw new JsonException("the payload is not text");
    var order = JsonSerializer.Deserialize<Order>(job.PayloadText, json) ?? throw new JsonException("there is no order");
    return order.Items.Sum(item => item.Quantity * prices[item.Product]);
}

record Job(long JobId, string? PayloadText);

record Reply(long JobId, string? OutputText = null, string? Error = null, bool? Dead = null);

record Item(string Product, int Quantity);

record Order(Item[] Items);
