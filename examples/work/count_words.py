"""A program that stays: counts the words of each job's text.

    readpast work texts --keep -- python3 examples/work/count_words.py

It gets a job a line, as JSON, and answers a line each; docs/work.md has the protocol. Put your own work into `handle`.
"""

import json
import os
import sys
import traceback


class Dead(Exception):
    """The job will never succeed: it is not tried again."""


def handle(job):
    """Returns the output as text, or None. An error has the job tried again later."""
    if job["payload_text"] is None:
        raise Dead("the payload is not text")
    return str(len(job["payload_text"].split()))


def main():
    # Standard output is for answers alone. What a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        job = json.loads(line)
        answer = {"job_id": job["job_id"]}
        try:
            output = handle(job)
            if output is not None:
                answer["output_text"] = output
        except Dead as error:
            answer.update(error=str(error), dead=True)
        except Exception:
            answer["error"] = traceback.format_exc()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
