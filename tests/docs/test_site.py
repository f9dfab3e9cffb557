"""The site of `make site`: every link leads somewhere, search finds pages, and a browser shows each page well."""

import html.parser
import json
import os
import shutil
import subprocess
import sys

import pytest

import harness
import pg

PLACE = os.path.join(pg.TOP, "build", "browser")


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.headings = [], [], []
        with open(path, encoding="utf-8") as f:
            self.feed(f.read())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes[name] for name in ("href", "src") if name in attributes]
        self.headings += [tag] if tag == "h1" else []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed: make deps")
    folder = str(tmp_path_factory.mktemp("site"))
    subprocess.run([sys.executable, "-B", os.path.join(pg.TOP, "docs", "site", "site.py"), folder], check=True)
    return folder


def pages_of(site):
    files = [os.path.join(folder, name) for folder, _, names in os.walk(site) for name in names]
    return {os.path.relpath(path, site): Page(path) for path in files if path.endswith(".html")}


def test_every_link_leads_somewhere(site):
    pages = pages_of(site)
    assert len(pages) > 35
    for name, page in pages.items():
        assert page.headings == ["h1"], name
        for link in page.links:
            if link.startswith(("http:", "https:", "mailto:")):
                continue
            file, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(name), file)) if file else name
            assert os.path.exists(os.path.join(site, target)), (name, link)
            assert not anchor or anchor in pages[target].ids, (name, link)


def test_every_page_can_be_reached_from_every_page_and_found_by_search(site):
    pages = pages_of(site)
    for name, page in pages.items():
        reached = {os.path.normpath(os.path.join(os.path.dirname(name), link.partition("#")[0])) for link in page.links}
        assert set(pages) <= reached, name
    with open(os.path.join(site, "index.js"), encoding="utf-8") as f:
        index = json.loads(f.read().removeprefix("const pages = ").rstrip(";\n"))
    assert {entry["path"] for entry in index} == set(pages)


@pytest.mark.skipif(not os.environ.get("DEFERRED_BROWSER"), reason="takes a browser: make check-web")
def test_a_browser_shows_each_page_well(site):
    script = shutil.copy(os.path.join(pg.TOP, "tests", "docs", "site.mjs"), PLACE)
    done = harness.run(["node", script, site, *sorted(pages_of(site))], timeout=1800)
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[-1]) == [], done.stdout + done.stderr
