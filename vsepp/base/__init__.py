"""What everything above stands on: errors, declarations, files and their digests, manifests, the machine.

Read `errors`, `declared`, `components` and `spec` for what is declared; `files`, `manifest` and `publish` for what lies on the disk;
`machine`, `devices`, `placement`, `progress` and `hashed` for how a job computes. It imports nothing else of vsepp.
"""
