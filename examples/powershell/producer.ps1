# Adds an order with the job that prices it.
#
#     pwsh examples/powershell/producer.ps1 1001

param([Parameter(Mandatory)] [int] $Id)

$ErrorActionPreference = 'Stop'

$order = [ordered]@{
    id       = $Id
    customer = 'Ada'
    items    = @(@{ product = 'book'; quantity = 2 }, @{ product = 'pen'; quantity = 3 })
}

$connection = [System.Data.SqlClient.SqlConnection]::new($env:READPAST_URL)
$connection.Open()
try {
    $create = $connection.CreateCommand()
    $create.CommandText = @'
IF OBJECT_ID(N'dbo.orders') IS NULL
    CREATE TABLE dbo.orders
        (id int NOT NULL PRIMARY KEY, customer nvarchar(100) NOT NULL, pricing_job bigint NULL);
'@
    $null = $create.ExecuteNonQuery()

    $transaction = $connection.BeginTransaction()

    $enqueue = $connection.CreateCommand()
    $enqueue.Transaction = $transaction
    $enqueue.CommandType = 'StoredProcedure'
    $enqueue.CommandText = 'readpast.enqueue'
    $null = $enqueue.Parameters.AddWithValue('@queue', 'orders')
    $null = $enqueue.Parameters.AddWithValue('@text', [string](ConvertTo-Json $order -Compress -Depth 5))
    $null = $enqueue.Parameters.AddWithValue('@kind', 'price')
    $jobId = $enqueue.Parameters.Add('@job_id', [System.Data.SqlDbType]::BigInt)
    $jobId.Direction = 'Output'
    $null = $enqueue.ExecuteNonQuery()

    $insert = $connection.CreateCommand()
    $insert.Transaction = $transaction
    $insert.CommandText = 'INSERT dbo.orders (id, customer, pricing_job) VALUES (@id, @customer, @job_id)'
    $null = $insert.Parameters.AddWithValue('@id', $order.id)
    $null = $insert.Parameters.AddWithValue('@customer', $order.customer)
    $null = $insert.Parameters.AddWithValue('@job_id', $jobId.Value)
    $null = $insert.ExecuteNonQuery()

    $transaction.Commit()
    "job $($jobId.Value)"
}
finally {
    $connection.Dispose()  # rolls back what is not committed
}
