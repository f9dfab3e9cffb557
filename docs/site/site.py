"""Makes a static site of README, docs/ and the man pages: `make site` writes it to build/site.

    site.py FOLDER

Python-Markdown renders pages, mandoc(1) renders man pages. The site needs no server: search reads an index that is
a script. Without JavaScript only the search is missing.
"""

import glob
import html
import json
import os
import re
import shutil
import subprocess
import sys

import markdown

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
# Pages name these files and folders, which are not part of the site.
SOURCE_ONLY = ("ARCHITECTURE.md", "CONTRIBUTING.md", "LICENSE", "cron/container/")


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as f:
        return f.read()


def pages():
    """{path in the site: path of its source}"""
    found = {"index.html": "README.md", "changelog.html": "CHANGELOG.md", "security.html": "SECURITY.md"}
    for path in sorted(glob.glob(os.path.join(TOP, "docs", "**", "*.md"), recursive=True)):
        name = os.path.relpath(path, TOP)
        found[name.replace("README.md", "index.md").removesuffix(".md") + ".html"] = name
    for pattern in ("lib/*.[1-8]", "bin/*/*.[1-8]", "cron/*.[1-8]", "docs/man/*.[1-8]"):
        for path in sorted(glob.glob(os.path.join(TOP, pattern))):
            found[f"man/{os.path.basename(path)}.html"] = os.path.relpath(path, TOP)
    return found


SITE = pages()
OF_SOURCE = {source: path for path, source in SITE.items()}
MAN = {re.sub(r"man/(.*)\.(\d)\.html", r"\1(\2)", path): path for path in SITE if path.startswith("man/")}


def between(path, target):
    return os.path.relpath(target, os.path.dirname(path) or ".")


def link(path, href):
    """What a link of the source of `path` is in the site."""
    if re.match(r"[a-z]+:|#", href):
        return href
    file, _, anchor = href.partition("#")
    source = os.path.normpath(os.path.join(os.path.dirname(SITE[path]), file))
    if source in OF_SOURCE:
        return between(path, OF_SOURCE[source]) + (f"#{anchor}" if anchor else "")
    if source.endswith(".webp"):
        return between(path, "pictures/" + os.path.basename(source))
    assert source.startswith(SOURCE_ONLY), (path, href)
    return None


def links_to_man(path, text):
    """References such as deferred(7), outside of tags and links, become links."""
    parts = re.split(r"(<a\b.*?</a>|<pre\b.*?</pre>|<[^>]+>)", text, flags=re.S)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(
            r"\b([a-z_.-]+)\((\d)\)",
            lambda m: f'<a href="{between(path, MAN[m[0]])}">{m[0]}</a>' if m[0] in MAN else m[0],
            parts[i],
        )
    return "".join(parts)


