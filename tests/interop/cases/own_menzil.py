"""A Menzil of the case's own, where the shared one cannot serve: another disk, a disk that fails."""

import os
import pathlib

import broker as brokers
import pytest


class OwnMenzil(brokers.Menzil):
    """On that data folder, with those settings; `wrapper` is put before the command."""

    def __init__(self, data, settings=(), wrapper=()):
        binary = os.environ.get("INTEROP_BINARY")
        if not binary:
            pytest.skip("about Menzil's own disk handling")
        super().__init__(binary)
        self.data = pathlib.Path(data)
        script = self.folder / "menzil"
        arguments = " ".join(f"--set '{setting}'" for setting in settings)
        before = " ".join(wrapper)
        script.write_text(f'#!/bin/sh\nexec {before} "{self.binary}" "$@" {arguments}\n')
        script.chmod(0o755)
        self.binary = script
