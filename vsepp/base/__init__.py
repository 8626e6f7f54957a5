"""What everything above stands on: errors, declarations, files and their digests, manifests, the machine.

Read `errors`, `declared`, `components` and `spec` for what is declared; `files`, `yaml`, `digests`, `manifest`, `publish` and `places`
for what lies on the disk; `machine`, `devices`, `placement`, `workers`, `progress` and `hashed` for how a job computes.
It imports nothing else of vsepp.
"""
