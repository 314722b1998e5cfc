#!/usr/bin/env python3
"""Checks the archive that scripts/bundle makes.

    check_bundle.py [--checkout FOLDER] ARCHIVE

It must be small, hold what it promises, find its libraries relative to itself, know no folder of the machine that made
it, ask for no newer glibc than promised, hold code for the GPUs it is meant for, and run: from a read-only folder with a
space in its name. Exit code: 0 right, 1 wrong, 77 there is no archive."""

import argparse
import os
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import tempfile

MOST_BYTES = 60 << 20
MOST_GLIBC = (2, 36)
MOST_GLIBCXX = (3, 4, 30)
ARCHITECTURES = {80, 90}
PROMISED = ["check-gpu", "VERSION", "bin/convoy-master", "bin/convoy-slave", "bin/convoy-bench", "bin/convoy-cuda.so",
            "bin/tests/devices_test", "bin/tests/cl_test", "nets/glyphs.yaml", "nets/cifar10-500-1500.yaml",
            "nets/resnet34.yaml", "bench/compare_torch.py", "bench/torch_net.py", "docs/bundle.md"]
# What every Linux with this glibc has, and what scripts/bundle leaves to NVIDIA.
OF_THE_SYSTEM = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libstdc\+\+|libgcc_s)\.so\..*")
OF_NVIDIA = re.compile(r"(libcublas|libcudnn)\.so\..*")


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def version_of(text):
    return tuple(int(number) for number in text.split("."))


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def elf_faults(path, top):
    """What is wrong with the dynamic section and the symbol versions of one program or library."""
    name = path.relative_to(top)
    dynamic = output_of("readelf", "-dW", path)
    paths = [part for line in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic) for part in line.split(":")]
    for part in paths:
        folder = pathlib.Path(os.path.normpath(part.replace("$ORIGIN", str(path.parent))))
        if not part.startswith("$ORIGIN") or folder != top / "lib":
            yield f"{name} looks for libraries in '{part}', which is not the bundle's lib"
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    for library in needed:
        if OF_THE_SYSTEM.fullmatch(library) or (path.name == "convoy-cuda.so" and OF_NVIDIA.fullmatch(library)):
            continue
        if not (top / "lib" / library).exists():
            yield f"{name} needs {library}, which is neither in the bundle nor part of a bare system"
        if not paths:
            yield f"{name} needs {library} of the bundle and has no RUNPATH"
    symbols = output_of("readelf", "-VW", path)
    for prefix, most in (("GLIBC", MOST_GLIBC), ("GLIBCXX", MOST_GLIBCXX)):
        wanted = [version_of(text) for text in re.findall(rf"Name: {prefix}_([0-9.]+) ", symbols)]
        if wanted and max(wanted) > most:
            yield f"{name} needs {prefix}_{'.'.join(map(str, max(wanted)))}, newer than {'.'.join(map(str, most))}"


def architectures_in(module):
    """The GPUs (90: sm_90) that a module has machine code for, from the headers of its fat binaries: a magic number,
    version, size of the header and of all entries; each entry has a kind (2: machine code), the sizes of its header and of
    its code, and the architecture at byte 28."""
    code = module.read_bytes()
    found = set()
    for match in re.finditer(re.escape(struct.pack("<IH", 0xBA55ED50, 1)), code):
        header, size = struct.unpack_from("<HQ", code, match.start() + 6)
        at = match.start() + header
        end = at + size
        while at + 32 <= min(end, len(code)):
            kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", code, at)
            if kind == 2:
                found.add(struct.unpack_from("<I", code, at + 28)[0])
            if entry_header == 0:
                break
            at += entry_header + entry_size
    return found


def path_faults(top, checkout):
    """Files in which the folder that made the bundle stands."""
    for path in sorted(top.rglob("*")):
        if path.is_file() and os.fsencode(checkout) in path.read_bytes():
            yield f"{path.relative_to(top)} contains the path of the checkout, {checkout}"


def run_faults(top):
    """Runs programs in an empty environment, from another folder, with the bundle write-protected."""
    with tempfile.TemporaryDirectory() as home:
        # A shell in which somebody has trained has a key for slaves.
        environment = {"PATH": "/usr/bin:/bin", "HOME": home, "XDG_CACHE_HOME": home, "OMP_WAIT_POLICY": "passive",
                       "CONVOY_KEY": "rusty-anchor"}
        train = ["bin/convoy-master", "train", top / "nets/glyphs.yaml", "--device", "cpu", "--threads", "1", "--steps",
                 "2", "--out", pathlib.Path(home) / "run"]
        for command in (train, ["bin/convoy-slave", "--help"], ["bin/convoy-bench", "--help"],
                        ["bin/tests/devices_test", "--gtest_filter=Registry.EveryRow*"], ["check-gpu", "--help"],
                        ["check-gpu", "--only", "cluster", "--out", pathlib.Path(home) / "report.md"]):
            command = [str(top / command[0]), *map(str, command[1:])]
            run = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, timeout=300)
            if run.returncode not in ((0, 77) if command[0].endswith("check-gpu") else (0,)):  # 77: there is no GPU
                yield f"{' '.join(command)} ended with {run.returncode}: {(run.stdout + run.stderr).strip()[-500:]}"
        for program in [*(top / "bin").glob("convoy-*"), *(top / "bin/tests").glob("*")]:
            if program.suffix == ".so":
                continue
            for library, path in re.findall(r"^\s+(\S+) => (.+?)(?: \(0x|$)", output_of("ldd", program),
                                            re.MULTILINE):
                if not OF_THE_SYSTEM.fullmatch(library) and pathlib.Path(os.path.normpath(path)).parent != top / "lib":
                    yield f"{program.name} takes {library} from {path}, not from the bundle"


def faults_in(archive, checkout, folder):
    size = archive.stat().st_size
    if size > MOST_BYTES:
        yield f"it has {size / 2**20:.1f} MiB, more than {MOST_BYTES >> 20}"
    name = archive.name.removesuffix(".tar.gz")
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            if pathlib.PurePosixPath(member.name).parts[0] != name or ".." in member.name.split("/"):
                yield f"{member.name} is outside the folder {name}"
                return
            if not (member.isfile() or member.isdir()):
                yield f"{member.name} is neither a file nor a folder"
        tar.extractall(folder)
    top = folder / name
    yield from (f"{promised} is missing" for promised in PROMISED if not (top / promised).exists())
    for path in sorted(top.rglob("*")):
        if path.is_file() and is_elf(path):
            yield from elf_faults(path, top)
    lacking = ARCHITECTURES - architectures_in(top / "bin/convoy-cuda.so")
    yield from (f"convoy-cuda.so has no code for sm_{number}" for number in sorted(lacking))
    yield from path_faults(top, checkout)
    protect(top, 0o555)
    try:
        yield from run_faults(top)
    finally:
        protect(top, 0o755)


def protect(top, mode):
    for path in (top, *(path for path in top.rglob("*") if path.is_dir())):
        path.chmod(mode)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--checkout", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("archive", type=pathlib.Path)
    options = parser.parse_args()
    if not options.archive.exists():
        print(f"skipped: there is no {options.archive}; scripts/bundle makes it")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch).resolve() / "a folder"
        folder.mkdir()
        faults = list(faults_in(options.archive, options.checkout.resolve(), folder))
    for fault in faults:
        print(f"bundle: {fault}")
    if not faults:
        print(f"bundle: {options.archive} is right, {options.archive.stat().st_size / 2**20:.1f} MiB")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
