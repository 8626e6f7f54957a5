# Metrics and training curves → tables, figures and the page of a paper.


rule report:
    input:
        unpack(inputs),
        templates=sorted(map(str, TEMPLATES.iterdir())),
    output:
        index=f"{REPORTS}/{{report}}/index.html",
        manifest=f"{REPORTS}/{{report}}/manifest.json",
        headline=f"{REPORTS}/{{report}}/headline.txt",
        # Folders: a rule whose files change their names with seeds and tables is not run again for a new one.
        tables=directory(f"{REPORTS}/{{report}}/tables"),
        figures=directory(f"{REPORTS}/{{report}}/figures"),
        metrics=directory(f"{REPORTS}/{{report}}/metrics"),
        curves=directory(f"{REPORTS}/{{report}}/curves"),
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
        "vsepp report --spec {params.spec:q} --output {params.folder} > {log} 2>&1"
