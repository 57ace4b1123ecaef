#!/usr/bin/env python3
"""A preprocessor of mdBook that lets pages of the repository stand in the site as they are.

* A link to a file of the repository becomes a link to its page. Where the file has no page, its text stays.
* The name of such a file in code (`docs/copy.md`, `PROTOCOL.md`) becomes a link too.
* {{#section FILE HEADING}} stands for what is below that heading of the file.

Links to `api/` stay only if EXONET_SITE_API is set: then the site has the reference of the API.
"""

import json
import os
import pathlib
import posixpath
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^\s*(```+|~~~+)")
INCLUDE = re.compile(r"^\{\{#include ([^:}]+)\}\}\s*$")
SECTION = re.compile(r"^\{\{#section (\S+) (.+)\}\}\s*$")
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<to>[^)\s]+)\)")
DEFINITION = re.compile(r"^\[(?P<text>[^\]]+)\]:\s*(?P<to>\S+)\s*$")
NAMED = re.compile(r"(?<![\[`])`(?P<file>[A-Za-z0-9_./-]+\.md)`(?![\]`])")
OUTSIDE = re.compile(r"^(?:[a-z]+:|#|//)")


def lines_with_code(text):
    """Each line, and whether it is code."""
    fence = None
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark[1]
            yield line, True
        elif fence is not None:
            if mark and mark[1].startswith(fence) and line.strip() == mark[1]:
                fence = None
            yield line, True
        else:
            yield line, False


def section(text, heading):
    """What is below a heading, to the next one of its rank."""
    found, rank = [], None
    for line, code in lines_with_code(text):
        title = None if code else re.match(r"(#+) (.*)", line)
        if rank is None and title and title[2] == heading:
            rank = len(title[1])
        elif rank is not None and title and len(title[1]) <= rank:
            break
        elif rank is not None:
            found.append(line)
    if rank is None:
        sys.exit(f"there is no heading {heading!r} to include")
    return "\n".join(found)


class Site:
    """Which files of the repository have pages."""

    def __init__(self, chapters):
        self.pages = {}
        for chapter in chapters:
            path = chapter["path"]
            self.pages[posixpath.join("docs", path)] = path
        for path in list(self.pages.values()):
            whole = INCLUDE.match((ROOT / "docs" / path).read_text().strip())
            if whole:
                source = posixpath.normpath(posixpath.join("docs", posixpath.dirname(path), whole[1]))
                self.pages[source] = path

    def source(self, path):
        """The file of the repository whose text a page has."""
        return next((file for file, page in self.pages.items() if page == path and file != f"docs/{path}"), f"docs/{path}")

    def page_of(self, source, to, path):
        """The link from the page `path` to what `source` calls `to`; None: that is no page."""
        to, _, anchor = to.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), to))
        if not file.startswith("docs/api/") and not (ROOT / file).exists():
            sys.exit(f"{source} links to {to}, which is not there")
        if file in self.pages:
            link = posixpath.relpath(self.pages[file], posixpath.dirname(path) or ".")
        elif file.startswith("docs/api/"):
            if not os.environ.get("EXONET_SITE_API"):
                return None
            link = posixpath.relpath(file, posixpath.join("docs", posixpath.dirname(path)))
        elif file.startswith("docs/") and not file.endswith(".md"):
            # Anything else below `docs` is in the site as it is.
            link = posixpath.relpath(file, posixpath.join("docs", posixpath.dirname(path)))
        else:
            return None
        return f"{link}#{anchor}" if anchor else link

    def convert(self, text, path):
        source = self.source(path)
        whole = "\n".join(
            section((ROOT / "docs" / posixpath.dirname(path) / found[1]).resolve().read_text(), found[2])
            if not code and (found := SECTION.match(line))
            else line
            for line, code in lines_with_code(text)
        )
        dropped = set()
        for line, code in lines_with_code(whole):
            found = None if code else DEFINITION.match(line)
            if found and not OUTSIDE.match(found["to"]) and self.page_of(source, found["to"], path) is None:
                dropped.add(found["text"])
        return "\n".join(
            line if code else self.convert_line(line, source, path, dropped) for line, code in lines_with_code(whole)
        )

    def convert_line(self, line, source, path, dropped):
        found = DEFINITION.match(line)
        if found and not OUTSIDE.match(found["to"]):
            to = self.page_of(source, found["to"], path)
            return "" if to is None else f"[{found['text']}]: {to}"
        for text in dropped:
            line = line.replace(f"[{text}]", text)

        def link(found):
            if OUTSIDE.match(found["to"]):
                return found[0]
            to = self.page_of(source, found["to"], path)
            return found["text"] if to is None else f"{found['image']}[{found['text']}]({to})"

        def named(found):
            file = posixpath.normpath(found["file"])
            page = self.pages.get(file)
            if page is None or page == path:
                return found[0]
            return f"[`{found['file']}`]({posixpath.relpath(page, posixpath.dirname(path) or '.')})"

        line = LINK.sub(link, line)
        return line if line.startswith("#") else NAMED.sub(named, line)


def chapters_of(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            if chapter.get("path"):
                yield chapter
            yield from chapters_of(chapter.get("sub_items", []))


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "supports":
        return
    _, book = json.load(sys.stdin)
    chapters = list(chapters_of(book.get("items") or book.get("sections") or []))
    site = Site(chapters)
    for chapter in chapters:
        chapter["content"] = site.convert(chapter["content"], chapter["path"])
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
