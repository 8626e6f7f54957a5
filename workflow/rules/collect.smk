# What can be asked for by name.


rule reproduce_tables:
    input:
        index=f"{REPORT}/index.html",
    message:
        "Tables and figures are in {input.index}"


rule all_downloads:
    input:
        files=[str(file.path) for file in PLAN.files.values()],
    message:
        "Every raw file is there"


rule all_corpus:
    input:
        tables=[file for corpus in PLAN.corpora for file in corpus_tables(corpus)],
        tokens=[
            f"{job.folder}/tokens.npz"
            for job in PLAN.tokens.values()
            if not job.released
        ],
    message:
        "Splits, captions and word ids are ready"


# Not part of the corpus: only what reads images asks for them, and nothing does where its results were fetched.
rule all_stores:
    input:
        stores=[f"{RESULTS}/stores/{store}/images.npy" for store in PLAN.stores],
    message:
        "Every image is decoded"


rule all_features:
    input:
        encoders=[encoder_weights(encoder) for encoder in PLAN.encoders],
        features=[
            f"{RESULTS}/features/{features}/features.npy"
            for features in [*PLAN.features, *PLAN.precomputed]
        ],
    message:
        "Encoders and features are ready"


rule all_models:
    input:
        models=[
            f"{VARIANT}/runs/{run}/seed-{seed}/model.safetensors"
            for run in PLAN.models
            for seed in PLAN.seeds_of(run)
        ],
    message:
        "Every run is trained"


rule all_results:
    input:
        metrics=[file for model in PLAN.models for file in model_metrics(PLAN, model)],
        report=rules.reproduce_tables.input,
    message:
        "Every run is evaluated"