def body(path):
    """(title, HTML) of a page."""
    source = SITE[path]
    if path.startswith("man/"):
        done = subprocess.run(
            ["mandoc", "-T", "html", "-O", "fragment,man=%N.%S.html", os.path.join(TOP, source)],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        ours = {os.path.basename(p) for p in MAN.values()}
        text = re.sub(r'<a class="Xr" href="([^"]*)">(.*?)</a>', lambda m: m[0] if m[1] in ours else m[2], done.stdout)
        # "SECTION in page(7)" means the section of that page.
        text = re.sub(
            r'(<a class="Sx" href=")(#[^"]*">[^<]*</a>\s+(?:in|of)\s+<a class="Xr" href="([^"]*)")', r"\1\3\2", text
        )
        title = re.sub(r"man/(.*)\.(\d)\.html", r"\1(\2)", path)
        text = re.sub(
            r'<a class="Sx" href="#([^"]*)">(.*?)</a>', lambda m: m[0] if f'id="{m[1]}"' in text else m[2], text
        )
        return title, f"<h1>{title}</h1>\n" + re.sub(r"<(/?)h([12])\b", lambda m: f"<{m[1]}h{int(m[2]) + 1}", text)
    # A comment for the tests may stand in front of a block, and blocks of lists are indented.
    text = re.sub(r"(?m)^ *<!--.*?-->\n", "", read(source))
    text = markdown.markdown(
        text,
        extensions=["fenced_code", "tables", "toc", "sane_lists"],
        extension_configs={
            "toc": {"slugify": lambda value, sep: re.sub(r"[^\w -]", "", value).strip().lower().replace(" ", "-")}
        },
    )
    text = re.sub(
        r'(href|src)="([^"]+)"', lambda m: f'{m[1]}="{html.escape(link(path, html.unescape(m[2])) or "")}"', text
    )
    text = re.sub(r'<a href="">(.*?)</a>', r"\1", text)
    text = text.replace("<th></th>", "<td></td>")
    title = re.sub(r"<[^>]+>", "", re.search(r"<h1[^>]*>(.*?)</h1>", text)[1])
    return title, links_to_man(
        path, text.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    )


def navigation(path, titles):
    groups = {
        "Start": ["index.html", "docs/tutorial.html", "docs/index.html", "changelog.html", "security.html"],
        "How-to": [p for p in titles if p.startswith(("docs/how-to/", "docs/examples/"))],
        "Explanation": [p for p in titles if p.startswith("docs/explanation/")],
        "Reference": [p for p in titles if p.startswith("docs/reference/")] + list(MAN.values()),
    }
    out = ""
    for name, members in groups.items():
        items = "".join(
            f'<li><a '
            f'href="{between(path, p)}"{" aria-current=page" if p == path else ""}>{html.escape(titles[p])}</a></li>'
            for p in members
        )
        out += f"<h2>{name}</h2><ul>{items}</ul>"
    return out


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - deferred</title>
<link rel="stylesheet" href="{root}style.css">
<script defer src="{root}index.js"></script>
<script defer src="{root}search.js" data-root="{root}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header><a href="{root}index.html">deferred</a>
<form role="search" hidden><label for="search">Search</label>
<input id="search" type="search" autocomplete="off"></form>
<ol id="found" aria-live="polite" aria-label="Search results"></ol></header>
<nav aria-label="Pages"><details{open}><summary>Pages</summary>{navigation}</details></nav>
<main id="content">
{body}
</main>
</body>
</html>
"""


def words(text):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))).strip()


def sections(text):
    """Parts of a page, each from a heading with an id to the next one: search finds them."""
    parts = re.split(r'<h[1-4][^>]* id="([^"]+)"[^>]*>(.*?)</h[1-4]>', text, flags=re.S)
    found = [{"id": "", "title": "", "text": words(parts[0])}]
    for id, title, part in zip(parts[1::3], parts[2::3], parts[3::3]):
        found.append({"id": html.unescape(id), "title": words(title), "text": words(part)})
    return [s for s in found if s["title"] or s["text"]]


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    bodies = {path: body(path) for path in SITE}
    titles = {path: title for path, (title, _) in bodies.items()}
    titles.update({"index.html": "Overview", "docs/index.html": "All documentation"})
    for path, (title, text) in bodies.items():
        text = text.replace(
            "<pre", '<pre tabindex="0"'
        )  # a block that is wider than the window scrolls by keyboard too
        os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
        root = between(path, ".") + "/" if os.path.dirname(path) else ""
        with open(os.path.join(folder, path), "w", encoding="utf-8") as f:
            f.write(
                PAGE.format(
                    title=html.escape(title), root=root, open=" open", navigation=navigation(path, titles), body=text
                )
            )
    index = [{"title": titles[path], "path": path, "sections": sections(text)} for path, (_, text) in bodies.items()]
    with open(os.path.join(folder, "index.js"), "w", encoding="utf-8") as f:
        f.write(f"const pages = {json.dumps(index, ensure_ascii=False)};\n")
    for name in ("style.css", "search.js"):
        shutil.copy(os.path.join(HERE, name), folder)
    os.makedirs(os.path.join(folder, "pictures"))
    for picture in glob.glob(os.path.join(TOP, "tests", "demo", "pictures", "*.webp")):
        shutil.copy(picture, os.path.join(folder, "pictures"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: site.py FOLDER")
    main(sys.argv[1])
