#!/usr/bin/env python3
"""The check of documents must report a wrong word and a link that leads nowhere, and leave code alone."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_documents  # noqa: E402


class CheckDocuments(unittest.TestCase):
    def check(self, **documents):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for name, text in documents.items():
                path = root / {"README": "README.md", "guide": "docs/guide/a.md", "decision": "docs/decisions/001-a.md",
                               "module": "base/README.md"}[name]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_documents.check(root)[1]

    def test_accepts_plain_words_and_links_that_lead_somewhere(self):
        self.assertEqual(self.check(README="# A\n\nAn image. [It](docs/guide/a.md#two-words) [b](https://b.org) [c](#a)\n",
                                    guide="# Two words\n\n[up](../../README.md)\n"), [])

    def test_reports_a_wrong_word_with_its_line(self):
        self.assertEqual(self.check(README="# A\n\nGood.\nPictures\nare written anew.\n"),
                         ["README.md:4: 'Pictures': write image", "README.md:5: 'anew': write again"])

    def test_reports_words_across_a_line_break(self):
        self.assertEqual(self.check(README="They are read as\nthey are.\n"), [])
        self.assertEqual(self.check(README="They stay as they are.\n"), ["README.md:1: 'as they are': write unchanged"])

    def test_leaves_what_only_looks_alike(self):
        self.assertEqual(self.check(README="There is no error. It is no longer here. Standard, besides, retold, mushrooms.\n"), [])

    def test_leaves_code_and_targets_alone(self):
        readme = "`picture` ``a ` picture``\n\n    dlpipe picture\n\n```\npicture anew\n```\n\n[a](docs/guide/a.md#picture)\n"
        self.assertEqual(self.check(README=readme, guide="# `picture`\n"), [])

    def test_looks_at_no_module_yet(self):
        self.assertEqual(self.check(decision="# 001: Rooms\n", module="A picture.\n"),
                         ["docs/decisions/001-a.md:1: 'Rooms': write module, directory"])

    def test_reports_links_that_lead_nowhere_in_any_document(self):
        self.assertEqual(self.check(module="[a](none.md)\n\n[b](#none)\n"),
                         ["base/README.md:1: the link none.md leads nowhere", "base/README.md:3: README.md has no heading #none"])

    def test_reports_a_source_that_does_not_exist(self):
        self.assertEqual(self.check(module="`base/a.h` and `../base/README.md`, `ops/NAME.cpp`\n\n## Adding one\n\n`base/b.h`\n"),
                         ["base/README.md:1: there is no file base/a.h"])
        self.assertEqual(self.check(decision="`base/a.h` went.\n"), [])

    def test_leaves_the_table_of_words_alone(self):
        self.assertEqual(self.check(README="\n| not | but |\n|---|---|\n| picture | image |\n\nA picture.\n"),
                         ["README.md:6: 'picture': write image"])


if __name__ == "__main__":
    unittest.main()
