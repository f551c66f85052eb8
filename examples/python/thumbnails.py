"""Thumbnails of a hundred images, made by four processes.

    python examples/python/thumbnails.py enqueue          # a hundred jobs, in the queue thumbnails
    python examples/python/thumbnails.py                  # runs them

READPAST_URL is the connection string; `readpast queue create thumbnails` creates the queue. The images are made up, so
that the example needs no files. With Pillow, the thumbnails are PNG files, otherwise PGM files.
"""

import os
import sys

from readpast import NewJob, Queue, worker

try:
    from PIL import Image
except ImportError:
    Image = None

SIDE = 256
SMALL = 32


def made_up(number: int) -> bytes:
    """A grey image: a byte per pixel."""
    return bytes((x * number ^ y) % 256 for y in range(SIDE) for x in range(SIDE))


def shrunk(image: bytes) -> bytes:
    """The mean of each square of pixels."""
    step = SIDE // SMALL
    rows = [image[y * SIDE : (y + 1) * SIDE] for y in range(SIDE)]
    return bytes(
        sum(sum(row[x : x + step]) for row in rows[y : y + step]) // step**2
        for y in range(0, SIDE, step)
        for x in range(0, SIDE, step)
    )


@worker.job("thumbnail")
def thumbnail(payload: dict) -> str:
    image = made_up(payload["number"])
    path = os.path.join(payload["folder"], f"{payload['number']}.{'png' if Image else 'pgm'}")
    # A second run of the job overwrites the file, so it does no harm.
    if Image:
        Image.frombytes("L", (SIDE, SIDE), image).resize((SMALL, SMALL)).save(path)
    else:
        with open(path, "wb") as file:
            file.write(b"P5 %d %d 255\n" % (SMALL, SMALL) + shrunk(image))
    return path


def enqueue(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    jobs = (NewJob({"number": number, "folder": os.path.abspath(folder)}, kind="thumbnail") for number in range(1, 101))
    with Queue("thumbnails") as queue:
        print(len(queue.enqueue_many(jobs)), "jobs")


if __name__ == "__main__":
    if sys.argv[1:2] == ["enqueue"]:
        enqueue(sys.argv[2] if len(sys.argv) > 2 else "thumbnails")
    else:
        worker.run("thumbnails", processes=4, drain=True)
