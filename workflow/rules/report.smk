# Metrics and training curves → tables, figures and the page of a paper.

REPORTS = PLAN.of_kind("report")


# A rule for each paper, since each has other tables and figures; that of one paper alone is called `report`.
for paper, made in REPORTS.items():

    rule:
        name:
            "report" if len(REPORTS) == 1 else f"report_{paper}"
        input:
            inputs,
            lost,
            templates=sorted(map(str, (PROJECT / "reports/templates").iterdir())),
        output:
            # Where a report is refused, the last one stays as it was.
            [update(file) for file in files("report", made.step.files(made.spec))],
        log:
            f"{LOGS}/{PLAN.variant}/report/{{report}}.log",
        wildcard_constraints:
            report=re.escape(paper),
        resources:
            mem_mb=500,
        params:
            digest=digest,
            plan=plan,
        message:
            "Report {wildcards.report}: tables, figures and the page that holds them (log: {log})"
        shell:
            "vsepp make report {wildcards.report} --plan {params.plan} --threads {threads} > {log} 2>&1"
