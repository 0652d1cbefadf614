"""What the suites and scripts need, fetched once through the ordinary clients (pip, npm, apt).

Everything lands below `target/interop`. Each step has a stamp with the hash of what it was made from,
so that a second run does nothing. A step that fails raises Missing with one clear sentence; the suites
that need it are then skipped, not failed.
"""

import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STORE = ROOT / "target" / "interop"
STEP_SECONDS = 900


class Missing(Exception):
    """Something could not be installed; says what and why."""


def _quiet(command, what, **options):
    """Runs a command; its last words are shown only if it fails."""
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=STEP_SECONDS, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{what} could not be installed: {error}") from None
    if done.returncode:
        tail = " / ".join(line[:300] for line in done.stdout.strip().splitlines()[-3:])
        raise Missing(f"{what} could not be installed: {tail}")


def _once(name, *sources):
    """(stamp path, digest, whether the step is still to be done)."""
    digest = hashlib.sha256(b"".join(pathlib.Path(source).read_bytes() for source in sources)).hexdigest()
    stamp = STORE / f"{name}.stamp"
    return stamp, digest, not stamp.exists() or stamp.read_text() != digest


class _Lock:
    """One installer at a time, so that two runs may start together."""

    def __enter__(self):
        STORE.mkdir(parents=True, exist_ok=True)
        self.file = open(STORE / "lock", "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        self.file.close()


def python():
    """The venv's interpreter with the pinned Python clients and pytest."""
    requirements, venv = HERE / "requirements.txt", STORE / "venv"
    with _Lock():
        stamp, digest, needed = _once("venv", requirements)
        if needed:
            shutil.rmtree(venv, ignore_errors=True)
            _quiet([sys.executable, "-m", "venv", venv], "a Python venv")
            _quiet([venv / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements],
                   "the Python clients")
            stamp.write_text(digest)
    return venv / "bin" / "python"


def sdist(requirement):
    """The unpacked source distribution of `name==version`, as its authors published it."""
    name, version = requirement.split("==")
    folder = STORE / "sdist" / f"{name.replace('-', '_')}-{version}"
    pip = python().parent / "pip"
    with _Lock():
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            _quiet([pip, "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", name,
                    "-d", folder.parent, requirement], f"the sources of {requirement}")
            archive = next(folder.parent.glob(f"{folder.name}*.tar.gz"))
            with tarfile.open(archive) as packed:
                packed.extractall(folder.parent, filter="data")
    return folder


def pinned(name):
    """`name==version` as requirements.txt has it."""
    for line in (HERE / "requirements.txt").read_text().splitlines():
        if line.split("==")[0].strip() == name:
            return line.split("#")[0].strip()
    raise KeyError(name)


def crate(name, version):
    """A copy of a crate's sources as published, tests included, outside of any workspace."""
    fetch, folder = STORE / "crates" / "fetch", STORE / "crates" / f"{name}-{version}"
    with _Lock():
        if not folder.exists():
            (fetch / "src").mkdir(parents=True, exist_ok=True)
            (fetch / "src" / "lib.rs").write_text("")
            (fetch / "Cargo.toml").write_text(f'[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n'
                                              f'[dependencies]\n{name} = "={version}"\n[workspace]\n')
            _quiet(["cargo", "fetch"], f"the sources of {name} {version}", cwd=fetch)
            told = subprocess.run(["cargo", "metadata", "--format-version", "1"], cwd=fetch, check=True,
                                  stdout=subprocess.PIPE).stdout
            found = next(package for package in json.loads(told)["packages"]
                         if (package["name"], package["version"]) == (name, version))
            shutil.copytree(pathlib.Path(found["manifest_path"]).parent, folder)
            with open(folder / "Cargo.toml", "a") as manifest:
                manifest.write("\n[workspace]\n")
    return folder


def npm():
    """The folder whose node_modules holds the pinned Node clients."""
    source, folder = HERE / "scripts" / "node", STORE / "npm"
    if not shutil.which("npm"):
        raise Missing("npm is not installed (Debian package npm or nodejs)")
    with _Lock():
        stamp, digest, needed = _once("npm", source / "package.json", source / "package-lock.json")
        if needed:
            folder.mkdir(parents=True, exist_ok=True)
            for file in ("package.json", "package-lock.json"):
                shutil.copy(source / file, folder / file)
            _quiet(["npm", "ci", "--silent", "--no-audit", "--no-fund"], "the Node clients", cwd=folder)
            stamp.write_text(digest)
    return folder


def debian(*needs):
    """Debian packages by (a file or program that proves it is there, package)."""
    absent = [package for proof, package in needs
              if not (os.path.exists(proof) if proof.startswith("/") else shutil.which(proof))]
    if not absent:
        return
    if os.geteuid() or not shutil.which("apt-get"):
        raise Missing(f"not installed: Debian package {' '.join(absent)}")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    with _Lock():
        _quiet([*apt, "update"], "the Debian package lists", env=environment)
        _quiet([*apt, "install", "-y", "--no-install-recommends", *absent], f"Debian package {' '.join(absent)}",
               env=environment)
