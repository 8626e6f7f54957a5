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


rule examples:
    input:
        unpack(inputs),
    output:
        examples=f"{VARIANT}/evaluations/figures/{{examples}}/examples.json",
        manifest=f"{VARIANT}/evaluations/figures/{{examples}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/figures/{{examples}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/figures/{{examples}}.tsv"
    resources:
        mem_mb=MEMORY,
    params:
        spec=spec,
        code=code,
        given=given,
        folder=folder,
    message:
        "Test images and the captions ranked first for {wildcards.examples} (log: {log})"
    shell:
        "vsepp examples --spec {params.spec:q} {params.given} --output {params.folder}"
        " > {log} 2>&1"
