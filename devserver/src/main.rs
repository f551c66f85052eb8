//! The dev server as a program: arguments in, a connection string out, then it serves until Ctrl-C or SIGTERM.

use std::io::Write;
use std::process::ExitCode;

use readpast_devserver::{Builder, DevServer, Product};

/// Rows come and go in batches of hundreds, one allocation each. With glibc's allocator claim and finish cost a tenth
/// to a fifth more, the more jobs wait the more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "\
readpast-devserver: an in-memory stand-in for SQL Server, for tests and development. It is not SQL Server.
It listens on 127.0.0.1 only; what it does not know it refuses with error 59000; nothing survives its end.

Usage: readpast-devserver [OPTIONS]

Options:
  --port N          port on 127.0.0.1; 0 takes a free one                       [default: 1433]
  --database NAME   database that exists from the start, 1 to 128 characters    [default: readpast]
  --user NAME       login that may do everything, 1 to 128 characters           [default: sa]
  --password TEXT   its password                                                [default: readpast]
  --tls on|off      whether the printed connection string asks for encryption; the server encrypts for every
                    client that wants it                                        [default: on]
  --version YEAR    SQL Server 2016, 2017, 2019, 2022 or 2025: refuse what is newer; without YEAR: print the program's
                    version                                                     [default: 2022]
  --edition NAME    enterprise, standard or express: the latter two build no index online
                                                                                [default: enterprise]
  --azure           be Azure SQL Database, as far as it differs from SQL Server
  --log-sql         print every request to standard error, as T-SQL, with its session's number
  --help            print this";

/// SQL Server's own port, so that clients with their defaults find it.
const DEFAULT_PORT: u16 = 1433;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if arguments == ["--version"] {
        println!("readpast-devserver {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let builder = match parse(&arguments) {
        Ok(builder) => builder,
        Err(message) => {
            eprintln!("readpast-devserver: {message}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("readpast-devserver: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(serve(builder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("readpast-devserver: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Builder, String> {
    let mut builder = DevServer::builder().port(DEFAULT_PORT);
    let mut product = Product::default();
    let mut chosen = None;
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        let mut value = || rest.next().map(String::as_str).ok_or_else(|| format!("{option} needs a value"));
        let must_be = |what: &str, value: &str| format!("{option} must be {what}, not {value}");
        builder = match option.as_str() {
            "--log-sql" => builder.log_sql(true),
            "--azure" => {
                product = Product::AZURE_SQL_DATABASE;
                builder
            }
            "--port" => {
                let port = value()?;
                builder.port(port.parse().map_err(|_| must_be("0 to 65535", port))?)
            }
            "--database" => builder.database(value()?),
            "--user" => builder.user(value()?),
            "--password" => builder.password(value()?),
            "--tls" => match value()? {
                "on" => builder.tls(true),
                "off" => builder.tls(false),
                other => return Err(must_be("on or off", other)),
            },
            "--version" => {
                let year = value()?;
                let of_year = year.parse().ok().and_then(Product::sql_server);
                let of_year = of_year.ok_or_else(|| must_be("2016, 2017, 2019, 2022 or 2025", year))?;
                product.major_version = of_year.major_version;
                chosen = Some(option);
                builder
            }
            "--edition" => {
                // EngineEdition of SERVERPROPERTY.
                product.engine_edition = match value()? {
                    "standard" => 2,
                    "enterprise" => 3,
                    "express" => 4,
                    other => return Err(must_be("enterprise, standard or express", other)),
                };
                chosen = Some(option);
                builder
            }
            _ => return Err(format!("{option} is not an option")),
        };
    }
    match chosen {
        Some(option) if product.is_azure() => Err(format!("{option} does not go with --azure")),
        _ => Ok(builder.product(product)),
    }
}

async fn serve(builder: Builder) -> std::io::Result<()> {
    let server = builder.start().await?;
    // Printed whole or not at all: whoever reads it may go away early, and the server stays.
    let mut stdout = std::io::stdout();
    let _ = writeln!(
        stdout,
        "An in-memory stand-in for SQL Server (it is not SQL Server) listens on {}.\n\
         Nothing in it survives its end, which is Ctrl-C. To connect:\n\n{}",
        server.address(),
        server.connection_string()
    );
    stop_signal().await?;
    server.shutdown().await;
    Ok(())
}

/// Ctrl-C or, where there is such a thing, SIGTERM.
async fn stop_signal() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_for(arguments: &[&str]) -> Option<String> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        parse(&arguments).err()
    }

    #[test]
    fn arguments_are_checked() {
        assert_eq!(message_for(&[]), None);
        assert_eq!(message_for(&["--port", "0", "--tls", "off", "--azure", "--log-sql", "--password", "--x"]), None);
        assert_eq!(message_for(&["--port"]).unwrap(), "--port needs a value");
        assert_eq!(message_for(&["--port", "x"]).unwrap(), "--port must be 0 to 65535, not x");
        assert_eq!(message_for(&["--tls", "maybe"]).unwrap(), "--tls must be on or off, not maybe");
        assert_eq!(message_for(&["--version", "2019", "--edition", "express"]), None);
        assert_eq!(
            message_for(&["--edition", "web"]).unwrap(),
            "--edition must be enterprise, standard or express, not web"
        );
        for arguments in [["--azure", "--version", "2019"], ["--edition", "express", "--azure"]] {
            assert!(message_for(&arguments).unwrap().ends_with(" does not go with --azure"));
        }
    }
}
