"""Every page that a message names has its section in docs/errors.md, and every section is named."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = ("apps", "base", "launcher", "rendezvous", "trainer")
ANCHOR = r"[a-z0-9]+(?:-[a-z0-9]+)*"
# Error helpers take the page as their last argument.
HELPER = re.compile(r'\b(\w+)\([^()]*\b(?:std::string(?:_view)?|const char\*) page'
                    r'(?:\s*=\s*"[^"]*")?\)')


def arguments(text, opening):
    """Returns the text between the parenthesis at `opening` and the one that closes it."""
    depth = 0
    for part in re.finditer(r'"(?:[^"\\]|\\.)*"|[()]', text[opening:]):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if depth == 0:
            return text[opening + 1 : opening + part.start()]
    return text[opening + 1 :]


def named_pages(sources):
    """The pages that the texts of these sources name."""
    found = set()
    helpers = {helper for text in sources for helper in HELPER.findall(text)}
    for text in sources:
        found.update(re.findall(rf'\bpage\s*=\s*"({ANCHOR})"', text))
        found.update(re.findall(rf"ddprun explain ({ANCHOR})\b", text))
        for helper in helpers:
            for call in re.finditer(rf"\b{helper}\(", text):
                last = re.search(rf'"({ANCHOR})"\s*$', arguments(text, call.end() - 1))
                if last:
                    found.add(last[1])
    return found


class NamedPages(unittest.TestCase):

    def test_are_found_however_they_are_given(self):
        self.assertEqual({"a-b", "c", "d-1", "e", "f", "g"}, named_pages([
            'error.page = "a-b";',
            'text += "More: ddprun explain c\\n";',
            'Error Make(std::string what, std::string page) {',
            'return Make("(" + Name(x) + "no-page", "d-1");',
            'Error{.what = Make, .page = "e"}',
            'Error Refuse(std::string what, const char* page = "f") {',
            'return Refuse("x", "g");',
        ]))

    def test_have_a_section_each_and_every_section_is_named(self):
        sources = [path.read_text() for folder in FOLDERS
                   for path in (ROOT / folder).rglob("*") if path.suffix in (".cc", ".h", ".py")]
        text = (ROOT / "docs" / "errors.md").read_text()
        sections = re.findall(r"^### (\S+)$", text, re.MULTILINE)
        self.assertEqual(len(set(sections)), len(sections), "a section stands there twice")
        named = named_pages(sources)
        self.assertEqual(set(), named - set(sections), "without a section in docs/errors.md")
        self.assertEqual(set(), set(sections) - named, "in docs/errors.md, but named nowhere")


if __name__ == "__main__":
    unittest.main()
