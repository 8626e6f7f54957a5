# What is computed for figures, and for nothing else.


rule figure_data:
    output:
        data=f"{VARIANT}/evaluations/figures/{{figure_data}}/data.json",
        manifest=f"{VARIANT}/evaluations/figures/{{figure_data}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/figures/{{figure_data}}.log",
    resources:
        mem_mb=MEMORY,
    params:
        spec=spec,
        code=code,
        folder=folder,
    message:
        "Data of {wildcards.figure_data} (log: {log})"
    shell:
        "vsepp make figure_data --spec {params.spec:q} --output {params.folder} > {log} 2>&1"
