"""Every link from a page to a file or a heading of the project leads to one."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(page):
    """The anchors of a page's headings, as public hosts of git repositories make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def broken_links(path, text):
    """The links of a page at `path` that lead nowhere."""
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", CODE.sub("", text)):
        if re.match(r"\w+:", target):
            continue
        file = path.parent / target if target else path
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            yield target + (f"#{anchor}" if anchor else "")


class Links(unittest.TestCase):

    def test_that_lead_nowhere_are_found(self):
        page = ROOT / "docs" / "library.md"
        text = ("[a](no-such.md) [b](errors.md#no-such) [c](#nor-this) `[d](code.md)` "
                "[e](https://example.org/x) [f](errors.md#unknown-key) [g](plots)")
        self.assertEqual(["no-such.md", "errors.md#no-such", "#nor-this"],
                         list(broken_links(page, text)))

    def test_of_pages_lead_to_files_and_headings(self):
        self.assertGreater(len(PAGES), 30)
        broken = {page.name: found for page in PAGES
                  if (found := list(broken_links(page, page.read_text())))}
        self.assertEqual({}, broken)


if __name__ == "__main__":
    unittest.main()
