"""Each rule of scripts/check_tree.py, on small trees that break it."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import check_tree  # noqa: E402


class CheckTree(unittest.TestCase):

    def findings(self, files, exceptions=None, open_classes=()):
        """(file, rule) of what is found in a tree of these files; all are listed unless given."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            files = {"CMakeLists.txt": "\n".join(files), **files}
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            found, _ = check_tree.check(root, exceptions or {}, open_classes)
            return [(finding.path, finding.rule) for finding in found]

    def test_an_arrow_that_is_allowed_passes(self):
        self.assertEqual(
            [], self.findings({"launcher/a.cc": '#include "rendezvous/store/store.h"\n'}))

    def test_the_launcher_and_the_trainer_never_meet(self):
        for path, target in (("launcher/a.cc", "trainer/config/config.h"),
                             ("trainer/loop/a.cc", "launcher/agent.h")):
            self.assertEqual([(path, "arrow")], self.findings({path: f'#include "{target}"\n'}))

    def test_comm_and_models_know_nothing_of_parallel(self):
        for folder in ("comm", "models"):
            path = f"trainer/{folder}/a.h"
            text = '#include "trainer/parallel/reducer.h"\n'
            self.assertEqual([(path, "arrow")], self.findings({path: text}))

    def test_nothing_includes_apps(self):
        self.assertEqual([("launcher/a.cc", "arrow")],
                         self.findings({"launcher/a.cc": '#include "apps/ddprun/main.h"\n'}))

    def test_an_include_that_is_not_from_the_root_is_found(self):
        self.assertEqual([("base/a.cc", "arrow")],
                         self.findings({"base/a.cc": '#include "error.h"\n'}))

    def test_public_headers_include_only_themselves_the_standard_library_and_libtorch(self):
        path = "include/ddprun/a.h"
        text = "#include <vector>\n#include <ATen/core/Tensor.h>\n#include <ddprun/error.h>\n"
        self.assertEqual([], self.findings({path: text}))
        for target in ('"base/env.h"', "<nlohmann/json.hpp>", "<unistd.h>"):
            self.assertEqual([(path, "arrow")], self.findings({path: f"#include {target}\n"}))

    def test_code_without_libtorch_includes_only_public_headers_without_it(self):
        for header, found in (("error.h", []), ("mesh.h", [("launcher/a.cc", "torch")])):
            text = f"#include <ddprun/{header}>\n"
            self.assertEqual(found, self.findings({"launcher/a.cc": text}))
            self.assertEqual([], self.findings({"trainer/loop/a.cc": text}))

    def test_a_class_of_a_public_header_stands_in_one_source(self):
        files = {"include/ddprun/a.h": "class A {\n  void F();\n  void G();\n};\n",
                 "trainer/loop/b.cc": "void A::F() {}\n"}
        self.assertEqual([], self.findings(files))
        files["trainer/loop/c.cc"] = "void A::G() {}\n"
        self.assertEqual([("trainer/loop/c.cc", "member")], self.findings(files))

    def test_a_folder_without_a_row_is_found(self):
        self.assertEqual([("trainer/fresh/a.cc", "arrow")],
                         self.findings({"trainer/fresh/a.cc": ""}))

    def test_libtorch_stays_in_its_folders(self):
        text = "#include <ATen/core/Tensor.h>\n"
        self.assertEqual([], self.findings({"trainer/models/a.h": text}))
        for path in ("trainer/config/a.cc", "rendezvous/a.cc", "trainer/comm/node_group.cc"):
            self.assertEqual([(path, "torch")], self.findings({path: text}))

    def test_all_of_libtorch_at_once_is_found(self):
        self.assertEqual([("trainer/models/a.cc", "torch")],
                         self.findings({"trainer/models/a.cc": "#include <torch/torch.h>\n"}))

    def test_one_file_removes_folders(self):
        code = "void F() { std::filesystem::remove_all(path); }\n"
        self.assertEqual([("base/a.cc", "removal")], self.findings({"base/a.cc": code}))
        self.assertEqual([], self.findings({"base/owned_folder.cc": code}))

    def test_the_core_keeps_to_its_lines(self):
        page = "| read | lines |\n| --- | --- |\n| `base/a.{h,cc}`, `base/b.h` | 4 |\n"
        files = {"docs/core.md": page, "base/a.h": "1\n", "base/a.cc": "1\n2\n",
                 "base/b.h": "1\n"}
        self.assertEqual([], self.findings(files))
        self.assertEqual([("docs/core.md", "core")],
                         self.findings({**files, "base/b.h": "1\n2\n"}))
        del files["base/a.cc"]  # a row that names a file that has moved
        self.assertEqual([("docs/core.md", "core")], self.findings(files))

    def test_the_core_has_a_limit(self):
        row = "| `base/a.h` | 3000 |\n"
        files = {"docs/core.md": row, "base/a.h": "1\n"}
        self.assertEqual([], self.findings(files))
        files["docs/core.md"] = row * 2
        self.assertEqual([("docs/core.md", "core")], self.findings(files))

    def test_the_loop_stays_small(self):
        found = [("trainer/loop/CMakeLists.txt", "modules")]
        files = {f"trainer/loop/m{number}.h": "" for number in range(15)}
        self.assertEqual([], self.findings(files))
        self.assertEqual(found, self.findings({**files, "trainer/loop/m15.h": ""}))
        for number in range(4):
            files[f"trainer/loop/m{number}.h"] = f'#include "trainer/loop/m{number + 1}.h"\n'
        self.assertEqual([], self.findings(files))
        files["trainer/loop/m4.h"] = '#include "trainer/loop/m5.h"\n'
        self.assertEqual(found, self.findings(files))

    def test_the_library_knows_no_trainer(self):
        for folder in ("models", "job", "report", "strategies"):
            text = f'#include "trainer/{folder}/a.h"\n'
            self.assertEqual([("trainer/parallel/a.h", "arrow")],
                             self.findings({"trainer/parallel/a.h": text}))

    def test_pages_of_errors_are_not_compared(self):
        for code in ('if (error.page == "a") return;\n', "return kPage != failed->page;\n",
                     "return kA == done.error().page;\n"):
            self.assertEqual([("base/a.cc", "page")], self.findings({"base/a.cc": code}))
        self.assertEqual([], self.findings({
            "base/a.cc": "if (page == nullptr) error.page = kPage;\n",
            "tests/a.cc": 'EXPECT_TRUE(error.page == "a");\n'}))

    def test_a_member_function_stands_in_the_pair_of_its_class(self):
        header = "class A final : public B {\n  struct C;\n  void F();\n};\n"
        for code in ("void A::F() {}\n", "A::A() : a(1) {}\n", "A::~A() = default;\n",
                     "std::vector<A> A::All(int a) {}\n", "bool A::operator==(const A& a) {}\n"):
            files = {"base/a.h": header, "base/a.cc": code, "base/a_more.cc": code}
            self.assertEqual([("base/a_more.cc", "member")], self.findings(files))
            self.assertEqual([], self.findings(files, open_classes=["A"]))

    def test_only_definitions_of_classes_with_a_header_are_members(self):
        self.assertEqual([], self.findings({
            "base/a.h": "class A {\n};\n", "base/b.h": "class A;\nvoid F();\n", "base/b.cc":
            "struct A::C {\n  void F();\n};\nvoid A::C::F() {\n  A::G();\n}\n"
            "const int kA = A::G();\n// void A::F()\nvoid base::F() {}\n"}))

    def test_an_open_class_that_keeps_the_rule_leaves_the_list(self):
        files = {"base/a.h": "class A {\n};\n", "base/a.cc": "void A::F() {}\n"}
        self.assertEqual([("scripts/check_tree.py", "open class")],
                         self.findings(files, open_classes=["A"]))

    def test_long_lines_files_and_functions_are_found(self):
        self.assertEqual([("base/a.cc", "line length")],
                         self.findings({"base/a.cc": "//" + "x" * 99 + "\n"}))
        self.assertEqual([("base/a.h", "file length")], self.findings({"base/a.h": "\n" * 151}))
        self.assertEqual([], self.findings({"base/a.cc": "\n" * 400}))
        body = "int F(int a) {\n" + "  ++a;\n" * 69 + "}\n"
        self.assertEqual([("base/a.cc", "function length")], self.findings({"base/a.cc": body}))

    def test_the_length_of_a_function_is_not_that_of_its_class_or_namespace(self):
        method = "  int F() const {\n    if (a) {\n      b();\n    }\n  }\n"
        text = "namespace x {\nclass A : public B {\n" + method * 20 + "};\n}\n"
        self.assertEqual([], self.findings({"base/a.cc": text}))

    def test_braces_in_comments_and_literals_do_not_count(self):
        text = "void F() { // {\n  a('{', \"{\", 1'000);\n}\n" + "int x;\n" * 90
        self.assertEqual([], self.findings({"base/a.cc": text}))

    def test_a_source_that_no_list_names_is_found(self):
        files = {"CMakeLists.txt": "other_a.cc", "base/a.cc": ""}
        self.assertEqual([("base/a.cc", "unlisted")], self.findings(files))

    def test_a_header_of_tests_must_be_included_by_one(self):
        header = {"tests/base/fixture.h": ""}
        self.assertEqual([("tests/base/fixture.h", "unlisted")], self.findings(header))
        test = {"tests/base/a_test.cc": '#include "tests/base/fixture.h"\n'}
        self.assertEqual([], self.findings({**header, **test}))

    def test_notes_say_their_type(self):
        note = "TO" + "DO"
        self.assertEqual([("base/a.cc", "note")], self.findings({"base/a.cc": f"// {note}: x\n"}))
        self.assertEqual([], self.findings({"base/a.cc": f"// {note}(perf): x\n"}))

    def test_words_that_name_nothing_are_not_in_comments(self):
        for text in ("// Likewise.\n", "int a;  // as of B\n", "/* whoever\n came */\n",
                     "// not any\n  // more\n", "a('\"');  // as of B\n",
                     'f("\\"");  // any more\n'):
            self.assertEqual([("launcher/a.cc", "word")], self.findings({"launcher/a.cc": text}))
        self.assertEqual([], self.findings({
            "launcher/a.cc": 'f("// likewise");\ng(R"(\n// any more)");\n// As often, many more.\n',
            "tests/a.cc": "// whoever\n"}))

    def test_an_exception_silences_its_rule_and_must_be_needed(self):
        exceptions = {("base/a.h", "file length"): "a table"}
        self.assertEqual([], self.findings({"base/a.h": "\n" * 151}, exceptions))
        self.assertEqual([("base/a.h", "exception")], self.findings({"base/a.h": ""}, exceptions))


if __name__ == "__main__":
    unittest.main()
