# What is computed for figures, and for nothing else.


rule constellations:
    output:
        losses=f"{VARIANT}/evaluations/figures/{{constellations}}/losses.json",
        manifest=f"{VARIANT}/evaluations/figures/{{constellations}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/figures/{{constellations}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/figures/{{constellations}}.tsv"
    resources:
        mem_mb=MEMORY,
    params:
        spec=spec,
        code=code,
        folder=folder,
    message:
        "Losses for {wildcards.constellations} (log: {log})"
    shell:
        "vsepp constellations --spec {params.spec:q} --output {params.folder} > {log} 2>&1"


rule weights:
    output:
        weights=f"{VARIANT}/evaluations/figures/{{weights}}/weights.json",
        manifest=f"{VARIANT}/evaluations/figures/{{weights}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/figures/{{weights}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/figures/{{weights}}.tsv"
    resources:
        mem_mb=MEMORY,
    params:
        spec=spec,
        code=code,
        folder=folder,
    message:
        "Weights for {wildcards.weights} (log: {log})"
    shell:
        "vsepp weights --spec {params.spec:q} --output {params.folder} > {log} 2>&1"
