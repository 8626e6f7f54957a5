# Metrics and training curves → tables, figures and the page of a paper.


rule report:
    input:
        unpack(inputs),
        templates=[str(path) for path in sorted(TEMPLATES.iterdir())],
    output:
        # Not the tables, figures and other pages: Snakemake deletes what is named here, and a report that is refused
        # must leave the last one as it was. The manifest names them all; where one is gone, `common.smk` sees it.
        manifest=f"{REPORTS}/{{report}}/manifest.json",
        index=update(
            report(
                f"{REPORTS}/{{report}}/index.html",
                caption="../report/page.rst",
                category="{report}",
                labels={"what": "tables and figures"},
            )
        ),
        headline=update(
            report(
                f"{REPORTS}/{{report}}/headline.txt",
                caption="../report/headline.rst",
                category="{report}",
                labels={"what": "headline"},
            )
        ),
    log:
        f"{LOGS}/{PLAN.variant}/report/{{report}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/report/{{report}}.tsv"
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
