//! `check-program`: what it says of programs that speak the protocol of `work --keep`, and of those that do not.

use std::process::Command;

use crate::support::{Run, run};
use crate::worker_process::has;

/// A program of Python's that is wrong in the way that its argument names.
const WRONG: &str = "
import json, os, subprocess, sys, threading, time
way = sys.argv[1]
for line in sys.stdin:
    job = json.loads(line)
    answer = {'job_id': job['job_id']}
    if way == 'another_job': answer['job_id'] = 1
    if way == 'unknown_field': answer['outptu_text'] = 'x'
    if way == 'strict' and len(job) > 15: sys.exit('what is added_later?')
    if way == 'prints_first': print('working', flush=True)
    line = json.dumps(answer) + ('' if way == 'no_line_feed' else '\\n')
    sys.stdout.write(line * 2 if way == 'twice' else line)
    if way != 'no_flush': sys.stdout.flush()
    if way == 'once': break
    if way == 'closes': os.close(1); time.sleep(1000)
    if way == 'between': threading.Timer(0.2, lambda: os.write(1, b'tick\\n')).start()
if way == 'child': subprocess.Popen(['sleep', '5'])
if way == 'stays': time.sleep(1000)
if way == 'code': sys.exit(3)
";

/// Runs the check, without a server and its settings.
fn check(arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_readpast"));
    // With it, Python flushes everything.
    command.env_remove("PYTHONUNBUFFERED").arg("check-program").args(arguments);
    run(&mut command)
}

fn example(name: &str) -> String {
    format!("{}/../examples/work/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn conforms(program: &str, file: &str) {
    if !has(program) {
        return;
    }
    let text = check(&["--within", "30s", "--", program, &example(file)]).ok();
    let binary =
        "ok     a binary payload; replied with an error: the payload is not text (the job will not be retried)\n";
    assert!(text.contains(binary), "{text}");
    assert!(text.ends_with("\nthe program conforms to protocol 1\n"), "{text}");
    assert_eq!(text.matches("ok     ").count(), text.lines().count() - 1, "{text}");
}

#[test]
fn the_python_example_conforms() {
    conforms("python3", "count_words.py");
}

/// The program that is wrong in this way is told so first at this turn, or one that begins so, in these words.
fn told(way: &str, turn: &str, what: &str, hint: &str) {
    if !has("python3") {
        return;
    }
    let program = WRONG.replace('{', "{{");
    let within = if ["no_flush", "no_line_feed"].contains(&way) { "2s" } else { "30s" };
    let run = check(&["--within", within, "--grace", "2s", "--", "python3", "-c", &program, way]);
    assert_eq!(run.code, 1, "{run:?}");
    let text = run.stdout;
    let line = text.lines().find(|line| line.starts_with("wrong")).expect("it is wrong");
    assert!(line.starts_with(&format!("wrong  {turn}")) && line.contains(what), "{text}");
    assert!(hint.is_empty() || text.contains(&format!("{line}\n       {hint}")), "{text}");
}

const ONLY_REPLIES: &str = "Standard output is only for replies";
const STAYS: &str = "It must read jobs, one per line, and reply to each, until its standard input is closed";

#[test]
fn output_before_the_first_job_is_wrong() {
    // Not Python, which may start too slowly: then this would be its first reply.
    let run = check(&["--within", "1s", "--", "/bin/sh", "-c", "echo model loaded; exec sleep 60"]);
    let what =
        "wrong  silence before the first job: it wrote to standard output before its first job: model loaded\n       ";
    assert!(run.code == 1 && run.stdout.starts_with(&format!("{what}{ONLY_REPLIES}")), "{run:?}");
    let no_reply = "wrong  a text: no reply within 1s\n       Reply to each job with one line on standard output";
    assert!(run.stdout.contains(no_reply) && run.stdout.contains("; 11 more not checked"), "{run:?}");
}

#[test]
fn a_second_reply_is_wrong() {
    told(
        "twice",
        "a text",
        "it wrote another reply after its reply: {\"job_id\": 4294967297}",
        "Reply once to each job",
    );
}

#[test]
fn a_reply_to_another_job_is_wrong() {
    told("another_job", "a text", "it is for job 1, but job 4294967297 is running", ONLY_REPLIES);
}

#[test]
fn an_unknown_field_of_a_reply_is_wrong() {
    let what = "unknown field 'outptu_text'; did you mean 'output_text'?";
    told("unknown_field", "a text", what, ONLY_REPLIES);
}

#[test]
fn other_output_before_a_reply_is_wrong() {
    told("prints_first", "a text", "not JSON from column 1 on: working", ONLY_REPLIES);
}

#[test]
fn a_reply_that_is_not_flushed_is_told_from_none() {
    let hint = "It replies only when its standard input is closed: read line by line, and flush each reply";
    told("no_flush", "a text", "no reply within 2s", hint);
    told("no_line_feed", "a text", "no reply within 2s", "End each reply with a line feed");
}

#[test]
fn a_program_that_ends_after_a_job_is_wrong() {
    told("once", "a", "exit", STAYS); // this is seen after its reply or, if it exits slowly, at the next turn
}

#[test]
fn a_program_that_closes_its_output_is_wrong() {
    told("closes", "a", "closed its standard output", STAYS);
}

#[test]
fn a_program_that_refuses_unknown_fields_is_wrong() {
    let what = "exit code 1 without a reply: what is added_later?";
    told("strict", "a field that may be added later", what, STAYS);
}

/// Asks for jobs ahead, and answers all that have come in reverse order, in the way that its argument names.
const AHEAD: &str = "
import json, os, select, sys
way = sys.argv[1]
os.write(1, json.dumps({'protocol': 1, 'ahead': 0 if way == 'none' else 20}).encode() + b'\\n')
pending = b''
while True:
    while b'\\n' not in pending or select.select([0], [], [], 0.02)[0]:
        data = os.read(0, 1 << 20)
        if not data: sys.exit(0)
        pending += data
    *lines, pending = pending.split(b'\\n')
    replies = [b'{\"job_id\":%d}\\n' % json.loads(line)['job_id'] for line in reversed(lines)]
    if way == 'twice' and len(lines) > 1: replies[1] = replies[0]
    os.write(1, b''.join(replies))
";

#[test]
fn jobs_ahead_are_replied_to_once_in_any_order() {
    if !has("python3") {
        return;
    }
    let program = AHEAD.replace('{', "{{");
    let check = |way| check(&["--within", "30s", "--", "python3", "-c", &program, way]);
    let text = check("right").ok();
    assert!(text.contains("ok     several jobs at once, if it asks for them\n"), "{text}");
    let run = check("twice");
    let line = run.stdout.lines().find(|line| line.starts_with("wrong")).expect("it is wrong");
    assert!(line.starts_with("wrong  several jobs at once, if it asks for them: invalid line"), "{run:?}");
    assert!(line.contains("but the program has 20 other jobs"), "{run:?}");
    let run = check("none");
    assert!(run.stdout.contains("its ahead is 0; it must be a number of jobs from 1 to 1000"), "{run:?}");
}

#[test]
fn output_between_jobs_is_wrong() {
    if !has("python3") {
        return;
    }
    let run = check(&["--json", "--", "python3", "-c", &WRONG.replace('{', "{{"), "between"]);
    assert_eq!(run.code, 1, "{run:?}");
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&report["protocol"], &report["conforms"]), (&1.into(), &false.into()), "{report}");
    let turns = report["turns"].as_array().unwrap();
    let wrong = &turns.iter().find(|turn| turn["turn"] == "silence between jobs").unwrap()["wrong"];
    assert!(wrong.as_str().unwrap().contains("tick"), "{report}");
}

