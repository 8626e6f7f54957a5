# Mirrors → raw files → tables of images and captions, word ids, decoded images.


rule download:
    output:
        file=f"{DOWNLOADS}/{{download}}",
    log:
        f"{LOGS}/download-{{download}}.log",
    benchmark:
        f"{BENCHMARKS}/download-{{download}}.tsv"
    priority: 100
    resources:
        mem_mb=300,
    params:
        # Derived from the output, so that another mirror is no reason to fetch a file again.
        source=lambda wildcards, output: to_json(PLAN.files[wildcards.download].spec),
        lock=lambda wildcards, output: PROJECT / "params" / "sources.lock.yaml",
    message:
        "Download {wildcards.download}"
    shell:
        "vsepp fetch --spec {params.source:q} --lock {params.lock} --output {output.file:q} > {log} 2>&1"


rule generate_scenes:
    output:
        coco=directory("resources/scenes-{scenes}/coco"),
        flickr=directory("resources/scenes-{scenes}/flickr"),
        manifest="resources/scenes-{scenes}/manifest.json",
    log:
        f"{LOGS}/generate_scenes-{{scenes}}.log",
    benchmark:
        f"{BENCHMARKS}/generate_scenes-{{scenes}}.tsv"
    threads: 2
    resources:
        mem_mb=800,
    params:
        spec=lambda wildcards: to_json(PLAN.scenes),
        code=lambda wildcards: code.scenes_code(),
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Scenes: draw pictures and write captions in the layouts of COCO and Flickr30K"
    shell:
        "vsepp scenes --spec {params.spec:q} --output {params.folder} --workers {threads} > {log} 2>&1"


rule corpus:
    input:
        raw=raw_files,
    output:
        images=f"{RESULTS}/corpora/{{corpus}}/images.parquet",
        captions=f"{RESULTS}/corpora/{{corpus}}/captions.parquet",
        manifest=f"{RESULTS}/corpora/{{corpus}}/manifest.json",
    log:
        f"{LOGS}/corpus-{{corpus}}.log",
    benchmark:
        f"{BENCHMARKS}/corpus-{{corpus}}.tsv"
    resources:
        mem_mb=MEMORY,
    params:
        spec=lambda wildcards: to_json(PLAN.corpora[wildcards.corpus]),
        code=lambda wildcards: code.corpus_code(PLAN.corpora[wildcards.corpus]),
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Corpus {wildcards.corpus}: read splits and captions"
    shell:
        "vsepp corpus --spec {params.spec:q} --output {params.folder} > {log} 2>&1"


rule tokens:
    input:
        unpack(token_inputs),
    output:
        tokens=f"{RESULTS}/tokens/{{tokens}}/tokens.npz",
        vocabulary=f"{RESULTS}/tokens/{{tokens}}/vocabulary.json",
        manifest=f"{RESULTS}/tokens/{{tokens}}/manifest.json",
    log:
        f"{LOGS}/tokens-{{tokens}}.log",
    benchmark:
        f"{BENCHMARKS}/tokens-{{tokens}}.tsv"
    resources:
        mem_mb=1500,
    params:
        spec=lambda wildcards: to_json(token_job(wildcards).vocabulary),
        code=lambda wildcards: code.tokens_code(),
        folders=folders,
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Tokens {wildcards.tokens}: build the vocabulary and encode captions"
    shell:
        "vsepp tokens --spec {params.spec:q} {params.folders} --output {params.folder} > {log} 2>&1"


rule store:
    input:
        corpus=tables_of_corpus,
        raw=raw_files,
    output:
        images=f"{RESULTS}/stores/{{store}}/images.npy",
        manifest=f"{RESULTS}/stores/{{store}}/manifest.json",
    log:
        f"{LOGS}/store-{{store}}.log",
    benchmark:
        f"{BENCHMARKS}/store-{{store}}.tsv"
    threads: store_threads
    resources:
        mem_mb=1800,
    params:
        spec=lambda wildcards: to_json(PLAN.stores[wildcards.store].spec),
        corpus_spec=lambda wildcards: to_json(
            PLAN.corpora[PLAN.stores[wildcards.store].corpus]
        ),
        code=lambda wildcards: code.store_code(),
        corpus=lambda wildcards: f"{RESULTS}/corpora/{PLAN.stores[wildcards.store].corpus}",
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Store {wildcards.store}: decode every image once"
    shell:
        "vsepp store --spec {params.spec:q} --corpus-spec {params.corpus_spec:q} --corpus {params.corpus}"
        " --output {params.folder} --workers {threads} > {log} 2>&1"
