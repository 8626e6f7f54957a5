"""From `params/` to artefacts: settings, their layers and checks, the plan of all artefacts, and the steps that make them.

Read `settings`, `files`, `papers`, `layers`, `checks` and `parameters` for how values come together; `specs`, `plan`, `table`, `planner` and
`reports` for the table of artefacts; `step`, `steps`, `making` and `code` for how a row is made; `verify` and `fitting` for
whether it still is what it should be.

It imports all rooms but `apps`; what a step computes with, only when it runs.
"""
