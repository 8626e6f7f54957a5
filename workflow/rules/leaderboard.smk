# Submissions of anyone → the page that ranks them. Nothing of a preset is read.


rule leaderboard:
    input:
        submissions=[str(path) for path in sorted(SUBMISSIONS.glob("*/*"))],
        templates=[
            str(TEMPLATES / f"{name}.html.j2") for name in ("base", "leaderboard")
        ],
    output:
        # Snakemake deletes what is named here; the last page stays where a submission is refused.
        manifest="reports/leaderboard/manifest.json",
        index=update("reports/leaderboard/index.html"),
    log:
        "reports/leaderboard/leaderboard.log",
    benchmark:
        "reports/leaderboard/leaderboard.tsv"
    resources:
        mem_mb=500,
    params:
        spec=f'{{"submissions":"{SUBMISSIONS}"}}',
        code=STEPS["leaderboard"].code(None),
    message:
        "Leaderboard: submissions in {output.index} (log: {log})"
    shell:
        "vsepp make leaderboard --spec {params.spec:q} --code {params.code} --output reports/leaderboard > {log} 2>&1"
