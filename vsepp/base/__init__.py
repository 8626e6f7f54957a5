"""What everything above stands on: declarations, files and their digests, manifests, the machine.

- Declared: `errors`, `declared` (ranges, and the words for a mistake), `spec` (what a corpus and an encoder are),
  `run_spec`, `components`.
- On the disk: `files` (read and written whole), `signatures` (what a file is), `digests`, `provenance` (code,
  machine, cost), `manifest`, `locks`, `publish` (how results appear, and what lies beside a run).
- How a job computes: `environment`, `devices` (which GPU), `machine`, `placement` (data in memory or in files),
  `hashed` (random numbers of captions), `progress`, `words` (numbers as people read them).

Read it in this order. It imports nothing else of vsepp.
"""
