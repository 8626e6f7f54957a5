"""Parameters: `params/` and overrides in, validated specs and the plan of all artefacts out."""

from vsepp.config.plan import Plan, make_plan

__all__ = ["Plan", "make_plan"]
