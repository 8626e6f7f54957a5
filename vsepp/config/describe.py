"""The JSON schema of `params/`, generated from the models."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from vsepp.config.schema import DatasetKeys, FidelityFile, PresetFile, RunKeys, Settings, TablesFile

_FILES: dict[str, type[BaseModel]] = {
    "params/config.yaml": Settings,
    "params/presets/*.yaml": PresetFile,
    "params/fidelity/*.yaml": FidelityFile,
    "params/tables.yaml": TablesFile,
    "params/runs.yaml, each entry": RunKeys,
    "params/datasets.yaml, each entry": DatasetKeys,
}


def json_schema() -> dict[str, Any]:
    """File of `params/` → JSON schema of what it may hold."""
    return {file: model.model_json_schema() for file, model in _FILES.items()}
