"""The layouts of trainers and evaluations. The first row of a file decides which of layouts.toml it has.

A new layout is an entry of layouts.toml. If its rows are nested, a function here makes them plain first.
"""

import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diver.core.endings import is_cut_off
from diver.core.files import number, read_jsonl, table
from diver.core.run_folder import groups_from_rows, read_grade
from diver.core.seeds import digest
from diver.core.types import DiverError, Grade, Group, Problem, Reward, Rollout
from diver.grading import GRADERS, get_grader
from diver.rollouts import values
from diver.rollouts.columns import DATA, NAMES, OUTCOMES, SESSION, Columns, File, Part, Row
from diver.rollouts.marks import with_special_tokens, without_special_tokens
from diver.rollouts.named import named_columns, rank_of_id

NO_OUTCOMES = frozenset({"epoch", "seed", "length", "gen_step", "advantages"}).union(
    *(names for part, names in NAMES.items() if part != "outcome")
)
"""Numeric columns that are never an outcome, even if no other column is numeric."""
ROW_NUMBER = re.compile(r"|Unnamed: \d+|index|level_\d+|__index_level_\d+__")
"""Columns in which pandas writes the number of the row, which is no outcome."""
SAMPLE_NUMBERS = frozenset("sample sample_id sample_idx sample_index attempt trial repeat".split())
LIMITS = ("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "context_length")
"""Stop conditions of a truncated trace of verifiers, besides the length of its last response."""
# Correct, incorrect, partial, no answer. Partial is 0, as in inspect's pass_at: the 0.5 of inspect's mean would count
# as correct.
INSPECT_VALUES = {"C": 1.0, "I": 0.0, "P": 0.0, "N": 0.0}


def diver_train(file: File) -> Iterator[Part]:
    for i, group in enumerate(groups_from_rows(file.rows)):
        yield Part(f"{file.path}:{i}", group)


def diver_eval(file: File) -> Iterator[Part]:
    """Generations of `diver eval`, with the grades of the same result folder."""
    in_folder, file_rows = file.path.parent.name == "generations", [*file.rows]
    rows = [*{(row["key"], row["problem"], row["sample"]): (where, row) for where, row in file_rows}.values()]
    if repeats := len(file_rows) - len(rows):
        file.notes.append(f"{file.path}: {repeats:,} rows are of samples that occur again: the last of each is read")
    grades = _stored_grades(file, rows)
    places = {(row["key"], row["problem"]): place for place, (_, row) in enumerate(rows)}
    draws = [placed for placed in rows for _ in range(placed[1].get("count", 1))]
    if len(draws) > len(rows):
        # The prefix tree sorts the responses of a problem; `diver.rollouts.dependence` would take that for repetition.
        random.Random(0).shuffle(draws)
        draws.sort(key=lambda placed: places[placed[1]["key"], placed[1]["problem"]])
    for where, row in draws:
        grade_row = row if grades is None else grades.get((row["problem"], row["sample"]), {})
        grade = read_grade(grade_row.get("grade"), where)
        grader = str(grade_row.get("grader")).partition("@")[0]
        scored = grade not in (None, Grade.TIMEOUT, Grade.ERROR)
        rollout = Rollout(
            values.text(row["response"], where),
            num_tokens=row["tokens"] if isinstance(row.get("tokens"), int) else None,
            truncated=bool(row["truncated"]),
            grade=grade,
            solution=grade_row.get("solution") if grader in GRADERS and get_grader(grader).exact_solutions else None,
            reward=Reward(float(grade is Grade.CORRECT)) if scored else None,
        )
        source = file.path.stem if in_folder else ""  # outside its folder, a file may have any name
        problem = Problem(str(row["problem"]), "", "", source=source)
        yield Part(f"{source} {row['key']} {problem.id}", Group(problem, (rollout,)))


def _stored_grades(file: File, rows: Sequence[tuple[str, Row]]) -> dict[tuple[Any, Any], Row] | None:
    files = sorted((file.path.parent.parent / "grades").glob(f"{file.path.stem}.*.jsonl"))
    if not files:
        return None
    if len({(row["problem"], row["sample"]) for _, row in rows}) < len(rows):
        file.notes.append(f"{file.path}: generations of several settings; whose the grades are is not known: left out")
        return None
    if len(files) > 1:
        file.notes.append(f"{file.path}: grades from {files[0].name}, the first of {len(files)}")
    return {(row["problem"], row["sample"]): row for _, row in read_jsonl(files[0], appended=True)}


def trl(file: File) -> Iterator[Part]:
    """The outcome is one of OUTCOMES, or else the only numeric column, by the first known value of each.

    TRL writes None for a reward function that does not apply to a row. In a CSV, numbers are texts.
    """
    rows = [*file.rows]
    file = file._replace(rows=iter(rows))
    columns = [name for name in dict.fromkeys(name for _, row in rows for name in row) if name]
    if file.names["outcome"] is not OUTCOMES or not {*OUTCOMES}.isdisjoint(columns):
        return named_columns(file)
    is_number = values.is_outcome if file.path.suffix == ".csv" else values.is_number
    numbers = [
        k for k in columns
        if k not in NO_OUTCOMES and rank_of_id(k) == 2 and not ROW_NUMBER.fullmatch(k)
        and is_number(next((value for _, row in rows if (value := values.known(row.get(k))) is not None), None))
    ]  # fmt: skip
    name = numbers if len(numbers) == 1 else []
    ambiguous = f"the outcome column is ambiguous; --outcome names one of {', '.join(columns)}"
    if not name and not any(note.endswith(ambiguous) for note in file.notes):  # one note for all files of a folder
        file.notes.append(f"{file.path}: {ambiguous}")
    file.outcomes.update(dict.fromkeys(name))
    return named_columns(file._replace(names={**file.names, "outcome": name}))


def ms_swift(file: File) -> Iterator[Part]:
    """A row has a batch, with a list in each column. A batch that is logged again at a later step is left out. The
    outcome is read as for TRL."""

    def single() -> Iterator[tuple[str, Row]]:
        logged: Row = {}
        for where, row in file.rows:
            if not isinstance(row["prompt"], list) or values.is_turns(row["prompt"]):
                yield where, row  # a row of another program
                continue
            lists = {name: value for name, value in row.items() if isinstance(value, list)}
            if len({*map(len, lists.values())}) > 1:
                sizes = ", ".join(f"{name} {len(value)}" for name, value in lists.items())
                raise DiverError(f"{where}: the lists of a batch must have the same length, not {sizes}")
            batch = {name: row[name] for name in ("prompt", "completion")}
            if batch == logged:
                file.notes.append(f"{where}: the same completions as in the row before, logged again; left out")
                continue
            logged = batch
            for cells in zip(*lists.values(), strict=True):
                yield where, dict(zip(lists, cells, strict=True))

    return trl(file._replace(rows=single()))


def lm_eval(file: File) -> Iterator[Part]:
    """lm-eval repeats the responses of a document for each of its filters: the first filter is read.

    Up to 0.4.6 no column names the filter, so a document that occurs again with the same responses belongs to another
    filter. Documents are numbered within a task, and only the file name has the task.
    """
    named = re.fullmatch(r"samples_(.+)_\d{4}-\d\d-\d\d(?:T[\d.-]+)?", file.path.stem)
    task = named[1] if named else ""

    def of_filter() -> Iterator[tuple[str, Row]]:
        first: Row = {}
        seen: set[str] = set()
        for where, row in file.rows:
            first = first or row
            filter_name = first["filter"]
            named = "the first filter" if filter_name is None else f"filter {filter_name!r}"
            repeated = f"{file.path}: the rows of {named}; the others repeat their responses"
            document = digest(row["id"], row["group"], row["response"])
            is_repeat = filter_name is None and row["id"] is not None and document in seen
            if row["filter"] == filter_name and not is_repeat:
                seen.add(document)
                yield where, {**row, "source": task}
            elif repeated not in file.notes:
                file.notes.append(repeated)

    return named_columns(file._replace(rows=of_filter()))


def inspect_ai(file: File) -> Iterator[Part]:
    """Samples that failed are left out, as inspect_ai leaves them out of its scores, and counted in a note."""

    def scored() -> Iterator[tuple[str, Row]]:
        failed = 0
        for where, row in file.rows:
            failed += row["failed"]
            if not row["failed"]:
                yield where, row
        if failed:
            are = "sample that failed is" if failed == 1 else "samples that failed are"
            file.notes.append(f"{file.path}: {failed} {are} left out")

    return named_columns(file._replace(rows=scored()))


# ---- nested rows of one project each, as plain ones ------------------------------------------------------------------


def verl_row(where: str, row: Row) -> Iterator[Row]:
    """The group is the part of `uid` before the numbers of the rollout and of the output.

    Like other ids, a `uid` without these numbers tells problems with equal inputs apart.
    """
    match = SESSION.fullmatch(str(row.get("uid")))
    yield {**row, "output": without_special_tokens(row["output"]), "session": match and match[1]}


def skyrl_row(where: str, row: Row) -> Iterator[Row]:
    """A score is a number, or a list with a number per token."""
    score = row["score"]
    total = math.fsum(map(number, score)) if isinstance(score, list) else score
    response = with_special_tokens(row["output_response"], str(row.get("env_class")))
    yield {**row, "output_response": response, "score": total}


def nemo_rl_row(where: str, row: Row) -> Iterator[Row]:
    """In training, `content` is the prompt, then responses and observations by turns. In validation, it is messages.

    Each value is in a list of length 1. Padded log-probs and advantages are reduced to the tokens of the loss mask.
    """
    cells = {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in row.items()}
    content = cells["content"]
    if not isinstance(content, list) or not content:
        raise DiverError(f"{where}: content must be a list of texts or of messages, not {content!r:.60}")
    if all(isinstance(item, str) for item in content):
        prompt: Any = content[0]
        response: Any = "\n".join(content[1::2])
    else:
        first = next((i for i, m in enumerate(content) if m.get("role") == "assistant"), len(content))
        prompt, response = content[:first], content[first:] or ""
    mask = cells.get("token_loss_mask") or []
    masked = {
        name: [value for value, in_loss in zip(cells[name], mask, strict=False) if in_loss]
        for name in ("generation_logprobs", "advantages")
        if isinstance(cells.get(name), list)
    }
    yield {
        "prompt": prompt,
        "response": response,
        "reward": cells["rewards"],
        "logprobs": masked.get("generation_logprobs") or None,
        "advantage": next(iter(masked.get("advantages", ())), None),
        "length": sum(map(bool, mask)) or None,
    }


def prime_rl_row(where: str, row: Row) -> Iterator[Row]:
    """An episode of verifiers: one row per trace of a trained agent."""
    shared = {
        "group": table(row, "group").get("id"),
        "step": table(row, "run", "work").get("step"),
        "source": table(row, "env").get("name") or table(row, "env").get("id"),
        "answer": table(row, "task", "data").get("answer"),
    }
    for trace in row["traces"]:
        if table(trace, "agent").get("trainable", True) is False:
            continue
        nodes = [node for node in trace.get("nodes") or [] if isinstance(node.get("message"), Mapping)]
        sampled = [node for node in nodes if node.get("sampled")]
        first = next((i for i, node in enumerate(nodes) if node.get("sampled")), len(nodes))
        rewards = [r for r in (trace.get("rewards") or {}).values() if isinstance(r, Mapping)]
        ends = [call.get("finish_reason") for call in trace.get("calls") or [] if isinstance(call, Mapping)]
        yield {
            **shared,
            "prompt": [
                {"role": str(m.get("role", "user")), "content": values.content_text(m.get("content"))}
                for m in (node["message"] for node in nodes[:first])
            ]
            or table(row, "task", "data").get("prompt"),
            "response": [*map(_node_message, nodes[first:])] or "",
            "reward": math.fsum(r["score"] * r.get("weight", 1.0) for r in rewards) if rewards else None,
            "logprobs": [x for node in sampled for x in node.get("logprobs") or ()] or None,
            "advantage": next((x for node in sampled for x in node.get("advantages") or ()), None),
            "truncated": any(map(is_cut_off, ends[-1:])) or trace.get("stop_condition") in LIMITS,
        }


def _node_message(node: Row) -> Row:
    """The message of a node: the policy's if it was sampled, else the environment's."""
    message = node["message"]
    role = str(message.get("role", "user"))
    role = "assistant" if node.get("sampled") else "environment" if role == "assistant" else role
    return {**message, "role": role, "content": values.content_text(message.get("content"))}


def inspect_ai_row(where: str, row: Row) -> Iterator[Row]:
    """A sample of a log: one row per choice. It `failed` if it has an error, or neither a choice nor a score.

    The scores of a sample with several choices are left out, since they do not name their choice.
    """
    scores = table(row, "scores")
    choices = table(row, "output").get("choices") or []
    by_name = scores if len(choices) < 2 else {}
    options, target = row.get("choices"), row["target"]
    targets = target if isinstance(target, list) else [target]
    shared = {
        **{name: row.get(name) for name in ("model", "task", "id", "input")},
        # one of several targets suffices; with options, the answer is all of their letters
        "answer": target if options else next(iter(targets), None),
        "accepted": None if options else targets[1:] or None,
        "options": options,
        "scores": {name: _inspect_value(table(score).get("value")) for name, score in by_name.items()},
        "score": _inspect_value(table(next(iter(by_name.values()), None)).get("value")) if len(by_name) == 1 else None,
        "failed": row.get("error") is not None or not (choices or scores),
    }
    for choice in choices or [{}]:
        yield {
            **shared,
            "response": values.content_text(table(choice, "message").get("content")),
            "truncated": is_cut_off(choice.get("stop_reason")),
        }


def _inspect_value(value: Any) -> Any:
    """An outcome; None for a score of words or of several parts."""
    value = INSPECT_VALUES.get(value, value) if isinstance(value, str) else value
    return value if values.is_outcome(value) else None


def lm_eval_row(where: str, row: Row) -> Iterator[Row]:
    """A document with all its responses. If it has several, the metric scores one and does not name it.

    Versions before 0.4.1 write the arguments as a list, and do not name the metrics.
    """
    arguments, resps = row["arguments"], row["resps"]
    if isinstance(arguments, list):
        request = arguments[0] if arguments and isinstance(arguments[0], list) else arguments
        prompt, settings = request if len(request) == 2 else (None, None)
    else:
        prompt, settings = (table(arguments, "gen_args_0").get(name) for name in ("arg_0", "arg_1"))
    if not isinstance(settings, Mapping):
        raise DiverError(f"{where}: a task of log-likelihoods has no responses; give a task that generates text")
    if not isinstance(resps, list):
        raise DiverError(f"{where}: resps must be a list of lists of texts, not {resps!r:.60}")
    texts = [text for reply in resps for text in (reply if isinstance(reply, list) else [reply])]
    metrics = row.get("metrics") or [
        name for name, value in row.items() if name != "doc_id" and name not in NO_OUTCOMES and values.is_number(value)
    ]
    single = len(texts) == 1
    metric_values = {name: row.get(name) if single else None for name in metrics}
    target, name = row.get("target"), values.identity(row.get("doc_id"))
    yield {
        **metric_values,
        "filter": row.get("filter"),
        "group": values.identity(row.get("doc_hash")) or name,
        "id": None if name is None else f"doc-{name}",
        "prompt": prompt,
        "answer": "" if target is None else target if isinstance(target, list) else str(target),
        "response": texts,
        "score": row.get(metrics[0]) if single and len(metrics) == 1 else None,
    }


# ---- the table -------------------------------------------------------------------------------------------------------

LAYOUTS: dict[str, dict[str, Any]] = DATA["layouts"]
TRAIN, EVAL, NAMED = "diver train", "diver eval", "named columns"
PLAIN = {  # layouts with nested rows: the function that makes plain rows of one
    "verl": verl_row, "SkyRL": skyrl_row, "NeMo-RL": nemo_rl_row, "prime-rl": prime_rl_row,
    "inspect_ai": inspect_ai_row, "lm-eval": lm_eval_row,
}  # fmt: skip
# Layouts that the names of columns alone cannot read.
READ = {
    TRAIN: diver_train, EVAL: diver_eval, "TRL": trl, "ms-swift": ms_swift, "inspect_ai": inspect_ai,
    "lm-eval": lm_eval,
}  # fmt: skip


def parts(name: str, file: File, columns: Columns) -> Iterator[Part]:
    """The responses of a file of the layout `name`; `columns` are those that the user names."""
    layout = LAYOUTS[name]
    user_columns = columns.named()
    if user_columns and name in (TRAIN, EVAL):
        raise DiverError(
            f"{file.path}: the columns of {name} have fixed names; omit --{next(iter(user_columns))}, or name "
            "--problem and --response, too, to read other columns"
        )
    heads = {path: path.partition(".")[0] for path in user_columns.values()}
    first: list[str] = []  # the columns of the first row
    seen: set[str] = set()  # the columns of all rows
    nested = file.rows

    def plain_rows() -> Iterator[tuple[str, Row]]:
        row_hashes: set[int] = set()
        repeats = 0
        for where, row in nested:
            if not SAMPLE_NUMBERS.isdisjoint(row):  # without a number, two samples may be equal
                if (content := hash(json.dumps(row, default=str))) in row_hashes:
                    repeats += 1
                    continue
                row_hashes.add(content)
            if missing := {*layout["columns"]} - row.keys():
                raise DiverError(f"{where}: has no {', '.join(sorted(missing))}, which the first row of {name} has")
            first[:] = first or row
            rows = [row]
            if plain := PLAIN.get(name):
                user_cells = {head: row[head] for head in heads.values() if head in row}
                try:
                    rows = [{**user_cells, **cells} for cells in plain(where, row)]
                except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
                    raise DiverError(f"{where}: not a row of {name} ({type(error).__name__}: {error})") from error
            seen.update(row, *rows)
            yield from ((where, plain_row) for plain_row in rows)
        if repeats:
            file.notes.append(f"{file.path}: {repeats:,} rows occur again, with the number of their sample: left out")

    names = {part: layout.get(part, usual) for part, usual in NAMES.items()}
    names |= {key: [path] for key, path in user_columns.items()}
    file = file._replace(rows=plain_rows(), names=names, problem_is_named="problem" in user_columns)
    yield from READ.get(name, named_columns)(file)
    for key, path in user_columns.items():  # a column named by mistake is an error, not one without values
        if key not in ("problem", "response") and first and seen.isdisjoint({path, heads[path]}):
            raise DiverError(f"{file.path}: no column {path!r}, which --{key} names: found {', '.join(first)}")
