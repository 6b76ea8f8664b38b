#!/usr/bin/env python3
"""The check of commands must report commands and options that the program doesn't have."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_commands  # noqa: E402

PROGRAM = """#!/bin/sh
case "$*" in
  "help train --all") echo "  -o, --out DIR  Run directory (or --output)" ;;
  "help bench ops --all") echo "  --quick" ;;
  "help launch --all") echo "  --np N" ;;
  *) exit 2 ;;
esac
"""


class CheckCommands(unittest.TestCase):
    def check(self, document):
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory) / "dlpipe"
            program.write_text(PROGRAM)
            program.chmod(0o755)
            found = []
            for line, command in check_commands.commands(document):
                found += [f"{line}: {problem}" for problem in [check_commands.what_is_wrong(str(program), command)] if problem]
            check_commands.help_of.cache_clear()
            return found

    def test_accepts_what_help_lists(self):
        self.assertEqual(self.check("A.\n\n    dlpipe train -o a --output b \\\n      --out 'c --d'   # --not this\n\n"
                                    "```sh\n$ dlpipe bench ops --quick\ndlpipe launch --np 2 -- train --out a\n```\n"), [])

    def test_reports_options_and_commands_that_are_not_there(self):
        self.assertEqual(self.check("A `dlpipe train --in a`.\n\n    dlpipe trane\n    dlpipe train \\\n      --down b\n"
                                    "\n```\nx | dlpipe launch --np 2 -- train --np 3\n```\n"),
                         ["1: 'train' has no --in", "3: there is no command 'trane'", "4: 'train' has no --down",
                          "8: 'train' has no --np"])

    def test_looks_at_no_prose(self):
        self.assertEqual(self.check("dlpipe keeps --it simple.\n"), [])


if __name__ == "__main__":
    unittest.main()
