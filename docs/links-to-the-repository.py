"""For mdBook (book.toml): what lies beside docs/ is linked to in the repository, because the book has only docs/."""

import json
import re
import sys

REPOSITORY = "https://github.com/readpast/readpast/blob/main/"


def mend(chapter):
    chapter["content"] = re.sub(r"\]\(\.\./(?=[^)]*\))", "](" + REPOSITORY, chapter["content"])
    for item in chapter["sub_items"]:
        if "Chapter" in item:
            mend(item["Chapter"])


if len(sys.argv) > 1:  # `supports RENDERER`: all of them
    sys.exit(0)
_context, book = json.load(sys.stdin)
for item in book.get("items", book.get("sections")):
    if "Chapter" in item:
        mend(item["Chapter"])
json.dump(book, sys.stdout)
