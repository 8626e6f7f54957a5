"""What a plan costs, before anything is spent: pairs, images, bytes, and hours at measured rates.

Read in this order:

1. `rates`: what devices were measured to do (by `vsepp.bench`), as records of `benchmarks/rates.json`;
2. `devices`: whose hours are shown;
3. `counts`: images, captions, pairs and steps;
4. `work`: the jobs of a plan, and how much of which work each is;
5. `schedule`: time of work, the longest chain of jobs, the time from the first job to the last;
6. `disk`: bytes of everything that is read and written;
7. `describe`: all of it as a dictionary, unrounded;
8. `text`, `render`, `render_totals`: the dictionary as text.

Nothing is measured or written here. A quantity that nobody knows is `None`, and never a guess.
"""
