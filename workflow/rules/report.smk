# Metrics and training curves → tables, figures and the page that holds them.


rule report:
    input:
        metrics=[file for model in PLAN.models for file in model_metrics(PLAN, model)],
        histories=[file for run in PLAN.runs for file in run_histories(PLAN, run)],
        published=PLAN.parameters.published,
        templates=sorted(map(str, TEMPLATES.iterdir())),
    output:
        index=f"{REPORT}/index.html",
        manifest=f"{REPORT}/manifest.json",
        headline=f"{REPORT}/headline.txt",
        tables=expand(
            f"{REPORT}/tables/{{table}}.{{kind}}",
            table=TABLES,
            kind=["csv", "html", "tex"],
        ),
        document=f"{REPORT}/tables/tables.tex",
        # Folders: a rule whose files change their names with the seeds is not run again for a new one.
        metrics=directory(f"{REPORT}/metrics"),
        curves=directory(f"{REPORT}/curves"),
        figures=expand(
            f"{REPORT}/figures/{{figure}}.{{kind}}",
            figure=FIGURES,
            kind=["png", "svg", "pdf"],
        ),
    log:
        f"{LOGS}/{PLAN.variant}/report.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/report.tsv"
    resources:
        mem_mb=500,
    params:
        spec=to_json(report_spec(PLAN)),
        code=code.report_code(),
        folder=lambda wildcards, output: Path(output.index).parent,
    message:
        "Report: tables, figures and the page that holds them"
    shell:
        "vsepp report --spec {params.spec:q} --output {params.folder} > {log} 2>&1"