#[test]
fn a_program_must_end_with_its_input() {
    let turn = "exit when standard input is closed";
    let hint = "End when there are no more lines to read";
    told("stays", turn, "it did not exit within 2s after its standard input was closed", hint);
    told("code", turn, "exit code 3, instead of exit code 0", "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_must_leave_no_child() {
    let turn = "exit when standard input is closed";
    told("child", turn, "it left processes running: sleep (", "End them, and wait for them, before it exits");
}

#[test]
fn the_jobs_have_the_given_payload_and_kind() {
    let command = r#"
        while read -r line; do
            case $line in *'"kind":"resize"'*) ;; *) exit 1 ;; esac
            case $line in *'"payload_text":"a.png"'*) error=understood ;; *) error=unknown ;; esac
            id=${line#*'"job_id":'}
            echo "{\"job_id\":${id%%,*},\"error\":\"$error\"}"
        done"#;
    let command = command.replace('{', "{{");
    let text = check(&["--payload", "a.png", "--kind", "resize", "--", "/bin/sh", "-c", &command]).ok();
    for found in ["a text; replied with an error: understood", "an empty payload; replied with an error: unknown"] {
        assert!(text.contains(&format!("ok     {found} (the job will be retried)\n")), "{text}");
    }
}

#[test]
fn placeholders_and_missing_programs_are_refused() {
    let message = check(&["--", "echo", "{payload}"]).failed(2);
    assert!(message.contains("the arguments cannot have placeholders"), "{message}");
    let message = check(&["--", "/there/is/none"]).failed(2);
    assert!(message.contains("cannot find a program '/there/is/none' to run"), "{message}");
}
