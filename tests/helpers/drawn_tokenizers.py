"""Published folders of tokenizers, drawn by a seed, and their pieces by transformers and by the harness."""

import json
import random
import struct
from functools import partial
from pathlib import Path
from typing import Any

import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram, WordLevel, WordPiece

from harness.config.schema import TokenizerConfig
from harness.data.tokenizer import build
from harness.errors import InputError

TEXTS = (
    "Über das <user> hat Élan: naïve coffee!",
    "The lamp IS bright,broken; <url>s and\tkettles\n[MASK]<mask> today",
    "東京タワー is 5 km high 😀 über\u2028next\x85line \u00a0 end  ",
    "  ana kova lives  in New York's [new piece] don't <s> </s>",
)
SPLIT = ["Ana", "Kova", "lives", "in", "東京", ",", "über", "😀", "<user>", "don't", "[MASK]", "."]
READ = [*((text,) for text in TEXTS), *((TEXTS[0], text) for text in TEXTS), (" ".join(SPLIT),)]
"""Texts, pairs, and words with spaces between them."""

TEXT = "the lamp is bright broken today ana kova lives in new york km high über caf é don't das hat élan naïve coffee"
WORDS = TEXT.split()
LETTERS = [*"abcdefghijklmnopqrstuvwxyzABCDEÜÉ0123456789.,-()?!:;'[]<>/"]
SPECIAL = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
OF_ROBERTA = {"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"}
WORDPIECE, BYTES, UNIGRAM = "WordPiece", "BPE", "Unigram"
FAMILIES = {
    "bert": (WORDPIECE, "BertTokenizer", SPECIAL),
    "distilbert": (WORDPIECE, "DistilBertTokenizerFast", SPECIAL),
    "electra": (WORDPIECE, "ElectraTokenizer", SPECIAL),
    "mpnet": (WORDPIECE, "MPNetTokenizer", OF_ROBERTA | {"unk": "[UNK]"}),
    "roberta": (BYTES, "RobertaTokenizerFast", OF_ROBERTA),
    "longformer": (BYTES, "LongformerTokenizer", OF_ROBERTA),
    "gpt2": (BYTES, "GPT2Tokenizer", dict.fromkeys(("unk", "bos", "eos"), "<|endoftext|>")),
    "openai-gpt": (BYTES, "OpenAIGPTTokenizer", {"unk": "<unk>"}),
    "deberta": (BYTES, "DebertaTokenizer", SPECIAL),
    "deberta-v2": (UNIGRAM, "DebertaV2TokenizerFast", SPECIAL),
    "albert": (UNIGRAM, "AlbertTokenizer", SPECIAL | {"unk": "<unk>", "pad": "<pad>"}),
    "xlm-roberta": (UNIGRAM, "XLMRobertaTokenizer", OF_ROBERTA),
    "camembert": (UNIGRAM, "CamembertTokenizer", OF_ROBERTA),
    "xlnet": (UNIGRAM, "XLNetTokenizer", OF_ROBERTA | {"sep": "<sep>", "cls": "<cls>"}),
    "t5": (UNIGRAM, "T5Tokenizer", {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}),
    "modernbert": (None, "PreTrainedTokenizerFast", SPECIAL),
}
"""`model_type` -> type of the model, class, names of its special pieces."""


NORMALIZERS = [
    *(normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(), normalizers.Nmt(), normalizers.Lowercase()),
    *(normalizers.Strip(), normalizers.StripAccents(), normalizers.Prepend("▁"), normalizers.Replace("a", "b")),
    *(normalizers.ByteLevel(), normalizers.BertNormalizer(strip_accents=False), normalizers.Replace(Regex(r"\s+"), " ")),
]
PRE_TOKENIZERS = [
    *(pre_tokenizers.Whitespace(), pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(individual_digits=True)),
    *(
        pre_tokenizers.Punctuation("merged_with_previous"),
        pre_tokenizers.CharDelimiterSplit("e"),
        pre_tokenizers.FixedLength(3),
    ),
    *(pre_tokenizers.Split(Regex(r"\d"), "isolated"), pre_tokenizers.UnicodeScripts(), pre_tokenizers.BertPreTokenizer()),
    *(pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)),
]


def charsmap_of(letter: str, other: str) -> bytes:
    """SentencePiece's map of characters with one entry: a double-array trie, then what is put in their place."""
    trie, leaf = [0] * 256, 200
    trie[ord(letter)] = ord(letter) | 1 << 8 | leaf << 10
    return struct.pack("<I256I", 1024, *trie) + other.encode() + b"\0"


