# Metrics and training curves → tables, figures and the page of a paper.

REPORTED = PLAN.of_kind("report")

# A rule for each paper, since each has other tables and figures; that of one paper alone is called `report`.
for paper, made in REPORTED.items():

    rule:
        name:
            "report" if len(REPORTED) == 1 else f"report_{paper}"
        input:
            unpack(inputs),
            templates=[str(path) for path in sorted(TEMPLATES.iterdir())],
        output:
            manifest=f"{REPORTS}/{{report}}/manifest.json",
            # Where a report is refused, the last one stays as it was.
            index=update(f"{REPORTS}/{{report}}/index.html"),
            parts=[update(f"{REPORTS}/{{report}}/{file}") for file in made.spec.files],
        log:
            f"{LOGS}/{PLAN.variant}/report/{{report}}.log",
        wildcard_constraints:
            report=re.escape(paper),
        resources:
            mem_mb=500,
        params:
            spec=spec,
            code=code,
            folder=folder,
        message:
            "Report {wildcards.report}: tables, figures and the page that holds them (log: {log})"
        shell:
            # Not as an argument: those of Linux have at most 128 KiB.
            "vsepp make report --spec - --output {params.folder} <<< {params.spec:q} > {log} 2>&1"
