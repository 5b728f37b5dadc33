"""scripts/same_code.py: comments and layout are no code, and everything else is."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
from same_code import difference  # noqa: E402

SAME = [
    ("int a; // x\nint b;", "int a;\n/* y \"\n */ int b;"),
    ("#define A 1 // x\nint a;", "#define A \\\n  1 /* y */\nint a;"),
    ('f(R"(a // b)");', 'f(R"(a // b)" /* R"( */);'),
    ("int x = 1'000; // it's", "int x = 1'000;"),
    ("// a \\\n b\nint c;", "int c;"),
    ("#include <a//b.h>  // x\n", "#include <a//b.h>\n"),
    ("char c = '\"'; // \"\nint b;", "char c = '\"'; int b;"),
    ("a /**/ b", "a b"),
    ('s = "a\\\nb";', 's = "ab";'),
    ("x = a /*c*/ / b;", "x = a / b;"),
]
DIFFERENT = [
    ('f("a // b");', 'f("a // c");'),
    ('f(R"(a // b)");', 'f(R"(a // c)");'),
    ('f(R"(a\\\nb)");', 'f(R"(ab)");'),
    ('f(R"x(a)" // b)x");', 'f(R"x(a)" // c)x");'),
    ('x = "\\""; // "', 'x = "\\"a";'),
    ('f("a" "b")', 'f("ab")'),
    ("#define A(x) x", "#define A (x) x"),
    ("#define A 1\nint b;", "#define A 1 int b;"),
    ("#include <a//b>\n", "#include <a//c>\n"),
    ("a + +b", "a ++b"),
    ("a/**/b", "ab"),
    ("int a; int b;", "int a; // int b;"),
    ("1'000", "1'001"),
    ("int a;", None),
]


class SameCode(unittest.TestCase):

    def test_comments_and_layout_are_left_out(self):
        for old, new in SAME:
            self.assertEqual("", difference(old, new), (old, new))

    def test_all_else_is_compared(self):
        for old, new in DIFFERENT:
            self.assertNotEqual("", difference(old, new), (old, new))


if __name__ == "__main__":
    unittest.main()
