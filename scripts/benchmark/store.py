"""The file that a run writes after every measurement, and goes on from after an interruption."""

import hashlib
import json
import os
import pathlib
import platform
import subprocess

from .runner import mosquitto_version, version_of

# What must be the same for two parts to be one run.
SAME = ("machine", "menzil", "build", "rabbitmq", "mosquitto")


class Store:
    """Everything that was measured, in memory and in the file."""

    def __init__(self, path, data):
        self.path = pathlib.Path(path)
        self.data = data

    @classmethod
    def begin(cls, path, asked, binary):
        path = pathlib.Path(path)
        if path.exists():
            # It may be hours of somebody's machine.
            path.replace(path.with_name(path.name + ".old"))
        return cls(path, {"asked": asked, "rounds": asked["rounds"], "seconds": asked["seconds"], **surroundings(binary),
                          "left_out": [], "failures": [], "disk": [], "results": {}})

    @classmethod
    def resume(cls, path, binary):
        """Raises `ValueError` where what is there cannot be gone on with."""
        data = json.loads(pathlib.Path(path).read_text())
        if "asked" not in data:
            raise ValueError("it does not say what was asked; begin anew")
        here = surroundings(binary)
        for key in SAME:
            # Earlier runs had no mosquitto.
            if data.get(key, here[key]) != here[key]:
                raise ValueError(f"it was measured with {key} {data[key]}, and here it is {here[key]}: two halves would not be one run")
        # What failed or was left out is tried again.
        data["left_out"], data["failures"] = [], []
        return cls(path, data)

    def has(self, step):
        return any(row["round"] == step.number for row in self.rows(step))

    def rows(self, step):
        return self.data["results"].get(step.case.key, {}).get(step.mode, {}).get(step.peer, [])

    def keep(self, step, row, took):
        by_mode = self.data["results"].setdefault(step.case.key, {})
        by_mode.setdefault(step.mode, {}).setdefault(step.peer, []).append({"round": step.number, "took_seconds": round(took, 1), **row})
        self.write()

    def failed(self, step, why):
        self.data["failures"].append(f"{step}: {why}")
        self.write()

    def leave_out(self, step):
        self.data["left_out"].append({"case": step.case.key, "mode": step.mode, "peer": step.peer, "round": step.number})

    def write(self):
        """A whole file or the one before, whatever ends this program."""
        beside = self.path.with_name(self.path.name + ".tmp")
        beside.write_text(json.dumps(self.data, indent=1, ensure_ascii=False) + "\n")
        os.replace(beside, self.path)


def surroundings(binary):
    return {"machine": machine(), "menzil": menzil_version(binary), "build": hashlib.sha256(pathlib.Path(binary).read_bytes()).hexdigest(),
            "rabbitmq": version_of("rabbitmq-server"), "mosquitto": mosquitto_version()}


def machine():
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / (1 << 20)
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {platform.system()} {platform.release()}"


def menzil_version(binary):
    return subprocess.run([binary, "--version"], capture_output=True, text=True).stdout.split()[-1]
