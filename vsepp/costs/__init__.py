"""What a plan costs, before anything is spent: pairs, images, bytes, and hours at measured rates.

Read in this order:

1. `rates`: what devices were measured to do, from the records of `vsepp.bench` in `benchmarks/results`;
2. `devices`: whose hours are shown;
3. `counts`: images, captions, pairs and steps;
4. `work`: the jobs of a plan, and how much of which work each is;
5. `schedule`: time of work, the longest chain of jobs, the time from the first job to the last;
6. `disk`: bytes of everything that is read and written;
7. `describe`: all of it as a dictionary, unrounded;
8. `text`, `render`, `render_totals`: the dictionary as text;
9. `hours`: hours on every measured device as Markdown, for `vsepp bench --report`;
10. `calibration`: what is to be measured so that a plan's hours are known.

Nothing is measured or written here. A quantity that nobody knows is `None`, and never a guess.
"""
