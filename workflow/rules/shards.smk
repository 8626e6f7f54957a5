# Word ids, decoded images, features, tapes and counts of a corpus in shards: parts, each a range of the shards and a job, and the list of all
# shards; and the vocabulary, which the jobs of the word ids share.

SHARDED = {
    "tokens": f"{RESULTS}/tokens",
    "store": f"{RESULTS}/stores",
    "features": f"{RESULTS}/features",
    "published": f"{RESULTS}/features",
    "tape": f"{RESULTS}/tapes",
    "counts": f"{VARIANT}/counts",
}

# There are no such rules where no corpus is in shards: on default storage their outputs would be looked for.
IN_SHARDS = any(made.parts for made in PLAN.table.values())

if IN_SHARDS:

    rule vocabulary:
        input:
            unpack(inputs),
        output:
            vocabulary=f"{RESULTS}/tokens/{{vocabulary}}-counted/vocabulary.json",
            manifest=f"{RESULTS}/tokens/{{vocabulary}}-counted/manifest.json",
        log:
            f"{LOGS}/vocabulary/{{vocabulary}}.log",
        benchmark:
            f"{BENCHMARKS}/vocabulary/{{vocabulary}}.tsv"
        resources:
            mem_mb=1500,
        params:
            spec=spec,
            code=code,
            given=given,
            folder=folder,
        message:
            "Vocabulary {wildcards.vocabulary}: count the words (log: {log})"
        shell:
            "vsepp make vocabulary --spec {params.spec:q} {params.given} --output {params.folder}"
            " > {log} 2>&1"


for kind, parent in SHARDED.items() if IN_SHARDS else ():

    rule:
        name:
            f"{kind}_part"
        input:
            unpack(inputs),
        output:
            manifest=f"{parent}/{{{kind}_part}}/manifest.json",
        log:
            f"{LOGS}/{kind}_part/{{{kind}_part}}.log",
        benchmark:
            f"{BENCHMARKS}/{kind}_part/{{{kind}_part}}.tsv"
        threads: THREADS
        resources:
            mem_mb=MEMORY,
            gpu_part=PARTS if GPUS and kind in ("features", "tape") else 0,
        params:
            spec=spec,
            code=code,
            given=given,
            folder=folder,
            threads=threads_option,
            kind=f"{kind}_part",
        message:
            f"Shards {{wildcards.{kind}_part}} (log: {{log}})"
        shell:
            "vsepp make {params.kind} --spec {params.spec:q} {params.given}"
            " --output {params.folder} {params.threads} > {log} 2>&1"

    rule:
        name:
            f"{kind}_shards"
        input:
            unpack(inputs),
        output:
            shards=f"{parent}/{{{kind}}}/shards.json",
            manifest=f"{parent}/{{{kind}}}/manifest.json",
        log:
            f"{LOGS}/{kind}_shards/{{{kind}}}.log",
        benchmark:
            f"{BENCHMARKS}/{kind}_shards/{{{kind}}}.tsv"
        resources:
            mem_mb=300,
        params:
            spec=spec,
            code=code,
            given=given,
            folder=folder,
            kind=kind,
        message:
            f"List the shards of {{wildcards.{kind}}} (log: {{log}})"
        shell:
            "vsepp make {params.kind} --spec {params.spec:q} {params.given}"
            " --output {params.folder} > {log} 2>&1"
