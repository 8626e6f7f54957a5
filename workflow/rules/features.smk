# Decoded images → encoders and their features: one pass for all runs that share a frozen encoder.


rule pretrain_encoders:
    output:
        weights=[encoder_weights(encoder) for encoder in PLAN.pretrained],
        manifests=[
            f"{RESULTS}/encoders/{encoder}/manifest.json"
            for encoder in PLAN.pretrained
        ],
    log:
        f"{LOGS}/pretrain_encoders.log",
    benchmark:
        f"{BENCHMARKS}/pretrain_encoders.tsv"
    threads: 1
    resources:
        mem_mb=MEMORY,
    params:
        spec=lambda wildcards: to_json(PLAN.pretraining),
        encoders=lambda wildcards: [
            f"{name}={to_json(spec)}" for name, spec in PLAN.pretrained.items()
        ],
        code=lambda wildcards: code.pretraining_code(list(PLAN.pretrained.values())),
        folder=lambda wildcards, output: Path(output.weights[0]).parent.parent,
    message:
        "Encoders: pretrain on labelled single-object scenes"
    shell:
        "vsepp pretrain --spec {params.spec:q} --encoders {params.encoders:q} --output {params.folder}"
        " --threads {threads} > {log} 2>&1"


rule import_encoder:
    input:
        weights=local_weights,
    output:
        weights=f"{RESULTS}/encoders/{{encoder}}/encoder.safetensors",
        manifest=f"{RESULTS}/encoders/{{encoder}}/manifest.json",
    log:
        f"{LOGS}/import_encoder-{{encoder}}.log",
    benchmark:
        f"{BENCHMARKS}/import_encoder-{{encoder}}.tsv"
    resources:
        mem_mb=MEMORY,
    params:
        spec=lambda wildcards: to_json(PLAN.encoders[wildcards.encoder]),
        code=lambda wildcards: code.encoder_code(PLAN.encoders[wildcards.encoder]),
        weights=lambda wildcards, input: (
            f"--weights {quote(input.weights[0])}" if input else ""
        ),
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Encoder {wildcards.encoder}: cut it at the penultimate layer"
    shell:
        "vsepp encoder --spec {params.spec:q} {params.weights} --output {params.folder} > {log} 2>&1"


rule features:
    input:
        unpack(feature_inputs),
    output:
        features=f"{RESULTS}/features/{{features}}/features.npy",
        manifest=f"{RESULTS}/features/{{features}}/manifest.json",
    log:
        f"{LOGS}/features-{{features}}.log",
    benchmark:
        f"{BENCHMARKS}/features-{{features}}.tsv"
    threads: THREADS
    resources:
        mem_mb=MEMORY,
        gpu=1 if GPUS else 0,
        gpu_part=PARTS if GPUS else 0,
    params:
        encoder_spec=lambda wildcards: to_json(
            PLAN.encoders[PLAN.features[wildcards.features].encoder]
        ),
        crop=lambda wildcards: to_json(PLAN.features[wildcards.features].crop),
        code=lambda wildcards: code.features_code(
            PLAN.encoders[PLAN.features[wildcards.features].encoder]
        ),
        folders=folders,
        # Derived from the output, so that it writes nothing anew.
        data_on=lambda wildcards, output: PLAN.parameters.preset.resources.data_on,
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Features {wildcards.features}"
    shell:
        "vsepp features --encoder-spec {params.encoder_spec:q} --crop {params.crop:q} {params.folders}"
        " --output {params.folder} --data-on {params.data_on} --threads {threads} > {log} 2>&1"


rule published_features:
    input:
        corpus=tables_of_corpus,
        raw=raw_files,
    output:
        features=f"{RESULTS}/features/{{published}}/features.npy",
        manifest=f"{RESULTS}/features/{{published}}/manifest.json",
    log:
        f"{LOGS}/features-{{published}}.log",
    benchmark:
        f"{BENCHMARKS}/features-{{published}}.tsv"
    resources:
        mem_mb=MEMORY,
    params:
        corpus_spec=lambda wildcards: to_json(
            PLAN.corpora[PLAN.precomputed[wildcards.published]]
        ),
        code=lambda wildcards: code.precomputed_code(
            PLAN.corpora[PLAN.precomputed[wildcards.published]]
        ),
        corpus=lambda wildcards, input: Path(input.corpus[0]).parent,
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Features {wildcards.published}: as they were published"
    shell:
        "vsepp precomputed --corpus-spec {params.corpus_spec:q} --corpus {params.corpus}"
        " --output {params.folder} > {log} 2>&1"


rule tape:
    input:
        unpack(tape_inputs),
    output:
        tape=(
            directory
            if PLAN.parameters.preset.resources.keep_tapes
            else temp_directory
        )(f"{RESULTS}/tapes/{{tape}}"),
    log:
        f"{LOGS}/tape-{{tape}}.log",
    benchmark:
        f"{BENCHMARKS}/tape-{{tape}}.tsv"
    threads: lambda wildcards: max(THREADS, tape_writers(wildcards))
    resources:
        mem_mb=MEMORY,
        gpu=lambda wildcards: tape_writers(wildcards) if GPUS else 0,
        gpu_part=lambda wildcards: tape_writers(wildcards) * PARTS if GPUS else 0,
    params:
        encoder_spec=lambda wildcards: to_json(
            PLAN.encoders[PLAN.tapes[wildcards.tape].encoder]
        ),
        crop=lambda wildcards: to_json(PLAN.tapes[wildcards.tape].crop),
        draw=lambda wildcards: PLAN.tapes[wildcards.tape].draw,
        epochs=lambda wildcards: PLAN.tapes[wildcards.tape].epochs,
        splits=lambda wildcards: PLAN.tapes[wildcards.tape].splits,
        code=lambda wildcards: code.tape_code(
            PLAN.encoders[PLAN.tapes[wildcards.tape].encoder]
        ),
        folders=folders,
        # Derived from the output, so that it writes nothing anew.
        data_on=lambda wildcards, output: PLAN.parameters.preset.resources.data_on,
        writers=lambda wildcards, output: tape_writers(wildcards),
    message:
        "Tape {wildcards.tape}: random-crop features of every epoch"
    shell:
        "vsepp tape --encoder-spec {params.encoder_spec:q} --crop {params.crop:q} --draw {params.draw}"
        " --epochs {params.epochs} --splits {params.splits} {params.folders} --output {output.tape}"
        " --writers {params.writers} --data-on {params.data_on} --threads {threads} > {log} 2>&1"
