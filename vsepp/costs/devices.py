"""Devices whose hours are shown, chosen from those that were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vsepp.costs.rates import Rates
from vsepp.errors import VseppError


@dataclass(frozen=True)
class Column:
    """A device whose hours are shown."""

    title: str
    note: str
    rates: Rates | None
    devices: int
    gpu: bool


def choose_columns(
    records: Sequence[Rates], wanted: str | None, gpu: str | None, machine: str, gpus: int
) -> list[Column]:
    """Devices whose hours are shown: the one that was asked for, or a GPU and a CPU.

    Parameters
    ----------
    records
        All that were measured.
    wanted
        Part of a device's or a machine's name.
    gpu
        Name of the GPU that is here.
    machine
        Name of this machine.
    gpus
        How many to reckon with.

    Raises
    ------
    VseppError
        When no record has the wanted name, with those that there are.
    """
    newest = sorted(records, key=lambda record: record.date)
    if wanted is not None:
        named = [record for record in newest if wanted.lower() in f"{record.device} {record.machine}".lower()]
        if not named:
            known = "; ".join(f"{record.device} ({record.machine})" for record in records) or "none"
            raise VseppError(f"--device: {wanted!r} was not measured; recorded are: {known}")
        return [column(named[-1], machine, gpus)]
    graphics = [record for record in newest if record.device != "cpu" and gpu in (None, record.device)]
    processors = [record for record in newest if record.device == "cpu"]
    here = [record for record in processors if record.machine == machine]
    columns = [column(record, machine, gpus) for record in graphics[-1:]]
    if not graphics:
        name = f"{gpu}, the GPU of this machine" if gpu else "no GPU"
        columns.append(
            Column("GPU", f"{name} was not measured" if gpu else "none was measured", None, gpus, True)
        )
    return columns + [column(record, machine, gpus) for record in (here or processors)[-1:]]


def column(record: Rates, machine: str, gpus: int) -> Column:
    """A device that was measured, with so many of them where it is a GPU; `machine` is this one's name."""
    gpu, here = record.device != "cpu", record.machine == machine
    title = "GPU" if gpu else ("this CPU" if here else "a CPU")
    place = "this machine" if here else "another machine"
    name = f"{record.device}, on {record.machine}" if gpu else record.machine
    return Column(title, f"{name} ({place}), measured {record.date}", record, gpus if gpu else 1, gpu)
