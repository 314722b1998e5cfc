"""The table of compare_ddp.py: rows of Convoy and of PyTorch's DDP from the seconds of their steps."""
import csv
import statistics

FIELDS = ["mode", "net", "batch", "speeds", "mbits", "machines", "program", "wire", "rounds", "step_s", "step_low", "step_high",
          "images_s", "alone_images_s", "speedup", "speedup_low", "speedup_high", "ideal", "convoy_to_ddp", "convoy_to_ddp_low",
          "convoy_to_ddp_high", "cpu_percent", "busy_percent"]


def spread(values):
    """Returns the median, the least and the greatest of some values."""
    return statistics.median(values), min(values), max(values)


def ratios(numerators, denominators):
    """Returns the spread of the ratios of two programs' median steps in the same round."""
    return spread([statistics.median(one) / statistics.median(other) for one, other in zip(numerators, denominators)])


def rows_of(case, alone, runs, used):
    """Returns the rows of one net on one LAN.

    case    the columns mode, net, batch, speeds (of all machines, a list) and mbits
    alone   by program: the seconds of a step on one machine, in each round
    runs    by (machines, program, wire): the seconds of the counted steps, a list for each round
    used    by the same key: the parts of the cores that the members and that all programs used, a pair for each round

    A speedup is over the same program on one machine in the same round. convoy_to_ddp, in rows of Convoy, is how many times as many
    images a second it trains as DDP with the same wire on as many machines, round by round; it is empty where DDP did not run."""
    rows = []
    for (machines, program, wire), rounds in runs.items():
        step, least, most = spread([each for seconds in rounds for each in seconds])
        row = {**case, "machines": machines, "program": program, "wire": wire, "rounds": len(rounds),
               "step_s": step, "step_low": least, "step_high": most, "images_s": case["batch"] / step,
               "alone_images_s": case["batch"] / statistics.median(alone[program])}
        speeds = [case["speeds"][i % len(case["speeds"])] for i in range(machines)]
        row.update(speeds=" ".join(f"{speed:g}" for speed in speeds), ideal=sum(speeds) / max(case["speeds"]))
        speedups = ratios([[seconds] for seconds in alone[program]], rounds)
        row.update(zip(("speedup", "speedup_low", "speedup_high"), speedups))
        rival = runs.get((machines, "DDP", wire)) if program == "Convoy" else None
        if rival:
            row.update(zip(("convoy_to_ddp", "convoy_to_ddp_low", "convoy_to_ddp_high"), ratios(rival, rounds)))
        parts = used[machines, program, wire]
        row.update((name, 100 * statistics.median(part[i] for part in parts))
                   for i, name in enumerate(("cpu_percent", "busy_percent")))
        rows.append(row)
    return rows


def number(value):
    """Returns a number with four digits, and everything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else value


HEADER = (f"{'mode':<6}{'net':<16}{'batch':>6} {'speeds':<14}{'Mbit/s':>7}{'machines':>9} {'program':<8}{'wire':<5}{'step s':>8} "
          f"{'(least, most)':<17}{'images/s':>9}{'on one':>8}{'speedup':>9} {'(least, most)':<15}{'ideal':>6}{'Convoy / DDP':>20}"
          f"{'CPU (all)':>14}")


def text_of(row):
    """Returns a row of the table for people, under HEADER."""
    beside = "-"
    if "convoy_to_ddp" in row:
        beside = f"{row['convoy_to_ddp']:.2f} ({row['convoy_to_ddp_low']:.2f}, {row['convoy_to_ddp_high']:.2f})"
    steps = f"({row['step_low']:.3f}, {row['step_high']:.3f})"
    speedups = f"({row['speedup_low']:.2f}, {row['speedup_high']:.2f})"
    cores = f"{row['cpu_percent']:.0f} % ({row['busy_percent']:.0f} %)"
    return (f"{row['mode']:<6}{row['net']:<16}{row['batch']:>6} {row['speeds']:<14}{row['mbits']:>7g}{row['machines']:>9} "
            f"{row['program']:<8}{row['wire']:<5}{row['step_s']:>8.3f} {steps:<17}{row['images_s']:>9.2f}"
            f"{row['alone_images_s']:>8.2f}{row['speedup']:>9.2f} {speedups:<15}{row['ideal']:>6.2f}{beside:>20}{cores:>14}")


def write_csv(rows, measured, file):
    """Writes the rows. `measured` has the columns machine, commit and date, which come first."""
    with open(file, "w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, [*measured, *FIELDS], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({**measured, **{name: number(value) for name, value in row.items()}} for row in rows)
