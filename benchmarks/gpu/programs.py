"""Where the programs are that a check runs, with which libraries, and how one is run. Standard library only.

A bundle (scripts/gpu_bundle) has bin/ and lib/; a build has them spread. CUDA's own libraries are the machine's: the
toolkit's, or those that PyTorch's packages brought. Only our programs get the library path: Python keeps its own.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time

# Test programs that hold tests of a real device; GoogleTest's filter picks them out.
DEVICE_TESTS = "*_device_test"
OTHER_TESTS = {"base_test": "*Device*"}
WITHOUT_A_DEVICE = {"simulated_device_test"}


@dataclasses.dataclass
class Outcome:
    """`code` is None where the time was over and the program was ended."""

    code: int | None
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self):
        return self.code == 0

    def why(self):
        """What went wrong, in a line."""
        if self.code is None:
            return f"not finished after {self.seconds:.0f} s"
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        return f"exit status {self.code}: {(lines or ['no message'])[-1][:300]}"


def run(command, timeout_s, log=None):
    """One run to its end, or until `timeout_s`; with `log`, what it printed is kept there."""
    started = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    code = None
    try:
        stdout, stderr = process.communicate(timeout=max(0.1, timeout_s))
        code = process.returncode
    except BaseException as interruption:  # whatever ends this program ends the run with its children
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        if not isinstance(interruption, subprocess.TimeoutExpired):
            raise
    if log:
        log.write_text(f"$ {' '.join(str(word) for word in command)}\n{stdout}\n{stderr}\n(exit status {code})\n")
    return Outcome(code, stdout, stderr, time.monotonic() - started)


class Programs:
    def __init__(self, folder, python=sys.executable):
        """`folder`: a bundle's, or a build's; `python`: whose packages may hold CUDA's libraries."""
        self.folder = folder
        self.in_bundle = (folder / "lib").is_dir() and (folder / "bin").is_dir()
        own = [folder.resolve() / "lib"] if self.in_bundle else []
        given = [pathlib.Path(path) for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
        self.libraries = [*own, *given, *cuda_libraries(package_folders(python))]

    def command(self, path, *options):
        words = [str(path), *[str(option) for option in options]]
        if not self.libraries:
            return words
        return ["env", "LD_LIBRARY_PATH=" + ":".join(str(path) for path in self.libraries), *words]

    def dlpipe(self, *options):
        return self.command(self.folder / "bin" / "dlpipe", *options)

    def tests(self):
        """[(path, filter)] of the test programs that have tests of a device."""
        root = self.folder / ("bin" if self.in_bundle else "tests")
        found = {path.name: path for path in sorted(root.rglob("*_test")) if is_program(path)}
        rows = [(path, "*") for path in found.values() if path.match(DEVICE_TESTS)]
        rows += [(found[name], pattern) for name, pattern in OTHER_TESTS.items() if name in found]
        return sorted(row for row in rows if row[0].name not in WITHOUT_A_DEVICE)


def is_program(path):
    return path.is_file() and os.access(path, os.X_OK)


def package_folders(python):
    """Where that Python looks for packages, and its prefix's lib (conda's place for libraries)."""
    words = "import sys; print('\\n'.join([*sys.path, sys.prefix]))"
    said = run([python, "-c", words], 30).stdout
    return [pathlib.Path(line) for line in dict.fromkeys(said.splitlines()) if line]


def cuda_libraries(packages, toolkits=pathlib.Path("/usr/local")):
    """Folders that hold cuBLAS or cuDNN: the toolkit's, then what packages below `packages` brought."""
    folders = sorted(toolkits.glob("cuda*/lib64"))
    for base in packages:
        folders += [*sorted(base.glob("nvidia/*/lib")), base / "torch/lib", base / "lib"]
    return [
        folder
        for folder in dict.fromkeys(path.resolve() for path in folders)
        if any(folder.glob("libcublas.so.*")) or any(folder.glob("libcudnn.so.*"))
    ]
