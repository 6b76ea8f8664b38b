#!/usr/bin/env python3
"""The check of the tree must fail on a tree that breaks its rules: one planted defect a rule."""
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


class CheckTree(unittest.TestCase):
    def check(self, extra):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "ARCHITECTURE.md").write_text(ARCHITECTURE)
            tree = {"base/error.h": "// Errors.\n", "base/error.cpp": "#include <string>\n" * 120}
            tree.update(extra)
            for name, text in tree.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                if not name.endswith("README.md") and "noreadme" not in name:
                    (path.parent / "README.md").write_text("# room\n")
            return check_tree.main(root)

    def test_accepts_a_tree_that_keeps_the_rules(self):
        self.assertEqual(self.check({"pipeline/a.cpp": '#include "dlpipe/base/error.h"\n'}), 0)

    def test_reports_an_include_against_the_table(self):
        self.assertEqual(self.check({"engine/a.h": "// A.\n",
                                     "pipeline/a.cpp": '#include "dlpipe/engine/a.h"\n'}), 1)

    def test_reports_a_refusal_that_brings_its_own_area(self):
        code = '#include "dlpipe/base/error.h"\nthrow Error(Status(ErrorCode::kMisuse,\n    concat("[a] ", x)));\n'
        self.assertEqual(self.check({"pipeline/a.cpp": code}), 1)
        self.assertEqual(self.check({"pipeline/a.cpp": code.replace("[a] ", "")}), 0)

    def check_engine(self, extra):
        tree = {"engine/core/a.h": "// A.\n", "engine/cpu/b.h": "// B.\n",
                "engine/cpu/gemm/roofline.h": "// C.\n", **extra, "engine/README.md": ENGINE}
        return self.check(tree)

    def test_reads_the_table_of_a_room(self):
        self.assertEqual(self.check_engine({"engine/cpu/b.cpp": '#include "dlpipe/engine/core/a.h"\n'
                                                                       '#include "dlpipe/engine/cpu/b.h"\n'}), 0)
        self.assertEqual(self.check_engine({"engine/core/a.cpp": '#include "dlpipe/engine/cpu/b.h"\n'}), 1)

    def test_reports_a_file_in_no_folder_of_its_rooms_table(self):
        self.assertEqual(self.check_engine({"engine/a.cpp": "#include <string>\n"}), 1)

    def test_reports_a_folder_of_a_rooms_table_that_is_none(self):
        self.assertEqual(self.check({"engine/core/a.h": "// A.\n", "engine/README.md": ENGINE}), 1)

    def test_holds_other_rooms_to_what_a_table_shows_them(self):
        self.assertEqual(self.check_engine({"run/a.cpp": '#include "dlpipe/engine/core/a.h"\n'
                                                                '#include "dlpipe/engine/cpu/gemm/roofline.h"\n'}), 0)
        self.assertEqual(self.check_engine({"run/a.cpp": '#include "dlpipe/engine/cpu/b.h"\n'}), 1)

    def test_a_table_has_a_row_for_the_files_beside_the_folders(self):
        table = "## The folder table\n| folder | may include | from outside |\n|---|---|---|\n" \
                "| plan | nothing else of the room | nothing |\n| . | plan | loader.h |\n"
        tree = {"pipeline/plan/slot.h": "// A.\n", "pipeline/loader.h": "// B.\n", "pipeline/stream.h": "// C.\n",
                "pipeline/README.md": table}
        loader, slot, stream = (f'#include "dlpipe/pipeline/{header}"\n' for header in ("loader.h", "plan/slot.h", "stream.h"))
        self.assertEqual(self.check({"pipeline/loader.cpp": slot + stream, "run/a.cpp": loader, **tree}), 0)
        for name, text in {"pipeline/plan/slot.cpp": loader, "run/a.cpp": stream, "run/b.cpp": slot,
                           "pipeline/stages/a.cpp": slot}.items():
            self.assertEqual(self.check({name: text, **tree}), 1)

    def test_reports_third_party_out_of_its_room(self):
        self.assertEqual(self.check({"run/a.cpp": "#include <lmdb.h>\n"}), 1)
        self.assertEqual(self.check({"pipeline/a.cpp": "#include <tbb/flow_graph.h>\n"}), 1)

    def test_reports_a_standard_header_that_has_a_wrapper(self):
        self.assertEqual(self.check({"base/mutex.h": "// Locks.\n#include <mutex>\n"}), 0)
        self.assertEqual(self.check({"run/a.cpp": "#include <mutex>\n"}), 1)

    def test_reports_third_party_in_a_public_header(self):
        self.assertEqual(self.check({"run/a.h": "// A.\n#include <nlohmann/json.hpp>\n"}), 1)

    def test_reports_an_unknown_dependency(self):
        self.assertEqual(self.check({"run/a.cpp": "#include <boost/any.hpp>\n"}), 1)

    def test_reports_a_missing_readme(self):
        self.assertEqual(self.check({"run/noreadme/a.cpp": "#include <string>\n"}), 1)

    def test_reports_a_header_without_an_opening_comment(self):
        self.assertEqual(self.check({"run/a.h": "#pragma once\n"}), 1)


if __name__ == "__main__":
    unittest.main()
