# Prices orders, a job per line (docs/protocol.md).
#
#     readpast work orders --keep -- pwsh -NoProfile -File examples/powershell/price_orders.ps1

#Requires -Version 7.5

$ErrorActionPreference = 'Stop'
Set-StrictMode -Version Latest

$prices = @{ book = 1250; pen = 120 }  # in cents

# An ArgumentException says that the payload will never be right. ConvertFrom-Json throws it, too.
function Get-OrderPrice([string] $Payload) {
    # Without -DateKind, text that looks like a date becomes one.
    $order = ConvertFrom-Json $Payload -AsHashtable -DateKind String
    if ($order -isnot [System.Collections.IDictionary] -or $order['items'] -isnot [array]) {
        throw [ArgumentException]::new('the payload is not an order')
    }
    $total = 0
    foreach ($item in $order['items']) {
        if (-not $prices.ContainsKey($item['product'])) { throw "no price for $($item['product'])" }
        $total += $item['quantity'] * $prices[$item['product']]
    }
    $total
}

# Standard output is only for replies: everything else that is printed goes to standard error.
$jobs = [System.IO.StreamReader]::new([Console]::OpenStandardInput())
$replies = [System.IO.StreamWriter]::new([Console]::OpenStandardOutput())
$replies.AutoFlush = $true
$replies.NewLine = "`n"
[Console]::SetOut([Console]::Error)

while ($null -ne ($line = $jobs.ReadLine())) {
    $job = ConvertFrom-Json $line -AsHashtable -DateKind String
    $reply = @{ job_id = $job['job_id'] }
    try {
        $reply['output_text'] = [string](Get-OrderPrice $job['payload_text'])
    }
    catch [ArgumentException] {
        $reply['error'] = $_.Exception.Message
        $reply['dead'] = $true
    }
    catch {
        $reply['error'] = "$_`n$($_.ScriptStackTrace)"  # another attempt may succeed
    }
    $replies.WriteLine((ConvertTo-Json $reply -Compress))
}
