#!/usr/bin/env python3
"""machines_test.py SOURCE_DIR: what the scripts say on machines that lack something, and to arguments that they don't know;
what of the caller's they leave alone. scripts/check_machines tries the machines and more for real, in a chroot."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".")


def program(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def sourced(commands, **environment):
    """Runs bash commands behind `. scripts/environment`."""
    return subprocess.run(["bash", "-euc", f". scripts/environment; {commands}", "scripts/quickstart"], cwd=SOURCE, text=True,
                          capture_output=True, env={**os.environ, **environment})


class Machines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_jobs_follow_cores_and_memory(self):
        jobs = subprocess.run([SOURCE / "scripts/jobs"], text=True, capture_output=True, check=True).stdout
        self.assertGreaterEqual(int(jobs), 1)
        self.assertLessEqual(int(jobs), len(os.sched_getaffinity(0)))

    def test_an_old_cmake_is_named_in_one_line(self):
        program(self.folder, "cmake", "echo 'cmake version 3.18.4'")
        done = sourced("check_cmake", PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Aquickstart: .*/cmake is CMake 3\.18\.4, dlpipe needs 3\.22 .*\n\Z")

    def test_a_newer_cmake_passes(self):
        program(self.folder, "cmake", "echo 'cmake version 4.3.4'")
        self.assertEqual(sourced("check_cmake", PATH=f"{self.folder}:{os.environ['PATH']}").returncode, 0)

    def test_conda_is_left_out_and_that_is_said(self):
        (self.folder / "conda-meta").mkdir()
        program(self.folder / "bin", "c++", "exit 1")
        done = sourced('leave_conda_out; echo "PATH=$PATH CXX=${CXX:-} PREFIX=${CONDA_PREFIX:-}"',
                       PATH=f"{self.folder}/bin:{os.environ['PATH']}", CXX=f"{self.folder}/bin/c++",
                       CONDA_PREFIX=str(self.folder))
        said, left = done.stdout.splitlines()
        self.assertIn("conda is left out", said)
        self.assertNotIn(str(self.folder), left)
        self.assertNotIn("conda", sourced("leave_conda_out", CONDA_PREFIX="").stdout)

    def test_without_conda_the_compiler_stays_whatever_PATH_looks_like(self):
        for path in (":" + os.environ["PATH"], os.environ["PATH"] + ":"):
            done = sourced('leave_conda_out; echo "CXX=$CXX"', PATH=path, CXX="mine", CONDA_PREFIX="")
            self.assertEqual(done.stdout, "CXX=mine\n")

    def test_a_machine_that_can_have_no_chroot_says_why(self):
        for name in ("bash", "env", "dirname", "id"):
            path = subprocess.run(["sh", "-c", f"command -v {name}"], text=True, capture_output=True).stdout.strip()
            (self.folder / name).symlink_to(path)
        done = subprocess.run([SOURCE / "scripts/test_release", "trixie", "--cache", self.folder / "cache"], text=True,
                              capture_output=True, env={"PATH": str(self.folder), "HOME": str(self.folder)})
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertRegex(done.stdout, r"\Arelease trixie: not run here: .*(root|debootstrap).*\n\Z")

    def test_quickstart_leaves_a_folder_alone_that_it_has_not_made(self):
        work = self.folder / "caller"
        (work / "run").mkdir(parents=True)
        (work / "run/mine").write_text("mine")
        program(self.folder / "bin", "dpkg-query", "exit 1")  # where it goes on, it ends at once
        for name in ("bash", "dirname", "cat", "awk", "id", "grep"):
            path = subprocess.run(["sh", "-c", f"command -v {name}"], text=True, capture_output=True).stdout.strip()
            (self.folder / "bin" / name).symlink_to(path)

        def quickstart(out):
            return subprocess.run(["bash", SOURCE.resolve() / "scripts/quickstart", "--no-install", "--out", out], cwd=work, text=True,
                                  capture_output=True, env={**os.environ, "PATH": str(self.folder / "bin")})

        for out in ("run", work / "run"):  # names are of the caller's folder
            done = quickstart(out)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"\Aquickstart: .*/caller/run is there and .*\n\Z")
        self.assertIn("packages missing", quickstart("new").stdout)
        (work / "run/.made-by-quickstart").touch()
        self.assertIn("packages missing", quickstart("run").stdout)
        self.assertEqual((work / "run/mine").read_text(), "mine")

    def install_packages(self, **environment):
        return subprocess.run([SOURCE / "scripts/install_packages", "test"], text=True, capture_output=True,
                              env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", **environment})

    def test_a_package_on_hold_is_there_and_a_removed_one_is_not(self):
        program(self.folder, "dpkg-query", "echo 'hi '")
        self.assertEqual(self.install_packages().stdout, "packages: all there\n")
        program(self.folder, "dpkg-query", 'case "$4" in git) echo "rc " ;; *) echo "ii " ;; esac')
        program(self.folder, "id", "echo 0")
        program(self.folder, "apt-get", "exit 0")
        self.assertEqual(self.install_packages().stdout, "packages missing: git\npackages installed: git\n")

    def test_sudo_keeps_the_proxy_that_packages_come_by(self):
        program(self.folder, "dpkg-query", "exit 1")
        program(self.folder, "id", "echo 1000")
        program(self.folder, "sudo", 'exec env -i PATH="$PATH" "$@"')
        program(self.folder, "apt-get", f'echo "$1 $http_proxy $https_proxy" >>{self.folder}/said')
        self.install_packages(http_proxy="http://a b:1", https_proxy="")
        self.assertEqual((self.folder / "said").read_text(), "update http://a b:1 \ninstall http://a b:1 \n")

    def test_arguments_that_a_script_does_not_know_are_refused_before_anything_is_done(self):
        for name in ("dpkg-query", "sudo", "apt-get", "clang-format-14", "cmake", "clang++-14", "git"):
            program(self.folder, name, f"echo {name} >>{self.folder}/ran; exit 1")

        def said(*command):
            done = subprocess.run([SOURCE / "scripts" / command[0], *command[1:]], text=True, capture_output=True,
                                  env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
            return done.returncode, done.stdout + done.stderr

        for command, words in ((("install_packages", "tset"), "neither a group .* nor an option: 'tset'"),
                               (("install_packages", "test", "--no-instal"), "neither a group .* nor an option: '--no-instal'"),
                               (("format", "--chek"), "not '--chek'; nothing was formatted"),
                               (("format", "--check", "base"), "not '--check base'; nothing was formatted"),
                               (("test", "--only", "tset"), "no stage 'tset'; there are: format .* debian13"),
                               (("test", "--no-slow"), "--no-slow goes with --labels"),
                               (("fuzz", "0"), "SECONDS is a whole number from 1")):
            status, text = said(*command)
            self.assertEqual(status, 2, command)
            self.assertRegex(text, words)
        for name in ("install_packages", "format"):
            self.assertEqual(said(name, "--help")[0], 0)
        self.assertFalse((self.folder / "ran").exists())
        self.assertIn("install them with", said("install_packages", "--no-install")[1])
        self.assertEqual(set((self.folder / "ran").read_text().split()), {"dpkg-query"})

    def test_the_stages_that_can_be_chosen_are_those_that_there_are(self):
        text = (SOURCE / "scripts/test").read_text()
        chosen = re.search(r'^all_stages="(.*)"$', text, re.M).group(1).split()
        there = {name.replace("_", "-") for name in re.findall(r"^stage_(\w+)\(\)", text, re.M)}
        self.assertEqual({*chosen, "labels"}, there)

    def test_a_step_that_fails_without_a_count_leaves_the_others_to_be_run(self):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", f"""
            eval "$(sed -n '/^results=/,/^}}/p' scripts/test_release)"
            as() {{ echo broken; return 1; }}
            cache={self.folder} release=trixie
            step "a step" root any; step "another" root any; echo "${{#results[@]}} $failed" """],
                              cwd=SOURCE, text=True, capture_output=True)
        self.assertEqual(done.stdout.splitlines()[-1:], ["2 1"], done.stderr)

    def tree_with(self, *scripts):
        """A source tree of these scripts alone, and the environment that finds programs of its bin/ first."""
        tree = self.folder / "tree"
        (tree / "scripts").mkdir(parents=True)
        for name in scripts:
            shutil.copy(SOURCE / "scripts" / name, tree / "scripts")
        return tree, {**os.environ, "PATH": f"{tree}/bin:{os.environ['PATH']}"}

    def test_a_bundle_replaces_bundles_alone_and_holds_no_part_of_glibc(self):
        tree, environment = self.tree_with("gpu_bundle")
        for folder in ("recipes", "benchmarks/gpu", "benchmarks/peers/train", "lib"):
            (tree / folder).mkdir(parents=True)
        for name in ("scripts/gpu_check", *(f"benchmarks/peers/{name}.py" for name in ("contest", "machine", "measure"))):
            (tree / name).write_text("")
        program(tree / "build/bin", "dlpipe", "")
        program(tree / "build/tests/engine/cuda", "engine_cuda_device_test", "")
        (tree / "build/CMakeCache.txt").write_text("CUDAToolkit_BIN_DIR:PATH=/cuda\n")
        glibc = ["c.so.6", "m.so.6", "mvec.so.1", "resolv.so.2", "util.so.1", "anl.so.1", "nsl.so.1", "nss_files.so.2", "rt.so.1"]
        others = ["stdc++.so.6", "nsl.so.2", "nss3.so", "crypt.so.1", "curl.so.4"]
        for name in (*glibc, *others):
            (tree / f"lib/lib{name}").write_text("")
        program(tree / "bin", "ldd", "".join(f"echo 'lib{name} => {tree}/lib/lib{name} (0x1)'\n" for name in (*glibc, *others)))
        program(tree / "bin", "strip", "")

        def bundle():
            return subprocess.run(["scripts/gpu_bundle", "build", "out"], cwd=tree, text=True, capture_output=True, env=environment)

        (tree / "out").mkdir()
        (tree / "out/mine").write_text("mine")
        done = bundle()
        self.assertEqual((done.returncode, (tree / "out/mine").read_text()), (1, "mine"))
        self.assertRegex(done.stderr, r"\Agpu_bundle: out is there and .*\n\Z")
        shutil.rmtree(tree / "out")
        for _ in range(2):
            self.assertEqual(bundle().returncode, 0)
            self.assertEqual({path.name for path in (tree / "out/lib").iterdir()}, {f"lib{name}" for name in others})
            (tree / "out/lib/stale").write_text("")

    def test_other_wheels_stay_where_a_wheel_is_put(self):
        tree, environment = self.tree_with("wheel", "environment", "jobs")
        tools = tree / "build/venv-wheel/bin"
        program(tools, "pip", "mkdir -p build/wheel-raw && echo raw >build/wheel-raw/dlpipe-2-linux.whl")
        program(tools, "auditwheel", 'for out; do :; done; mkdir -p "$out" && echo repaired >"$out/dlpipe-2-manylinux.whl"')
        program(tree / "bin", "advzip", "")
        out = tree / "dist"
        out.mkdir()
        for name in ("dlpipe-1-manylinux.whl", "dlpipe-2-manylinux.whl"):
            (out / name).write_text("before")
        done = subprocess.run(["scripts/wheel", "dist"], cwd=tree, text=True, capture_output=True, env=environment)
        self.assertEqual((done.returncode, done.stdout), (0, f"{out.resolve()}/dlpipe-2-manylinux.whl\n"), done.stderr)
        self.assertEqual({path.name: path.read_text() for path in out.iterdir()},
                         {"dlpipe-1-manylinux.whl": "before", "dlpipe-2-manylinux.whl": "repaired\n"})
        program(tools, "auditwheel", "echo too-recent versioned symbols; exit 1")
        done = subprocess.run(["scripts/wheel", "dist"], cwd=tree, text=True, capture_output=True, env=environment)
        self.assertEqual((done.returncode, done.stdout), (0, f"{out.resolve()}/dlpipe-2-linux.whl\n"), done.stderr)

    def test_warnings_are_no_errors_of_a_wheel_unless_asked_for(self):
        tree, environment = self.tree_with("wheel", "environment", "jobs")
        program(tree / "build/venv-wheel/bin", "auditwheel", "")
        program(tree / "build/venv-wheel/bin", "pip", 'echo "$@" >said; exit 1')
        environment.pop("DLPIPE_WERROR", None)
        for asked, option in (({}, "DLPIPE_WERROR=OFF"), ({"DLPIPE_WERROR": "ON"}, "DLPIPE_WERROR=ON")):
            subprocess.run(["scripts/wheel", "dist"], cwd=tree, capture_output=True, env={**environment, **asked})
            self.assertIn(option, (tree / "said").read_text())

    def test_a_container_that_reads_https_has_certificates(self):
        tree, environment = self.tree_with("build_container", "jobs")
        program(tree / "bin", "cmake", "")
        program(tree / "bin", "install", 'for to; do :; done; mkdir -p "${to%/*}" && echo >"$to"')
        for package, listed in (("libcurl4t64", "ca-certificates\nlibcurl4t64\n"), ("libjpeg62-turbo", "libjpeg62-turbo\n")):
            program(tree / "bin", "ldd", "echo 'libany.so.1 => /bin/sh (0x1)'")
            program(tree / "bin", "dpkg-query", f"echo '{package}:amd64: /bin/sh'")
            subprocess.run(["scripts/build_container", "image"], cwd=tree, check=True, env=environment)
            written = (tree / "image/usr/local/share/dlpipe/packages").read_text().splitlines(keepends=True)
            self.assertEqual("".join(sorted(written)), listed)

    def test_a_part_of_an_array_of_parts_takes_the_number_of_all(self):
        program(self.folder, "dlpipe", 'echo "$@"')

        def ingest(number, first, last, count, parts=""):
            done = subprocess.run(["bash", SOURCE / "deploy/slurm/ingest.sbatch", "images", "data", "--jpeg", "standard"], text=True,
                                  capture_output=True, env={
                                      **os.environ, "DLPIPE": str(self.folder / "dlpipe"), "PARTS": parts,
                                      "SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_TASK_MIN": str(first),
                                      "SLURM_ARRAY_TASK_MAX": str(last), "SLURM_ARRAY_TASK_COUNT": str(count)})
            return done.stdout if done.returncode == 0 else (done.returncode, done.stderr.split("(")[-1])

        self.assertEqual(ingest(2, 1, 3, 3), "ingest images data.part-2 --part 2/3 --jpeg standard\n")
        self.assertEqual(ingest(2, 1, 2, 2, parts="16"), "ingest images data.part-2 --part 2/16 --jpeg standard\n")
        refused = (2, "PARTS=N sbatch --array=...), or submit --array=1-N\n")
        for array in ((3, 3, 7, 2), (1, 1, 7, 2), (0, 0, 15, 16), ("", "", "", "")):
            self.assertEqual(ingest(*array), refused, array)

    def test_packages_are_listed_by_group_and_releases(self):
        for line in (SOURCE / "scripts/packages").read_text().splitlines():
            self.assertRegex(line, r"^(#.*|(build|test) [a-z0-9.+-]+( [a-z]+)*)$")


if __name__ == "__main__":
    unittest.main()
