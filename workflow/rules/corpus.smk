# Mirrors → raw files → tables of images and captions, word ids, decoded images.


rule download:
    output:
        file=f"{DOWNLOADS}/{{download}}",
    log:
        f"{LOGS}/download/{{download}}.log",
    priority: 100
    resources:
        mem_mb=300,
    params:
        # Derived from the output, so that another mirror is no reason to fetch a file again.
        source=lambda wildcards, output: to_json(PLAN.files[wildcards.download].spec),
        lock=lambda wildcards, output: PROJECT / "params" / "sources.lock.yaml",
    message:
        "Download {wildcards.download} (log: {log})"
    shell:
        "vsepp fetch --spec {params.source:q} --lock {params.lock} --output {output.file:q} > {log} 2>&1"


rule scenes:
    output:
        folder=directory("resources/scenes-{scenes}"),
    log:
        f"{LOGS}/scenes/{{scenes}}.log",
    threads: 2
    resources:
        mem_mb=800,
    params:
        spec=spec,
        code=code,
        folder=folder,
    message:
        "Scenes: draw pictures and write captions in the layouts of COCO and Flickr30K (log: {log})"
    shell:
        "vsepp make scenes --spec {params.spec:q} --output {params.folder} --threads {threads} > {log} 2>&1"


rule corpus:
    input:
        unpack(inputs),
    output:
        images=f"{RESULTS}/corpora/{{corpus}}/images.parquet",
        captions=f"{RESULTS}/corpora/{{corpus}}/captions.parquet",
        manifest=f"{RESULTS}/corpora/{{corpus}}/manifest.json",
    log:
        f"{LOGS}/corpus/{{corpus}}.log",
    resources:
        mem_mb=MEMORY,
    params:
        spec=spec,
        code=code,
        given=given,
        # Derived from the output, so that another fold reads nothing anew.
        test_images=lambda wildcards, output: PLAN.test_images(artefact(wildcards)),
        folder=folder,
    message:
        "Corpus {wildcards.corpus}: read splits and captions (log: {log})"
    shell:
        "vsepp make corpus --spec {params.spec:q} {params.given} --output {params.folder}"
        " --test-images {params.test_images}"
        " > {log} 2>&1"


rule tokens:
    input:
        unpack(inputs),
    output:
        tokens=f"{RESULTS}/tokens/{{tokens}}/tokens.npz",
        vocabulary=f"{RESULTS}/tokens/{{tokens}}/vocabulary.json",
        manifest=f"{RESULTS}/tokens/{{tokens}}/manifest.json",
    log:
        f"{LOGS}/tokens/{{tokens}}.log",
    resources:
        mem_mb=1500,
    params:
        spec=spec,
        code=code,
        given=given,
        folder=folder,
    message:
        "Tokens {wildcards.tokens}: build the vocabulary and encode captions (log: {log})"
    shell:
        "vsepp make tokens --spec {params.spec:q} {params.given} --output {params.folder}"
        " > {log} 2>&1"


rule store:
    input:
        unpack(inputs),
    output:
        images=f"{RESULTS}/stores/{{store}}/images.npy",
        sizes=f"{RESULTS}/stores/{{store}}/sizes.npy",
        manifest=f"{RESULTS}/stores/{{store}}/manifest.json",
    log:
        f"{LOGS}/store/{{store}}.log",
    threads: store_threads
    resources:
        mem_mb=1800,
    params:
        spec=spec,
        code=code,
        given=given,
        folder=folder,
    message:
        "Store {wildcards.store}: decode every image once (log: {log})"
    shell:
        "vsepp make store --spec {params.spec:q} {params.given} --output {params.folder}"
        " --threads {threads} > {log} 2>&1"
