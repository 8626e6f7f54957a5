# Metrics and training curves → tables, figures and the page of a paper.


rule report:
    input:
        unpack(inputs),
        templates=sorted(map(str, TEMPLATES.iterdir())),
    output:
        index=f"{REPORTS}/{{report}}/index.html",
        manifest=f"{REPORTS}/{{report}}/manifest.json",
        headline=report(
            f"{REPORTS}/{{report}}/headline.txt",
            caption="../report/headline.rst",
            category="{report}",
            subcategory="Headline",
            labels={"what": "headline"},
        ),
        # Folders: a rule whose files change their names with seeds and tables is not run again for a new one.
        tables=report(
            directory(f"{REPORTS}/{{report}}/tables"),
            patterns=["{name}.html"],
            caption="../report/table.rst",
            category="{report}",
            subcategory="Tables",
            labels={"what": "{name}"},
        ),
        figures=report(
            directory(f"{REPORTS}/{{report}}/figures"),
            patterns=["{name}.svg"],
            caption="../report/figure.rst",
            category="{report}",
            subcategory="Figures",
            labels={"what": "{name}"},
        ),
        paper=f"{REPORTS}/{{report}}/paper.tex",
        claims=f"{REPORTS}/{{report}}/claims.csv",
        runs=directory(f"{REPORTS}/{{report}}/runs"),
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


# Asked for where a TeX engine is installed; the report's paper.tex is there in any case.
rule paper:
    input:
        tex=f"{REPORTS}/{{report}}/paper.tex",
        figures=f"{REPORTS}/{{report}}/figures",
    output:
        pdf=f"{REPORTS}/{{report}}/paper.pdf",
    log:
        f"{LOGS}/{PLAN.variant}/paper/{{report}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/paper/{{report}}.tsv"
    resources:
        mem_mb=500,
    params:
        folder=folder,
    message:
        "Report {wildcards.report} as a PDF (log: {log})"
    shell:
        "vsepp paper {params.folder} > {log} 2>&1"
