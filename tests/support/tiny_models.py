"""CLIP and SigLIP with random weights, built from configurations; a corpus of pictures for them; each without a download."""

import json

import numpy as np
import pandas as pd
import torch
from raw_layouts import jpeg

from vsepp.data.tables import write_tables

TOWER = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SIGHT = {**TOWER, "image_size": 32, "patch_size": 16}


def write_pictures(folder, images=12, captions=3):
    """`corpus`, all of it in the split test, and `pictures`."""
    rng = np.random.default_rng(3)
    names = [f"p{number}.jpg" for number in range(images)]
    (folder / "pictures").mkdir(parents=True)
    for number, name in enumerate(names):
        (folder / "pictures" / name).write_bytes(jpeg(number, (40, 32)))
    table = pd.DataFrame({"image_id": [f"{n + 50}" for n in range(images)], "file_name": names})
    table = table.assign(container="images", member=names, split="test")
    owner = np.arange(images).repeat(captions).astype(np.int32)
    texts = [" ".join(rng.choice(["a", "dog", "runs", "red", "on", "sea"], 6)) for _ in owner]
    texts[-1] *= 50  # longer than any model reads
    rows = {"caption_id": np.arange(len(owner)) * 3 + 7, "image_index": owner, "text": texts, "split": "test"}
    write_tables(folder / "corpus", table, pd.DataFrame(rows))


def write_clip(folder):
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    folder.mkdir()
    letters = [chr(number) for number in range(ord("a"), ord("s") + 1)]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: row for row, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "CLIPTokenizer", "model_max_length": 77}'
    )
    text = {**TOWER, "vocab_size": 40, "max_position_embeddings": 77, "bos_token_id": 38, "eos_token_id": 39}
    torch.manual_seed(0)
    config = CLIPConfig(text_config={**text, "pad_token_id": 39}, vision_config=SIGHT, projection_dim=8)
    CLIPModel(config).save_pretrained(folder)
    CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}).save_pretrained(
        folder
    )


def write_siglip(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, SiglipConfig, SiglipImageProcessor, SiglipModel

    folder.mkdir()
    words = {"<pad>": 0, "<unk>": 1, "a": 2, "dog": 3, "runs": 4, "red": 5}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "model_input_names": ["input_ids"]}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    text = {**TOWER, "vocab_size": 40, "max_position_embeddings": 64, "projection_size": 16}
    torch.manual_seed(0)
    SiglipModel(SiglipConfig(text_config=text, vision_config=SIGHT)).save_pretrained(folder)
    SiglipImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
