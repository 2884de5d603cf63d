"""Queries, a corpus and judgements of both, as BEIR (arXiv:2104.08663) and MTEB (arXiv:2210.07316) have them.

In a folder: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv. On the hub, or in a folder of its layout: the configurations
corpus, queries, and qrels or default, each behind `SUBSET-` where task.subset names one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config.schema import RunConfig
from harness.data import files, sources
from harness.data.labels import name_of
from harness.errors import InputError, Mistakes, unknown

QUERY, DOCUMENT, GRADE = JUDGEMENT = ("query-id", "corpus-id", "score")
"""Columns of a judgement."""

Rows = Iterable[tuple[str, dict[str, Any]]]
"""Each row, after its place in error messages."""


@dataclass
class Judged:
    """The judged queries of a split, and the documents to rank."""

    where: str
    origin: str
    queries: dict[str, str]  # id -> text
    corpus: dict[str, str]  # id -> title and text
    grades: dict[str, dict[str, int]] = field(default_factory=dict)  # query -> document -> its grade, 0 for an irrelevant one


def load(config: RunConfig, split: str) -> Judged:
    """The queries of a split with their judgements; InputError for tables that are missing or do not fit each other."""
    task, where = config.task, f"task {config.task.name!r}, {split}"
    part = sources.part_of(task, split)
    source = sources.data_set(config, task.subset or None, where)
    tables, origin = (_of_files if Path(source.path, "corpus.jsonl").is_file() else _of_configurations)(source, part)
    corpus, queries, judgements = tables
    (text,) = task.fields
    judged = Judged(where, origin, _texts(queries, text), _texts(corpus, text, "title"))
    for place, row in judgements:
        if not {*JUDGEMENT} <= row.keys():
            raise InputError(f"{place}: expected the columns {', '.join(JUDGEMENT)}, got {', '.join(map(str, row))}")
        query, document = str(row[QUERY]), str(row[DOCUMENT])
        for name, known, of in ((query, judged.queries, "queries"), (document, judged.corpus, "corpus")):
            if name not in known:
                raise InputError(
                    f"{place}: {name!r} is not among the {len(known):,} ids of the {of}: remove the row, or add it"
                )
        try:
            grade = int(name_of(row[GRADE]))
        except (TypeError, ValueError) as error:
            raise InputError(f"{place}: expected a whole number in {GRADE!r}, got {row[GRADE]!r:.60}") from error
        if (before := judged.grades.setdefault(query, {}).setdefault(document, grade)) != grade:
            raise InputError(
                f"{place}: {query!r} and {document!r} have the grade {before} in an earlier row: remove one of them"
            )
    judged.queries = {query: judged.queries[query] for query in judged.grades}
    return judged


def _texts(rows: Rows, text: str, title: str | None = None) -> dict[str, str]:
    """The text of each id, behind its title where there is one; InputError for a row without id or text, or an id twice."""
    texts = {}
    for place, row in rows:
        name = row.get("_id", row.get("id"))
        if name is None or not isinstance(row.get(text), str):
            raise InputError(f"{place}: expected an `_id` and text in {text!r} (task.fields), got {', '.join(map(str, row))}")
        if str(name) in texts:
            raise InputError(f"{place}: the id {name!r} is that of an earlier row: remove one of them")
        texts[str(name)] = f"{(title and row.get(title)) or ''} {row[text]}".strip()
    return texts


def _of_files(source: sources.Source, part: str) -> tuple[list[Rows], str]:
    folder = Path(source.path)
    splits = {path.name.split(".")[0]: path for path in sorted(folder.glob("qrels/*.tsv*"))}
    if part not in splits:
        raise unknown(f"split of {source.where}:", part, splits, "task.validation_split")
    return [
        _rows(path, f"{source.where} ({path.name})")
        for path in (folder / "corpus.jsonl", folder / "queries.jsonl", splits[part])
    ], f"{folder.name}, licence not stated"


def _rows(path: Path, where: str) -> Rows:
    files.refuse_unreadable(path, "task.dataset", words=False)
    for line, row in files.rows(path, where, "task.dataset", files.Wanted(JUDGEMENT), Mistakes(first_ends=True)):
        yield f"{where}, line {line}", row


def _of_configurations(source: sources.Source, part: str) -> tuple[list[Rows], str]:
    before = f"{source.subset}-" if source.subset else ""
    with sources.library(source) as (datasets, cache):
        names = datasets.get_dataset_config_names(source.path, revision=source.revision)
        judged = next((one for one in (f"{before}qrels", source.subset or "default") if one in names), f"{before}qrels")
        tables, origin = list[Rows](), ""
        for name in (f"{before}corpus", f"{before}queries", judged):
            if name not in names:
                raise unknown(f"configuration of {source.where}:", name, names, "task.subset")
            builder = datasets.load_dataset_builder(source.path, name, cache_dir=cache, revision=source.revision)
            builder.download_and_prepare()
            splits = [*builder.info.splits]
            if name == judged and part not in splits:
                raise unknown(f"split of {source.where}:", part, splits, "task.validation_split")
            rows = builder.as_dataset(split=part if name == judged else splits[0]).to_list()
            tables.append([(f"{source.where} ({name}), row {number}", row) for number, row in enumerate(rows)])
            origin = sources.origin_of(source, builder)
    return tables, origin
