#!/usr/bin/env python3
"""Checks a built site, without a network: every link and anchor in it, and that every page of `docs` is in it.

    check.py SITE       links to other places are listed in SITE/external-links.txt, and not followed
"""

import html.parser
import pathlib
import sys
import urllib.parse

DOCS = pathlib.Path(__file__).resolve().parents[1]


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if value is None:
                continue
            if name == "id" or (name == "name" and tag == "a"):
                self.ids.add(value)
            elif name in ("href", "src"):
                self.links.append(value)


def main():
    site = pathlib.Path(sys.argv[1]).resolve()
    api = site / "api"
    pages = {}
    for file in sorted(site.rglob("*.html")):
        # rustdoc checks its own links.
        if api not in file.parents:
            pages[file] = Page(file.read_text())
    faults, external, checked = [], set(), 0
    for file, page in pages.items():
        name = file.relative_to(site)
        # The 404 page has links from the root of a server that is not known here.
        if name.name == "404.html":
            continue
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                external.add(link)
                continue
            checked += 1
            target = file if not parts.path else (file.parent / urllib.parse.unquote(parts.path)).resolve()
            if target.is_dir():
                target /= "index.html"
            if site not in target.parents or not target.is_file():
                faults.append(f"{name}: there is no {link}")
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].ids:
                faults.append(f"{name}: {parts.path or name} has no #{parts.fragment}")
    summary = (DOCS / "SUMMARY.md").read_text()
    for file in sorted(DOCS.glob("*.md")):
        if file.name != "SUMMARY.md" and f"({file.name})" not in summary:
            faults.append(f"docs/{file.name} is not in docs/SUMMARY.md: add a line for it there")
    (site / "external-links.txt").write_text("".join(f"{link}\n" for link in sorted(external)))
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(pages)} pages, {checked} links within the site, {len(external)} to other places, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
