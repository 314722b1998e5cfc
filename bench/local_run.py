"""Runs programs on this machine, for the benchmarks in this folder."""
import socket
import subprocess


def free_port():
    """Returns a port that no program on this machine listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_with_slaves(command, slaves, folder):
    """Runs the command while the slaves' commands run, and returns how it ended. What each slave prints is in a file of the
    folder."""
    running = []
    for number, slave in enumerate(slaves):
        with open(f"{folder}/slave-{number}.log", "w", encoding="utf-8") as log:
            running.append(subprocess.Popen([str(word) for word in slave], stdout=log, stderr=log))
    try:
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    finally:
        for process in running:
            process.kill()
            process.wait()
