"""Ports for the benchmarks in this folder that start programs on this machine."""
import socket


def free_port():
    """Returns a port that no program on this machine listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
