//! SQL Server's transient errors. They pass by themselves, or once an operator has made space, repaired a disk or
//! brought a database back.
//!
//! Errors caused by a program, a permission, a setting or a damaged page are not listed: waiting does not fix them, and
//! an operator must learn of them. Errors that are raised only by administrative statements, backups, replication,
//! full-text search, Service Broker and similar features are not listed either. Errors that user code can raise inside
//! a call (triggers, procedures, memory-optimized tables) are listed.
//!
//! The sources, all from Microsoft: "Troubleshoot connectivity issues and other errors with Azure SQL Database"
//! (**Azure** below), "Database Engine errors" and the pages of single errors (**texts**), the default list of
//! Microsoft.Data.SqlClient's configurable retry logic (**SqlClient**), `SQLServerError.TransientError` of the JDBC
//! driver (**JDBC**), and `SqlServerTransientExceptionDetector` of EF Core (**EF**). The test below gives a reason for
//! each number.

/// A connection broke or could not be opened: SqlClient, JDBC, EF. These are numbers of a client's own network library,
/// which reach us only through a gateway; our own errors of this kind are `Error::Connect`, `ConnectionLost` and
/// `TimedOut`. Left out of EF's list: 20, which is a setting, and 203 and 11001, which no server sends.
const CONNECTION: &[i32] = &[-2, 64, 121, 233, 997, 10053, 10054, 10060];

/// Locks of other sessions, and the lock manager. 1204, 1205, 1222: SqlClient, EF; 1203, 1221, 1232, 22335: EF; 3940:
/// texts.
const LOCKS: &[i32] = &[1203, 1204, 1205, 1221, 1222, 1232, 3940, 22335];

pub(crate) const LOCK_TIME_OUT: i32 = 1222;

/// Out of memory. 701, 802, 41805: "Troubleshoot out of memory errors with Azure SQL Database"; 3935, 8628, 8645, 8651,
/// 41823, 41840: EF; 3985: texts.
const MEMORY: &[i32] = &[701, 802, 3935, 3985, 8628, 8645, 8651, 41805, 41823, 41840];

/// Out of space for data, in tempdb or in the log, until an operator or a log backup frees some. 1132, 40544: Azure;
/// 3966, 9020: EF; the others: texts.
const ROOM: &[i32] = &[1101, 1104, 1105, 1121, 1132, 3958, 3966, 3967, 9002, 9020, 9024, 40544];

/// A disk does not respond: texts. 823, 824, 829 and 832 are left out: they report damage, and their pages ask for DBCC
/// CHECKDB and a restore.
const DISK: &[i32] = &[845, 9001];

/// Azure SQL is busy, throttles, or moves the database. 40197 and its reasons (40020, 40143, 40166, 40540), 40501,
/// 40613, 49918 to 49920, 10928, 10929, 10936: Azure, SqlClient, JDBC; 42108, 42109: SqlClient, JDBC; the others: EF.
const AZURE: &[i32] = &[
    10928, 10929, 10930, 10936, 40020, 40143, 40166, 40189, 40197, 40501, 40540, 40613, 40642, 40648, 40675, 40903,
    42108, 42109, 49802, 49918, 49919, 49920,
];

/// The session was ended. 40549 to 40553: Azure, "Resource governance errors"; 3980: EF; 596, 1219: texts.
const SESSION: &[i32] = &[596, 1219, 3980, 40549, 40550, 40551, 40552, 40553];

/// The token of an open connection has expired; a new connection with a new token fixes it. 37396:
/// dotnet/SqlClient#2792 ("Query cannot be executed"); 9119: neowu/core-ng-project#75. The error can also be 18456,
/// distinguished from other logins by its text and state: `Error::from_token`.
const TOKEN: &[i32] = &[9119, 37396];

/// The database is starting, recovering, being restored, restricted by an operator, or elsewhere. 615, 926, 4060, 4221:
/// Azure; 921, 927, 941, 952, 982, 988: EF; the others: texts.
const DATABASE: &[i32] = &[
    615, 904, 913, 921, 922, 923, 924, 926, 927, 941, 942, 945, 952, 954, 955, 956, 972, 976, 978, 982, 983, 988, 4060,
    4221,
];

/// The server starts, stops, or accepts no more logins for now. 17197, 17889, 18401: EF; the others: texts.
const SERVER: &[i32] = &[
    6005, 17142, 17187, 17189, 17197, 17300, 17803, 17809, 17813, 17829, 17830, 17889, 17899, 17900, 18401, 18451,
    18458, 18460, 18461,
];

/// Something changed while a statement or transaction was running, which must be run again: EF, except 2801 and 3949:
/// texts. Our procedures use no row versions or memory-optimized tables, but a user's trigger or procedure may.
const RUN_AGAIN: &[i32] = &[
    601, 617, 669, 2801, 2816, 3941, 3947, 3948, 3949, 3950, 3953, 3957, 3960, 4117, 4184, 10922, 20041, 41301, 41302,
    41305, 41325, 41339, 41839,
];

