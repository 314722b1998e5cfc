#!/usr/bin/env python3
"""Runs the shell commands that a document shows, so that a reader who types them is not the first to do so.

usage: run_documents.py PROGRAMS DOCUMENT...      PROGRAMS: the folder of convoy-master, convoy-slave and convoy-bench

A fenced block that is tagged `sh` holds commands. All blocks of a document run in their order in one scratch folder that
looks like the root of the tree. So that a document takes seconds, a training stops after two steps, the nets for CIFAR-10
have few filters, and the port 5570 becomes a free one. The comment `<!-- not run: REASON -->` right before a block leaves the block out.
Exit code 1: a command failed.
"""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 150  # for one block, on a busy machine; a command that hangs must not hold the tests up
PHOTOS = 5  # of each class in the sample of photographs

MASTER = """#!/usr/bin/env bash
# convoy-master of a document: two steps of a small net, at a port that nobody else uses.
arguments=()
while (($# > 0)); do
  if [[ $1 == --steps ]]; then shift; else arguments+=("$1"); fi
  shift
done
[[ ${{arguments[0]}} != train ]] || arguments+=(--steps 2)
[[ ${{arguments[1]:-}} != nets/cifar10-* ]] || arguments+=(--set conv1.filters=4 --set conv2.filters=8 --batch 16)
[[ ${{arguments[0]}} == key || "${{arguments[*]}}" != *--slaves* || "${{arguments[*]}}" == *--listen* ]] ||
  arguments+=(--listen tcp://127.0.0.1:{port})
exec '{program}' "${{arguments[@]}}"
"""


def blocks(text: str) -> list:
    """(line, commands, reason): of each block of commands; a reason where it is not to be run."""
    found, lines, reason, start = [], [], "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if start:
            if line.startswith("```"):
                found.append((start, "\n".join(lines), reason))
                start, reason = 0, ""
            else:
                lines.append(line)
            continue
        comment = re.fullmatch(r"<!-- not run: (.+) -->", line)
        if comment:
            reason = comment.group(1)
        elif line == "```sh":
            start, lines = number, []
        elif line.strip():
            reason = ""
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def photographs(folder: pathlib.Path) -> bool:
    """A few photographs of each class at `folder`, where real ones are at hand."""
    data = pathlib.Path(os.environ.get("CONVOY_TEST_DATA") or ROOT.parent / "shared/data") / "photos"
    if not data.is_dir():
        return False
    for kind in sorted(data.iterdir()):
        (folder / kind.name).mkdir(parents=True)
        for photo in sorted(kind.iterdir())[:PHOTOS]:
            (folder / kind.name / photo.name).symlink_to(photo)
    return True


def furnish(scratch: pathlib.Path, programs: pathlib.Path, port: int) -> dict:
    """Makes the scratch folder look like the tree, with the programs on the path; the environment of the commands."""
    for name in ("nets", "bench", "scripts"):
        (scratch / name).symlink_to(ROOT / name)
    (scratch / "build/release").mkdir(parents=True)
    binaries = scratch / "build/release/bin"
    binaries.mkdir()
    for program in programs.iterdir():
        if program.is_file() and program.name != "convoy-master":
            (binaries / program.name).symlink_to(program)
    master = binaries / "convoy-master"
    master.write_text(MASTER.format(program=programs / "convoy-master", port=port))
    master.chmod(0o755)
    return dict(os.environ, PATH=f"{binaries}:{os.environ['PATH']}", XDG_CONFIG_HOME=str(scratch / "config"),
                XDG_CACHE_HOME=str(scratch / "cache"))


def run(commands: str, scratch: pathlib.Path, environment: dict) -> str:
    """Runs a block; what it printed where it failed, else nothing. Ends all that it started."""
    process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", commands], cwd=scratch, env=environment, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=SECONDS)
        return "" if process.returncode == 0 else f"{output}\nexit code {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        return f"{process.communicate()[0]}\nnot done after {SECONDS} s"


def run_document(document: pathlib.Path, programs: pathlib.Path) -> int:
    """Runs all blocks of a document; the number of those that failed."""
    failed, ran = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        scratch, port = pathlib.Path(folder), free_port()
        environment = furnish(scratch, programs, port)
        have_photos = photographs(scratch / "photos")
        for line, commands, reason in blocks(document.read_text()):
            where = f"{document.relative_to(ROOT)}:{line}"
            if not reason and "photos" in commands and not have_photos:
                reason = "there are no photographs; CONVOY_TEST_DATA names the folder that holds them"
            if reason:
                print(f"left out: {where}: {reason}")
                continue
            begin = time.monotonic()
            trouble = run(commands.replace("5570", str(port)), scratch, environment)
            ran += 1
            print(f"{'FAILED' if trouble else 'passed'}: {where}: {time.monotonic() - begin:.1f} s")
            if trouble:
                failed += 1
                print(f"{commands}\n--\n{trouble}")
    print(f"{document.relative_to(ROOT)}: {ran} blocks ran, {failed} failed")
    return failed


def main(arguments: list) -> int:
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    programs = pathlib.Path(arguments[0]).resolve()
    return 1 if sum(run_document(ROOT / name, programs) for name in arguments[1:]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
