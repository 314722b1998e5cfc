"""The machines of an emulated LAN: each has a network namespace behind a shaped link, and where it computes a CPU quota
of a share of a core. The module serves the benchmarks in this folder and tests/chaos."""
import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build/release/bin"
BRIDGE = "cvybr"
PORT = 5570
NETWORK_THREADS = ("ZMQbg", "gloo_tcp_loop")  # how their names begin


def sh(*words, check=True, status=False):
    """Runs a command quietly and returns its output, or with `status` its exit status."""
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if status:
        return run.returncode
    if check and run.returncode != 0:
        sys.exit(f"emulated LAN: {' '.join(map(str, words))}: {run.stderr.strip() or run.stdout.strip()}")
    return run.stdout


class Cgroups:
    """CPU quotas by cgroup v2 where it is mounted with a cpu controller, otherwise by v1, which is mounted if
    necessary."""

    def __init__(self, folder):
        self.mounted = None
        self.groups = []
        # for each machine, the file with its threads under the quota and the file with its free threads
        self.held = []
        mounts = pathlib.Path("/sys/fs/cgroup")
        controllers = mounts / "cgroup.subtree_control"
        if controllers.exists() and "cpu" in controllers.read_text().split():
            self.root, self.version = mounts, 2
        elif (mounts / "cpu/cgroup.procs").exists():
            self.root, self.version = mounts / "cpu", 1
        else:
            self.root, self.version = pathlib.Path(folder) / "cgroup", 1
            self.root.mkdir(exist_ok=True)  # the program's earlier LAN made it
            sh("mount", "-t", "cgroup", "-o", "cpu", "none", self.root)
            self.mounted = self.root

    def make(self, name, share):
        """Makes a group with a quota of `share` cores. The period is short, because short kernels would run in bursts
        otherwise."""
        period = 10000
        quota = max(1000, int(share * period))
        machine = self.add(self.root / f"convoy-{os.getpid()}-{name}")
        if self.version == 1:
            (machine / "cpu.cfs_period_us").write_text(str(period))
            (machine / "cpu.cfs_quota_us").write_text(str(quota))
            self.held.append((machine / "tasks", self.root / "tasks"))
            return machine
        held, free = self.add(machine / "held"), self.add(machine / "free")
        for group in (held, free):
            (group / "cgroup.type").write_text("threaded")
        (machine / "cgroup.subtree_control").write_text("+cpu")
        (held / "cpu.max").write_text(f"{quota} {period}")
        self.held.append((held / "cgroup.threads", free / "cgroup.threads"))
        return held

    def add(self, group):
        group.mkdir()
        self.groups.append(group)
        return group

    def free_network_threads(self):
        """Takes the threads of ZeroMQ and of gloo that send and receive out of the quotas. Under the quota they would stop with
        all other threads once a period's share is used up, and their links would stop with them, which does not happen on a real
        LAN."""
        for held, free in self.held:
            for thread in held.read_text().split():
                with contextlib.suppress(OSError):  # the thread has ended
                    if pathlib.Path(f"/proc/{thread}/comm").read_text().startswith(NETWORK_THREADS):
                        free.write_text(thread)

    def close(self):
        for group in reversed(self.groups):
            for _ in range(50):
                with contextlib.suppress(OSError):
                    group.rmdir()
                    break
                time.sleep(0.1)
        if self.mounted:
            sh("umount", self.mounted, check=False)


