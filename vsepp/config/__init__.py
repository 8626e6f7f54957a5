"""Parameters: `params/` and overrides in, validated specs and the plan of all artefacts out."""

from vsepp.config.plan import Plan
from vsepp.config.planner import make_plan

__all__ = ["Plan", "make_plan"]
