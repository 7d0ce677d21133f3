"""Metrics for TensorBoard, where it is wanted."""

import shutil
from pathlib import Path

from saccade.checks import InputError
from saccade.training.run import metrics


class Board:
    """Writes a run's metrics into its folder `tensorboard`, from the start: call it when there may be new ones."""

    def __init__(self, folder: Path):
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise InputError('TensorBoard files need a package: pip install "saccade[tensorboard]"') from error
        self._folder, self._writer = folder, SummaryWriter
        self._written: dict[str, int] = {}

    def __call__(self) -> None:
        if not self._written:  # not before: until there is something to tell, the folder may be no run
            shutil.rmtree(self._folder / "tensorboard", ignore_errors=True)
        new: dict[str, list[dict]] = {}
        for row in metrics(self._folder):
            if row["update"] > self._written.get(row["label"], -1):
                new.setdefault(row["label"], []).append(row)
        for label, rows in new.items():
            with self._writer(str(self._folder / "tensorboard" / label)) as writer:
                for row in rows:
                    for name, value in row.items():
                        if isinstance(value, float) and name != "sparsity":
                            writer.add_scalar(name, value, row["update"])
            self._written[label] = rows[-1]["update"]
