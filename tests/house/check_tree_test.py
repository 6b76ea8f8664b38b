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


class CheckTree(unittest.TestCase):
    def check(self, extra):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "ARCHITECTURE.md").write_text(ARCHITECTURE)
            tree = {"dlpipe/base/error.h": "// Errors.\n", "dlpipe/base/error.cpp": "#include <string>\n" * 120}
            tree.update(extra)
            for name, text in tree.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                if not name.endswith("README.md") and "noreadme" not in name:
                    (path.parent / "README.md").write_text("# room\n")
            return check_tree.main(root)

    def test_accepts_a_tree_that_keeps_the_rules(self):
        self.assertEqual(self.check({"dlpipe/pipeline/a.cpp": '#include "dlpipe/base/error.h"\n'}), 0)

    def test_reports_an_include_against_the_table(self):
        self.assertEqual(self.check({"dlpipe/engine/a.h": "// A.\n",
                                     "dlpipe/pipeline/a.cpp": '#include "dlpipe/engine/a.h"\n'}), 1)

    def test_reports_third_party_out_of_its_room(self):
        self.assertEqual(self.check({"dlpipe/run/a.cpp": "#include <lmdb.h>\n"}), 1)
        self.assertEqual(self.check({"dlpipe/pipeline/a.cpp": "#include <tbb/flow_graph.h>\n"}), 1)

    def test_reports_third_party_in_a_public_header(self):
        self.assertEqual(self.check({"dlpipe/run/a.h": "// A.\n#include <nlohmann/json.hpp>\n"}), 1)

    def test_reports_an_unknown_dependency(self):
        self.assertEqual(self.check({"dlpipe/run/a.cpp": "#include <boost/any.hpp>\n"}), 1)

    def test_reports_a_missing_readme(self):
        self.assertEqual(self.check({"dlpipe/run/noreadme/a.cpp": "#include <string>\n"}), 1)

    def test_reports_a_header_without_an_opening_comment(self):
        self.assertEqual(self.check({"dlpipe/run/a.h": "#pragma once\n"}), 1)


if __name__ == "__main__":
    unittest.main()
