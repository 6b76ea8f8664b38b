#!/usr/bin/env python3
"""The check of examples must fail where an example and the compiled code differ."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_examples  # noqa: E402

ARCHITECTURE = "# The folder table\n| base | standard library only |\n"
CODE = 'auto x = open("a b");\nuse(x);\n'


class CheckExamples(unittest.TestCase):
    def check(self, header, readme, compiled):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for name, text in {"ARCHITECTURE.md": ARCHITECTURE, "base/x.h": header, "base/README.md": readme,
                               "tests/examples/a.cpp": compiled}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_examples.check(root)

    def header(self, code):
        return "// What.\n//\n" + "".join(f"//   {line}\n" for line in code.splitlines()) + "#pragma once\n"

    def test_accepts_what_is_compiled_with_other_white_space_and_comments(self):
        found, errors = self.check(self.header(CODE), f"```cpp\n{CODE}```\n",
                                   'void f() { auto x =\n open("a b");  // why\n use(x); }')
        self.assertEqual((found, errors), (2, []))

    def test_reports_a_header_that_differs_in_one_token(self):
        found, errors = self.check(self.header(CODE.replace("use", "lose")), "", CODE)
        self.assertEqual(found, 1)
        self.assertEqual(errors, ["base/x.h:3: this example stands in no file of tests/examples"])

    def test_reports_a_string_that_differs(self):
        self.assertEqual(len(self.check("", f"```cpp\n{CODE}```\n", CODE.replace("a b", "ab"))[1]), 1)

    def test_takes_indented_code_of_a_readme_for_an_example(self):
        indented = "".join(f"    {line}\n" for line in CODE.splitlines())
        self.assertEqual(self.check("", f"Text.\n\n{indented}\nMore.\n", CODE), (1, []))
        self.assertEqual(self.check("", f"Text.\n\n{indented}", CODE.replace("use", "lose"))[1],
                         ["base/README.md:3: this example stands in no file of tests/examples"])

    def test_takes_commands_of_a_readme_for_no_code(self):
        self.assertEqual(self.check("", "Text.\n\n    dlpipe train\n\n```\n    x;\n```\n", ""), (0, []))

    def test_takes_formulas_and_lists_for_no_code(self):
        self.assertEqual(self.check("//   y = 2 x,  x > 0\n//   a  {one}\n", "", ""), (0, []))


if __name__ == "__main__":
    unittest.main()