const ALL: [&[i32]; 11] = [CONNECTION, LOCKS, MEMORY, ROOM, DISK, AZURE, SESSION, TOKEN, DATABASE, SERVER, RUN_AGAIN];

pub(super) fn is_transient(number: i32) -> bool {
    ALL.iter().any(|group| group.contains(&number))
}

pub(super) fn is_to_be_run_again(number: i32) -> bool {
    RUN_AGAIN.contains(&number)
}

/// Whether SQL Server ended the session with this error, whatever its severity. The last call's effect is then unknown.
pub(super) fn ends_the_session(number: i32) -> bool {
    SESSION.contains(&number)
}

/// Whether an error is about the connection, its login, the database as a whole or the server, so that the same
/// connection may keep failing.
pub(super) fn is_of_the_connection(number: i32) -> bool {
    [CONNECTION, AZURE, SESSION, TOKEN, DATABASE, SERVER].iter().any(|group| group.contains(&number))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PASSES: [(i32, &str); 138] = [
        (-2, "no response in time, says a client library"),
        (64, "the network name is no longer available"),
        (121, "the semaphore's time is over: the network"),
        (233, "no process at the other end of the pipe"),
        (596, "the session is being killed"),
        (601, "data moved under a scan with NOLOCK"),
        (615, "the cache of database names is behind after a move"),
        (617, "a work table lost an entry: run again"),
        (669, "an inconsistent row object: run again"),
        (701, "out of memory for a query"),
        (802, "out of memory in the buffer pool"),
        (845, "a latch was waited for too long: slow I/O"),
        (904, "not while the server starts or stops"),
        (913, "the database is not activated yet"),
        (921, "the database has not been recovered yet"),
        (922, "the database is being recovered"),
        (923, "restricted to its owner: an operator works on it"),
        (924, "in single-user mode: an operator works on it"),
        (926, "suspect, for a short time at the end of a reconfiguration"),
        (927, "in the middle of a restore"),
        (941, "the database is not started"),
        (942, "the database is off-line"),
        (945, "files, memory or disk space are missing when it is opened"),
        (952, "the database is in transition"),
        (954, "it is the mirror: the principal is elsewhere"),
        (955, "mirroring has no quorum"),
        (956, "mirroring has not yet synchronized"),
        (972, "the database cannot be used just now"),
        (976, "a replica that is not accessible"),
        (978, "a secondary, read-only: the primary is elsewhere"),
        (982, "no secondary is on-line"),
        (983, "neither primary nor secondary yet"),
        (988, "no quorum of nodes"),
        (997, "overlapped I/O is in progress: the login; or a lock on the database"),
        (1101, "no disk space for a new page"),
        (1104, "tempdb is full"),
        (1105, "the filegroup is full"),
        (1121, "no page can be allocated"),
        (1132, "the elastic pool is full"),
        (1203, "a lock that is not owned: a matter of timing"),
        (1204, "no lock resource"),
        (1205, "deadlock victim"),
        (1219, "disconnected by DDL of high priority"),
        (1221, "locks that are not held: run again"),
        (1222, "lock time-out"),
        (1232, "the lock manager's service did not answer"),
        (2801, "a procedure was replaced since it was compiled"),
        (2816, "an object's metadata changed"),
        (3935, "a resource shortage"),
        (3940, "no locks to be had during the commit, which was undone"),
        (3941, "replication or CDC was switched on meanwhile"),
        (3947, "a secondary did not catch up"),
        (3948, "a replica's state changed"),
        (3949, "a row version is missing: a matter of timing"),
        (3950, "a scan of the version store took too long"),
        (3953, "the database was not recovered when the transaction began"),
        (3957, "snapshots were not allowed when the transaction began"),
        (3958, "a row version is missing: tempdb is full"),
        (3960, "a snapshot's update conflict"),
        (3966, "victim of a full tempdb"),
        (3967, "tempdb has no room for row versions"),
        (3980, "the batch was aborted"),
        (3985, "low memory while a transaction's context changed"),
        (4060, "the database cannot be opened: it is being moved"),
        (4117, "a table is altered too often"),
        (4184, "a table with a filtered index is altered too often"),
        (4221, "a secondary waits for row versions"),
        (6005, "the server shuts down"),
        (8628, "optimizing took too long"),
        (8645, "memory was waited for too long"),
        (8651, "no memory grant"),
        (9001, "the log is not available: a disk, until it is mended"),
        (9002, "the log is full"),
        (9020, "the log cannot grow while it is shrunk"),
        (9024, "the log cannot be expanded"),
        (9119, "the session's token has run out"),
        (10053, "the connection was aborted"),
        (10054, "the connection was reset"),
        (10060, "the connection could not be made in time"),
        (10922, "rerun the statement"),
        (10928, "the database's limit of workers or sessions"),
        (10929, "the server is too busy for more than the minimum"),
        (10930, "the service is too busy"),
        (10936, "the pool's limit of workers or sessions"),
        (17142, "the server is paused"),
        (17187, "the server is not ready yet"),
        (17189, "no thread for the login"),
        (17197, "the login took too long under load"),
        (17300, "no memory or session for a task"),
        (17803, "no memory for the connection"),
        (17809, "the most user connections are there already"),
        (17813, "the service is stopped at this time"),
        (17829, "a network error during the login"),
        (17830, "a network error or time-out during the login"),
        (17889, "the most connections are there already"),
        (17899, "the login's time is over"),
        (17900, "a network error"),
        (18401, "the server is being upgraded"),
        (18451, "administrators only at this time"),
        (18458, "as many users as licences at this time"),
        (18460, "as many users as the edition allows at this time"),
        (18461, "the server is in single-user mode"),
        (20041, "a trigger could not run: retry"),
        (22335, "no lock resource"),
        (37396, "the session's token has run out"),
        (40020, "a reason in 40197"),
        (40143, "a reason in 40197"),
        (40166, "a reason in 40197"),
        (40189, "the quota of this time window is used up"),
        (40197, "software or hardware is replaced; a failover"),
        (40501, "throttled: the service is busy"),
        (40540, "a reason in 40197"),
        (40544, "the database's size quota"),
        (40549, "ended: a long transaction"),
        (40550, "ended: too many locks"),
        (40551, "ended: too much of tempdb"),
        (40552, "ended: too much of the log"),
        (40553, "ended: too much memory"),
        (40613, "the database is not available at the moment"),
        (40642, "the server is too busy"),
        (40648, "too many requests"),
        (40675, "the service is too busy"),
        (40903, "the server is busy for some minutes"),
        (41301, "a dependency failed to commit"),
        (41302, "the row was updated meanwhile"),
        (41305, "repeatable read could not be validated"),
        (41325, "serializable could not be validated"),
        (41339, "the table was altered meanwhile"),
        (41805, "no memory for tables in memory"),
        (41823, "the quota for tables in memory"),
        (41839, "too many commit dependencies"),
        (41840, "the pool's quota for tables in memory"),
        (42108, "the pool is paused"),
        (42109, "the pool warms up"),
        (49802, "the database is unavailable at the moment"),
        (49918, "not enough resources for the request"),
        (49919, "too many operations in the subscription"),
        (49920, "too many operations in the subscription"),
    ];

    /// 3617: "Attentions show up internally as error 3617" (MSSQLSERVER_3617). A client that sent an attention gets no
    /// error, only a DONE with its bit (MS-TDS, "Attention"). A client whose connection broke gets nothing.
    const STAYS: [(i32, &str); 29] = [
        (20, "encryption is not supported: a setting"),
        (102, "syntax"),
        (207, "no such column"),
        (208, "no such object"),
        (229, "permission denied"),
        (547, "a constraint"),
        (823, "the disk returned an error: damage"),
        (824, "a page is damaged"),
        (829, "a page waits for a restore"),
        (911, "no such database: a setting"),
        (916, "no user in the database"),
        (925, "too many databases in one query"),
        (943, "the database is of a newer version than the server"),
        (979, "read-only intent, which the replica does not allow: a setting"),
        (1934, "SET options"),
        (2601, "a duplicate key"),
        (2627, "a duplicate key"),
        (2812, "no such procedure"),
        (3617, "a cancelled statement, which no client is told of so"),
        (3952, "snapshots are not allowed in the database"),
        (8134, "division by zero"),
        (8145, "no such parameter"),
        (17892, "a logon trigger"),
        (18456, "the login failed"),
        (18470, "the login is disabled"),
        (40615, "the firewall's rules"),
        (50000, "RAISERROR of somebody's"),
        (58001, "no such queue"),
        (58003, "refused for its contents"),
    ];

    #[test]
    fn every_number_that_passes_has_a_reason_and_every_reason_a_number() {
        let listed: Vec<i32> = ALL.concat();
        let with_a_reason: BTreeSet<i32> = PASSES.iter().map(|(number, _)| *number).collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), with_a_reason);
        assert_eq!(listed.len(), with_a_reason.len(), "none stands in two groups");
        for (number, reason) in PASSES {
            assert!(is_transient(number), "{number}: {reason}");
        }
    }

    #[test]
    fn what_waiting_does_not_mend_stays() {
        for (number, reason) in STAYS {
            assert!(!is_transient(number), "{number}: {reason}");
        }
    }
}