class CongestionControl:
    """Congestion control as on the machines of a real LAN, whatever this machine uses: CUBIC. Under BBR the flows of
    one link get unequal parts of it for seconds; under Reno a flow that was slow stays slow when the others have
    finished."""

    ALLOWED = pathlib.Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")

    def __init__(self):
        """Allows CUBIC in namespaces, where the kernel has it, until close()."""
        self.before = self.ALLOWED.read_text()
        with contextlib.suppress(OSError):
            self.ALLOWED.write_text(f"{self.before.strip()} cubic")

    @staticmethod
    def use(inside):
        """Sets CUBIC, or Reno where it is missing, in a namespace, and returns the name of the algorithm in use."""
        # By default a connection that was idle for 200 ms starts slowly again. Emulated machines are slower than the
        # machines they stand for, so they are idle for longer in each step, but the 200 ms do not scale.
        sh(*inside, "sysctl", "-qw", "net.ipv4.tcp_slow_start_after_idle=0")
        for name in ("cubic", "reno"):
            if sh(*inside, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={name}", status=True) == 0:
                break
        return sh(*inside, "sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()

    def close(self):
        with contextlib.suppress(OSError):
            self.ALLOWED.write_text(self.before)


class Lan:
    """A bridge and the machines attached to it."""

    def __init__(self, folder, mbits):
        # A machine has one such LAN at a time, since its network devices have fixed names.
        self.lock = open(pathlib.Path(tempfile.gettempdir()) / "convoy-emulated-lan.lock", "w", encoding="utf-8")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("emulated LAN: another program uses one; waiting until it ends", file=sys.stderr, flush=True)
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.cgroups = Cgroups(folder)
        self.congestion_control = CongestionControl()
        self.mbits = mbits
        self.machines = []
        sh("ip", "link", "del", BRIDGE, check=False)
        sh("ip", "link", "add", "name", BRIDGE, "type", "bridge")
        sh("ip", "link", "set", BRIDGE, "up")

    def add(self, name, share=None):
        """Adds a machine: namespace, shaped link, and with a share of a core a CPU group."""
        number = len(self.machines) + 1
        space, outer, inner = f"cvy{number}", f"cvyo{number}", f"cvyi{number}"
        sh("ip", "netns", "del", space, check=False)  # remains of a run that was killed
        sh("ip", "link", "del", outer, check=False)
        sh("ip", "netns", "add", space)
        sh("ip", "link", "add", "name", outer, "type", "veth", "peer", "name", inner)
        sh("ip", "link", "set", inner, "netns", space)
        sh("ip", "link", "set", outer, "master", BRIDGE)
        sh("ip", "link", "set", outer, "up")
        inside = ["ip", "netns", "exec", space]
        sh(*inside, "ip", "addr", "add", f"10.77.0.{number}/24", "dev", inner)
        sh(*inside, "ip", "link", "set", inner, "up")
        sh(*inside, "ip", "link", "set", "lo", "up")
        self.congestion = self.congestion_control.use(inside)
        # A port of the switch holds 512 KiB and forwards in order of arrival. The queue of a machine's own card sends bulk
        # traffic last, as Linux's queues do: by TOS, or because they serve connections in turns.
        shape = ["root", "handle", "1:", "tbf", "rate", f"{self.mbits}mbit", "burst", "128kb", "limit", "512kb"]
        sh("tc", "qdisc", "add", "dev", outer, *shape)
        sh(*inside, "tc", "qdisc", "add", "dev", inner, *shape)
        sh(*inside, "tc", "qdisc", "add", "dev", inner, "parent", "1:", "pfifo_fast")
        cores = sorted(os.sched_getaffinity(0))
        machine = {"name": name, "space": space, "outer": outer, "inner": inner, "address": f"10.77.0.{number}",
                   "speed": share, "group": self.cgroups.make(name, share) if share else None,
                   "core": cores[number % len(cores)]}
        self.machines.append(machine)
        return machine

    def start(self, machine, words, **options):
        """Starts a process on the machine."""
        # The process joins the group first, because a namespace has a /sys of its own. It runs on one core: when
        # threads on several cores use up a quota in turns, the kernel loses a millisecond per period.
        # A machine without a quota computes nothing; it goes before other programs, so that these do not delay its messages.
        quota = f'echo $$ > {machine["group"]}/cgroup.procs && exec taskset -c {machine["core"]}' if machine["group"] \
            else "exec chrt --rr 1"
        command = f'{quota} ip netns exec {machine["space"]} "$@"'
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="1")
        return subprocess.Popen(["bash", "-c", command, "bash", *map(str, words)], env=environment,
                                start_new_session=True, text=True, **options)

    def bytes_of(self, machine):
        """Returns the bytes that the machine has sent and received so far."""
        counters = pathlib.Path("/sys/class/net") / machine["outer"] / "statistics"
        return int((counters / "rx_bytes").read_text()), int((counters / "tx_bytes").read_text())

    def close(self):
        for machine in self.machines:
            sh("ip", "netns", "del", machine["space"], check=False)
            sh("ip", "link", "del", machine["outer"], check=False)
        sh("ip", "link", "del", BRIDGE, check=False)
        self.congestion_control.close()
        self.cgroups.close()
        self.lock.close()


def cpu_seconds(process):
    """Returns the seconds that a process has computed so far; 0 where it has ended."""
    with contextlib.suppress(OSError):
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def busy_seconds():
    """Returns the seconds that all cores of this machine have worked so far, whoever they worked for."""
    user, nice, system, _, _, *interrupts = map(int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def work_so_far(processes):
    """Returns the time, the seconds that the processes have computed so far, and those of all programs of this machine."""
    return time.monotonic(), sum(map(cpu_seconds, processes)), busy_seconds()


def parts_of_cores(before, after):
    """Returns the parts of this machine's cores that some processes and that all programs used between two results of
    work_so_far()."""
    cores = (after[0] - before[0]) * len(os.sched_getaffinity(0)) or 1.0
    return [(after[i] - before[i]) / cores for i in (1, 2)]


def stop(processes):
    """Kills the processes and all processes that they started."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
