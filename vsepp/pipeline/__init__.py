"""From `params/` to artefacts: settings, their layers and checks, the plan of all artefacts, and the steps that make them.

Read `settings`, `papers`, `layers`, `checks` and `parameters` for how values come together; `plan` and `planner` for the table;
`step`, `steps`, `making` and `code` for how a row is made; `verify` and `fitting` for whether it still is what it should be.
It imports all rooms but `apps`.
"""