class Drawn:
    """A published folder of a seed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.draw = folder, random.Random(seed)
        self.family = [*FAMILIES][seed % len(FAMILIES)]
        model, self.name, special = FAMILIES[self.family]
        self.model = model or self.draw.choice((WORDPIECE, BYTES, UNIGRAM))
        self.special = dict(special)
        if self.chance(0.1):  # other names than usual
            self.special |= {role: f"<|{role}|>" for role in self.special if role != "unk"}
        self.settings: dict[str, Any] = {}
        self.write()

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def file(self, name: str, content: object) -> None:
        (self.folder / name).write_text(json.dumps(content))

    def pieces(self) -> list[str]:
        words = [*WORDS, *LETTERS, *("##" + letter for letter in LETTERS), self.draw.choice("\u2028\x85"), "東", "京", "[", "]"]
        first, *later = dict.fromkeys(words)
        self.draw.shuffle(later)
        return [*dict.fromkeys([*self.special.values(), first, *later])]

    def vocabulary(self) -> tuple[Any, list[tuple[str, str]]]:
        if self.model == WORDPIECE:
            return {piece: number for number, piece in enumerate(self.pieces())}, []
        if self.model == UNIGRAM:
            words = ["▁", *(f"▁{word}" for word in WORDS), *LETTERS, *WORDS, "東", "京", "ü", "é"]
            first = ["<s>NOTUSED"] if self.family == "camembert" else []
            names = dict.fromkeys([*first, *self.special.values(), *words])
            return [(name, 0.0 if place < 8 else -1.0 - self.draw.random()) for place, name in enumerate(names)], []
        ends = self.family == "openai-gpt"
        alphabet = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS)] if ends else sorted(pre_tokenizers.ByteLevel.alphabet())
        names, merges = dict.fromkeys([*self.special.values(), *alphabet]), []
        for word in self.draw.sample(WORDS[:17], 12):
            letters = [*word[:-1], f"{word[-1]}</w>"] if ends else ["Ġ", *word]
            while len(letters) > 1 and all(letter in names for letter in letters):
                merges.append((letters[0], letters[1]))
                letters[:2] = ["".join(letters[:2])]
                names[letters[0]] = None
        return {name: number for number, name in enumerate(names)}, [*dict.fromkeys(merges)]

    def write(self) -> None:
        self.folder.mkdir(parents=True)
        config = {"model_type": self.family}
        self.file("config.json", config)
        vocabulary, merges = self.vocabulary()
        is_whole = self.model == UNIGRAM or self.family == "modernbert" or self.chance(0.5)
        if is_whole:
            self.whole(vocabulary, merges).save(str(self.folder / "tokenizer.json"))
        if self.model == WORDPIECE and (not is_whole or self.chance(0.2)):
            end = "\r\n" if self.chance(0.2) else "\n"
            (self.folder / "vocab.txt").write_bytes(((end.join(vocabulary)) + (end if self.chance(0.8) else "")).encode())
        if self.model == BYTES and (not is_whole or self.chance(0.2)):
            self.file("vocab.json", vocabulary)
            lines = ["#version: 0.2", *(" ".join(merge) for merge in merges)]
            (self.folder / "merges.txt").write_text("\n".join(lines) + "\n")
        self.say(len(vocabulary))
        if self.chance(0.9):
            self.file("tokenizer_config.json", self.settings)

    def whole(self, vocabulary: Any, merges: list[tuple[str, str]]) -> Tokenizer:
        """A tokenizer.json with settings of its own."""
        draw, unknown = self.draw, self.special.get("unk", "[UNK]")
        if self.family == "modernbert" and self.model != UNIGRAM:  # read whole, whatever is in it
            models = (WordLevel, WordPiece) if self.model == WORDPIECE else (partial(BPE, merges=merges),)
            tokenizer = Tokenizer(draw.choice(models)(vocab=vocabulary, unk_token=unknown))
            tokenizer.normalizer = normalizers.Sequence(draw.sample(NORMALIZERS, 2))
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(draw.sample(PRE_TOKENIZERS, 2))
        elif self.model == WORDPIECE:
            tokenizer = Tokenizer(WordPiece(vocabulary, unk_token=unknown))
            flags = [draw.choice((True, False)) for _ in range(2)]
            tokenizer.normalizer = normalizers.BertNormalizer(True, flags[0], draw.choice((None, True, False)), flags[1])
            tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        elif self.model == BYTES:
            tokenizer = Tokenizer(BPE(vocabulary, merges, unk_token=unknown))
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=draw.choice((True, False)))
        else:
            tokenizer = Tokenizer(Unigram(vocabulary, unk_id=[name for name, _ in vocabulary].index(unknown)))
            charsmap, spaces = normalizers.Precompiled(charsmap_of("T", "t")), normalizers.Replace(Regex(" {2,}"), " ")
            steps = (normalizers.NFKC(), charsmap, normalizers.Sequence([charsmap, spaces]), normalizers.NFC())
            tokenizer.normalizer = draw.choice(steps)
            scheme = draw.choice(("always", "never", "first"))
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
            tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
        tokenizer.add_special_tokens(
            [AddedToken(name, lstrip=self.chance(0.2)) for name in dict.fromkeys(self.special.values())]
        )
        if self.chance(0.3):
            tokenizer.add_tokens([AddedToken("<user>", normalized=self.chance(0.5)), AddedToken("New York", single_word=True)])
        if "cls" in self.special and self.chance(0.9):
            cls, sep = ((self.special[role], tokenizer.token_to_id(self.special[role])) for role in ("cls", "sep"))
            pair = f"{cls[0]} $A {sep[0]} {sep[0]} $B:1 {sep[0]}:1"
            template = processors.TemplateProcessing(single=f"{cls[0]} $A {sep[0]}", pair=pair, special_tokens=[cls, sep])
            tokenizer.post_processor = draw.choice(
                (template, processors.RobertaProcessing(sep, cls), processors.BertProcessing(sep, cls))
            )
        if self.chance(0.2):
            tokenizer.enable_truncation(5, direction=self.draw.choice(("right", "right", "left")))
        if self.chance(0.2):
            tokenizer.enable_padding(length=30, pad_token=self.special.get("pad", "[PAD]"))
        return tokenizer

    def say(self, count: int) -> None:
        settings, draw = self.settings, self.draw
        names = [self.name] * 12 + [None] * 3 + ["PreTrainedTokenizerFast"] * 3 + ["BertJapaneseTokenizer", "OwnTokenizer"]
        if name := draw.choice(names):
            settings["tokenizer_class"] = name
        flags = [
            "do_lower_case",
            "tokenize_chinese_chars",
            "add_prefix_space",
            "trim_offsets",
            "keep_accents",
            "split_by_punct",
        ]
        settings |= {flag: self.chance(0.5) for flag in flags if self.chance(0.4)}
        if self.chance(0.4):
            settings["strip_accents"] = draw.choice((True, False, None))
        rare = {
            "truncation_side": "left",
            "padding_side": "left",
            "never_split": ["New"],
            "do_basic_tokenize": False,
            "wordpieces_prefix": "##",
            "split_special_tokens": True,
            "add_bos_token": True,
            "model_max_length": draw.choice((64, 1e30, 10**30)),
            "clean_up_tokenization_spaces": True,
        }
        settings |= {key: value for key, value in rare.items() if self.chance(0.05)}
        for role, piece in self.special.items():
            if self.special != FAMILIES[self.family][2] or self.chance(0.3):
                settings[f"{role}_token"] = self.form(piece)
        user, url = "<user>", draw.choice(("<url>", "[new piece]", "york's"))
        gap = 3 if self.chance(0.1) else 0
        way = draw.choice(("none", "none", "file", "decoder", "extra", "map"))
        if way == "file":
            self.file("added_tokens.json", {user: count, url: count + 1 + gap})
        elif way == "decoder":
            facts = {
                "lstrip": self.chance(0.3),
                "rstrip": self.chance(0.3),
                "single_word": False,
                "normalized": self.chance(0.5),
            }
            listed = {
                str(count + place + gap): facts | {"content": piece, "special": self.chance(0.5)}
                for place, piece in enumerate((user, url))
            }
            settings["added_tokens_decoder"] = listed
        elif way == "extra":
            settings[draw.choice(("additional_special_tokens", "extra_special_tokens"))] = [user, url]
        elif way == "map":
            plain = {f"{role}_token": piece for role, piece in self.special.items()}
            dressed = {
                key: {"content": piece, "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}
                for key, piece in plain.items()
            }
            self.file("special_tokens_map.json", draw.choice((plain, dressed)))

    def form(self, piece: str) -> str | dict[str, Any]:
        if self.chance(0.7):
            return piece
        flags = {flag: self.chance(0.3) for flag in ("lstrip", "rstrip", "normalized", "single_word")}
        return {"__type": "AddedToken", "content": piece, "special": True} | flags


def ids_of_transformers(folder: Path) -> list[tuple[list[int], list[int]]] | None:
    """Ids and types of every text and pair; None where transformers itself cannot read the folder."""
    try:
        reader = transformers.AutoTokenizer.from_pretrained(folder)
        rows = [reader(*texts, return_token_type_ids=True) for texts in READ]
    except Exception:  # noqa: BLE001 - it raises whatever its code does
        return None
    return [(row["input_ids"], row["token_type_ids"]) for row in rows]


def ours(folder: Path) -> list[tuple[list[int], list[int]]] | str:
    """The same as the harness reads it, or what it says of a folder that it does not read."""
    try:
        tokenizer = build(TokenizerConfig(file=str(folder)), ())
    except InputError as error:
        return str(error)
    rows = [tokenizer.encode(*texts) for texts in READ]
    return [(row.ids, row.type_ids) for row in rows]
