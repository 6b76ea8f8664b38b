#!/usr/bin/env python3
"""The check of the tree must fail on a tree that breaks its rules, and say which: one planted defect a rule."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_tree  # noqa: E402

ARCHITECTURE = """# The folder table
| folder | may include |
|---|---|
| base | standard library only |
| io/data, io/formats | base |
| augment | base |
| pipeline | base, io/data, augment |
| engine | base, io/formats |
| run | all but cli |
| cli | all |
"""

ENGINE = """# engine
## The folder table
| folder | may include | from outside |
|---|---|---|
| core | nothing else of the engine | all |
| cpu | core | roofline.h |
"""


CPU = """# cpu
## The folder table
| folder | may include |
|---|---|
| . | gemm |
| gemm | nothing else here |
"""


class CheckTree(unittest.TestCase):
    def check(self, extra):
        """What is wrong with a tree of these files."""
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "ARCHITECTURE.md").write_text(ARCHITECTURE)
            tree = {"base/error.h": "// Errors.\n", "base/error.cpp": "#include <string>\n" * 120}
            tree.update(extra)
            for name, text in tree.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                if not name.endswith("README.md") and "noreadme" not in name and not name.startswith("include/"):
                    (path.parent / "README.md").write_text("# room\n")
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                code = check_tree.main(root, every_permission_is_used=False)  # a few files use none of most libraries
            *errors, _ = said.getvalue().splitlines()
            self.assertEqual(code, 1 if errors else 0)
            return errors

    def test_accepts_a_tree_that_keeps_the_rules(self):
        self.assertEqual(self.check({"pipeline/a.cpp": '#include "base/error.h"\n'}), [])

    def test_reports_an_include_against_the_table(self):
        self.assertEqual(self.check({"engine/a.h": "// A.\n", "pipeline/a.cpp": '#include "engine/a.h"\n'}),
                         ["pipeline/a.cpp:1: pipeline may not include engine/a.h (pipeline may include base, io/data, augment)"])

    def test_reports_an_include_of_nothing(self):
        self.assertEqual(self.check({"pipeline/a.cpp": '#include "base/none.h"\n#include "b.h"\n'}),
                         ["pipeline/a.cpp:1: base/none.h does not exist",
                          'pipeline/a.cpp:2: "b.h": include headers of the tree by their path from the root'])

    def test_reports_a_refusal_that_brings_its_own_area(self):
        code = '#include "base/error.h"\nthrow Error(Status(ErrorCode::kMisuse,\n    concat("[a] ", x)));\n'
        self.assertEqual(self.check({"pipeline/a.cpp": code}),
                         ["pipeline/a.cpp:2: misuse() and refuse() of dlpipe/error.h put the area before a message"])
        self.assertEqual(self.check({"pipeline/a.cpp": code.replace("[a] ", "")}), [])
        with_python = {"ARCHITECTURE.md": ARCHITECTURE + "| python | all |\n"}
        self.assertEqual(self.check({"python/a.cpp": code, **with_python}),
                         ["python/a.cpp:2: misuse() and refuse() of dlpipe/error.h put the area before a message"])

    def test_reports_what_depends_on_a_locale(self):
        for code in ("std::ostringstream out;\n", "std::stringstream s;\n", "std::ofstream f(p);\n", "std::cout << 1;\n",
                     "x = std::stod(text);\n", "x = strtod(text, &end);\n", "x = std::stoull(t);\n", "x = atoi(t);\n",
                     'std::snprintf(b, n, "%.1e", x);\n', 'std::snprintf(b, n,\n  "a %d %-8.3f", i, x);\n', 'setlocale(1, "");\n'):
            found = self.check({"pipeline/a.cpp": code})
            self.assertEqual([one.split(": ")[0] for one in found], ["pipeline/a.cpp:1"], code)
        for code in ("#include <fstream>\nstd::ifstream f(p);\n", 'std::snprintf(b, n, "%d %s", i, s);\n', "x.atoi_like(t);\n"):
            self.assertEqual(self.check({"pipeline/a.cpp": code}), [], code)

    def check_engine(self, extra):
        tree = {"engine/core/a.h": "// A.\n", "engine/cpu/b.h": "// B.\n",
                "engine/cpu/gemm/roofline.h": "// C.\n", **extra, "engine/README.md": ENGINE, "engine/cpu/README.md": CPU}
        return self.check(tree)

    def test_reports_folders_without_a_table(self):
        tree = {"engine/core/a.h": "// A.\n", "engine/cpu/gemm/b.h": "// B.\n"}
        self.assertEqual(self.check(tree), ["engine: has folders, and no folder table in its README.md",
                                            "engine/cpu: has folders, and no folder table in its README.md",
                                            "engine: has no README.md"])
        self.assertEqual(self.check({"io/data/a.h": "// A.\n"}), [])  # io is no room of the table
        self.assertEqual(self.check({"io/data/codec/a.h": "// A.\n"}),
                         ["io/data: has folders, and no folder table in its README.md", "io/data: has no README.md"])

    def check_two_folders(self, core, cpu, below=""):
        table = "## The folder table\n| folder | may include |\n|---|---|\n" \
                f"| core | {core} |\n| cpu | {cpu} |\n{below}"
        return self.check({"engine/core/a.h": "// A.\n", "engine/core/b.h": '// B.\n#include "engine/cpu/d.h"\n',
                           "engine/cpu/c.cpp": '#include "engine/core/a.h"\n', "engine/cpu/d.h": "// D.\n",
                           "engine/README.md": table})

    def test_reports_folders_that_include_each_other_in_a_circle(self):
        self.assertEqual(self.check_two_folders("cpu", "core"),
                         ["engine: core, cpu include each other in a circle: move what both need, or list the headers of "
                          "one direction in the folder table, with the reason under it"])

    def test_headers_that_the_table_lists_make_no_circle(self):
        self.assertEqual(self.check_two_folders("cpu", "core/a.h"), [])
        self.assertEqual(self.check_two_folders("cpu", "core/b.h"),
                         ["engine/cpu/c.cpp:1: engine/cpu may not include engine/core/a.h (engine/cpu may include core/b.h)"])

    def test_a_second_table_under_the_heading_says_nothing_of_includes(self):
        may_not = "engine/cpu/c.cpp:1: engine/cpu may not include engine/core/a.h (engine/cpu may include nothing)"
        self.assertEqual(self.check_two_folders("cpu", "nothing", "\n| folder | holds |\n|---|---|\n| cpu | core |\n"),
                         [may_not])

    def test_reads_the_table_of_a_room(self):
        self.assertEqual(self.check_engine({"engine/cpu/b.cpp": '#include "engine/core/a.h"\n'
                                                                '#include "engine/cpu/b.h"\n'}), [])
        self.assertEqual(self.check_engine({"engine/core/a.cpp": '#include "engine/cpu/b.h"\n'}),
                         ["engine/core/a.cpp:1: engine/core may not include engine/cpu/b.h "
                          "(engine/core may include nothing else of the engine)"])

    def test_reports_a_file_in_no_folder_of_its_rooms_table(self):
        self.assertEqual(self.check_engine({"engine/a.cpp": "#include <string>\n"}),
                         ["engine/a.cpp: lies in no folder of the table of engine"])

    def test_reports_a_folder_of_a_rooms_table_that_is_none(self):
        self.assertEqual(self.check({"engine/core/a.h": "// A.\n", "engine/README.md": ENGINE}),
                         ["engine/README.md: the table names cpu, which is no folder"])

    def test_holds_other_rooms_to_what_a_table_shows_them(self):
        self.assertEqual(self.check_engine({"run/a.cpp": '#include "engine/core/a.h"\n'
                                                         '#include "engine/cpu/gemm/roofline.h"\n'}), [])
        self.assertEqual(self.check_engine({"run/a.cpp": '#include "engine/cpu/b.h"\n'}),
                         ["run/a.cpp:1: from outside engine only roofline.h of engine/cpu may be included, not engine/cpu/b.h"])

    def test_a_table_has_a_row_for_the_files_beside_the_folders(self):
        table = "## The folder table\n| folder | may include | from outside |\n|---|---|---|\n" \
                "| plan | nothing else of the room | nothing |\n| . | plan | loader.h |\n"
        tree = {"pipeline/plan/slot.h": "// A.\n", "pipeline/loader.h": "// B.\n", "pipeline/stream.h": "// C.\n",
                "pipeline/README.md": table}
        loader, slot, stream = (f'#include "pipeline/{header}"\n' for header in ("loader.h", "plan/slot.h", "stream.h"))
        self.assertEqual(self.check({"pipeline/loader.cpp": slot + stream, "run/a.cpp": loader, **tree}), [])
        for name, text, error in (
                ("pipeline/plan/slot.cpp", loader,
                 ":1: pipeline/plan may not include pipeline/loader.h (pipeline/plan may include nothing else of the room)"),
                ("run/a.cpp", stream, ":1: from outside pipeline only loader.h of pipeline may be included, not pipeline/stream.h"),
                ("run/b.cpp", slot,
                 ":1: from outside pipeline only nothing of pipeline/plan may be included, not pipeline/plan/slot.h"),
                ("pipeline/stages/a.cpp", slot, ": lies in no folder of the table of pipeline")):
            self.assertEqual(self.check({name: text, **tree}), [name + error])

    def test_reports_third_party_out_of_its_room(self):
        self.assertEqual(self.check({"run/a.cpp": "#include <lmdb.h>\n"}),
                         ["run/a.cpp:1: <lmdb.h> belongs in io/data/ only"])
        self.assertEqual(self.check({"pipeline/a.cpp": "#include <tbb/flow_graph.h>\n"}),
                         ["pipeline/a.cpp:1: <tbb/flow_graph.h> belongs in pipeline/pipeline.cpp only"])

    def test_reports_a_permission_that_nothing_uses(self):
        used = set()
        check_tree.check_third_party("lmdb.h", "io/data/a.cpp", [], "", used)
        unused = check_tree.unused_permissions(used)
        self.assertNotIn("THIRD_PARTY lets io/data/ include <lmdb.h>, which nothing there does: take it out", unused)
        self.assertIn("THIRD_PARTY lets io/data/ include <png.h>, which nothing there does: take it out", unused)

    def test_reports_a_standard_header_that_has_a_wrapper(self):
        self.assertEqual(self.check({"base/mutex.h": "// Locks.\n#include <mutex>\n"}), [])
        self.assertEqual(self.check({"run/a.cpp": "#include <mutex>\n"}),
                         ["run/a.cpp:1: include base/mutex.h instead of <mutex>: "
                          "clang holds its users to its rules (scripts/test --only locks)"])

    def test_reports_third_party_in_a_header_that_other_modules_include(self):
        include = "// A.\n#include <nlohmann/json.hpp>\n"
        self.assertEqual(self.check({"io/formats/a.cpp": include, "io/formats/a-inl.h": include}), [])
        self.assertEqual(self.check({"io/formats/a.h": include}),
                         ["io/formats/a.h:2: a header that other modules include has third-party <nlohmann/json.hpp>; move it into a .cpp"])

    def test_reports_an_unknown_dependency(self):
        self.assertEqual(self.check({"run/a.cpp": "#include <poco/any.hpp>\n"}),
                         ["run/a.cpp:1: <poco/any.hpp> is not a known dependency; add it to THIRD_PARTY with its room"])

    def test_reports_a_missing_readme(self):
        self.assertEqual(self.check({"pipeline/noreadme.cpp": "#include <string>\n"}), ["pipeline: has no README.md"])
        table = "## The folder table\n| folder | may include |\n|---|---|\n| noreadme | nothing |\n"
        self.assertEqual(self.check({"run/noreadme/a.cpp": "#include <string>\n", "run/README.md": table}), [])

    def test_reports_a_header_without_an_opening_comment(self):
        self.assertEqual(self.check({"run/a.h": "#pragma once\n"}),
                         ["run/a.h: a header opens with a comment that says what it is"])

    def check_public(self, extra, rows="| `dlpipe/error.h` | base |\n| `dlpipe/tensor.h` | engine |\n"):
        table = "## Public headers\n| public header | home | what |\n|---|---|---|\n" + rows
        return self.check({"ARCHITECTURE.md": ARCHITECTURE + table, "include/dlpipe/error.h": "// Errors.\n#include <string>\n",
                           "include/dlpipe/tensor.h": '// A tensor.\n#include "dlpipe/error.h"\n', "engine/a.cpp": '#include "dlpipe/tensor.h"\n', **extra})

    def test_a_public_header_counts_as_one_of_its_home(self):
        self.assertEqual(self.check_public({}), [])
        self.assertEqual(self.check_public({"pipeline/a.cpp": '#include "dlpipe/error.h"\n#include "dlpipe/tensor.h"\n'}),
                         ["pipeline/a.cpp:2: pipeline may not include engine/tensor.h (pipeline may include base, io/data, augment)"])
        self.assertEqual(self.check_public({"include/dlpipe/error.h": '// Errors.\n#include "dlpipe/tensor.h"\n'}),
                         ["include/dlpipe/error.h:2: base may not include engine/tensor.h (base may include standard library only)"])

    def test_public_headers_include_public_ones_alone(self):
        alone = "a public header includes public headers and the C++ standard library alone, not"
        for include, name in (('"engine/b.h"', "engine/b.h"), ("<lmdb.h>", "lmdb.h"), ("<hwy/base.h>", "hwy/base.h")):
            self.assertEqual(self.check_public({"engine/b.h": "// B.\n",
                                                "include/dlpipe/tensor.h": f"// A tensor.\n#include {include}\n"}),
                             [f"include/dlpipe/tensor.h:2: {alone} {name}"])
        self.assertEqual(self.check_public({"engine/a.cpp": '#include "dlpipe/none.h"\n'}),
                         ["engine/a.cpp:1: dlpipe/none.h is not a public header"])

    def test_the_table_and_the_directory_name_the_same_public_headers(self):
        self.assertEqual(self.check_public({"include/dlpipe/b.h": "// B.\n"}),
                         ["include/dlpipe/b.h: is not in the table of public headers"])
        self.assertEqual(self.check_public({}, "| `dlpipe/error.h` | base |\n| `dlpipe/tensor.h` | engine |\n| `dlpipe/b.h` | run |\n"),
                         ["ARCHITECTURE.md: include/dlpipe/b.h does not exist"])
        self.assertEqual(self.check_public({"include/dlpipe/a/b.h": "// B.\n"}),
                         ["include/dlpipe/a/b.h: public headers are beside each other, named *.h"])

    def test_a_public_header_is_read_in_one_sitting(self):
        self.assertEqual(self.check_public({"include/dlpipe/error.h": "// Errors.\n" * 401}),
                         ["include/dlpipe/error.h: has 401 lines; a public header has at most 400"])
        self.assertEqual(self.check_public({"include/dlpipe/error.h": "#pragma once\n"}),
                         ["include/dlpipe/error.h: a header opens with a comment that says what it is"])


if __name__ == "__main__":
    unittest.main()
