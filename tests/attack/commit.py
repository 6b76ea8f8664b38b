"""The commit that a report is of."""

import pathlib
import subprocess


def commit_of_this_tree():
    git = ["git", "-C", str(pathlib.Path(__file__).parent)]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    changes = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=False).stdout.strip()
    return (commit or "unknown") + (", dirty" if changes else "")
