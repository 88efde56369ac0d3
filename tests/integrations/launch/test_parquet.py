"""Problems in verl's layout: what the policy sees and what the grade needs are those of the embedded engine."""

import dataclasses
import json

import pytest
from pyarrow.parquet import read_table
from transformers import AutoTokenizer

from diver.core.types import DiverError, Grade
from diver.grading import grade
from diver.integrations.verl.launch import AS_IT_IS, problems_of
from diver.integrations.verl.parquet import write_problems
from diver.recipe.data import Source
from diver.recipe.recipe import make_recipe
from diver.tasks.sources import load_problems
from diver.tasks.splits import load
from diver.tasks.templates import prompted
from diver.tasks.testbeds import policy_folder
from diver.train.prepare import prepare

TABLE = {
    "train": {"batch_size": 4, "mini_batch_size": 2},
    "sample": {"max_prompt_tokens": 24, "max_tokens": 40},
    "data": {"countdown": {"problems": 24}},
    "evaluate": {"problems": 6},
}


def recipe_in(folder, **changes):
    return make_recipe({**TABLE, "run": {"folder": str(folder / "run")}, **changes})


def begins(tmp_path):
    """The bundled tokenizer, made to put a begin token in front."""
    folder = tmp_path / "policy"
    tokenizer = AutoTokenizer.from_pretrained(policy_folder())
    tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text((policy_folder() / "config.json").read_text())
    (folder / "model.safetensors").write_bytes(b"")
    inner = json.loads((folder / "tokenizer.json").read_text())
    token, number = tokenizer.eos_token, tokenizer.eos_token_id
    inner["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }
    (folder / "tokenizer.json").write_text(json.dumps(inner))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "bos_token": token}))
    return folder


@pytest.mark.parametrize("begin", [False, True])
def test_verl_tokenizes_the_embedded_engines_prompts(tmp_path, begin):
    path = begins(tmp_path) if begin else policy_folder()
    recipe = recipe_in(tmp_path, model={"path": str(path)})
    write_problems(recipe, prepare(recipe))
    tokenizer = AutoTokenizer.from_pretrained(path)
    train, held, _ = load(recipe.data, None, 6)
    for part, problems in (("train", train), ("val", held)):
        ours = prompted(problems, recipe.data.template, tokenizer, 24)
        rows = read_table(problems_of(recipe.folder)[part]).to_pylist()
        assert [row["extra_info"]["id"] for row in rows] == [p.id for p in ours.problems] and rows
        verls = AutoTokenizer.from_pretrained(path)
        verls.chat_template = AS_IT_IS
        for row in rows:
            given = verls.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
            assert given == ours.ids[row["extra_info"]["id"]]
            assert (given[0] == tokenizer.bos_token_id) == begin


def test_a_row_has_what_its_verdict_needs(tmp_path):
    recipe = recipe_in(tmp_path)
    notes = write_problems(recipe, prepare(recipe))
    path = problems_of(recipe.folder)["train"]
    assert f"{path}: 24 problems" in notes
    rows = read_table(path).to_pylist()
    assert [row["extra_info"]["index"] for row in rows] == list(range(24))
    assert {row["data_source"] for row in rows} <= {"countdown/three", "countdown/four"}
    train, _, _ = load(recipe.data, None, 6)
    back = load_problems(Source(path=str(path), verifier="countdown"))
    for problem, again in zip(train, back, strict=True):
        assert again.answer == problem.answer and again.meta["numbers"] == problem.meta["numbers"]
        assert again.meta["verifier"] == "countdown"
    wrong = [(r"\boxed{ 1 }", dataclasses.replace(p, meta=dict(p.meta))) for p in back]
    assert set(grade(wrong)) == {Grade.WRONG}


def test_long_prompts_are_left_out_and_told(tmp_path):
    recipe = recipe_in(
        tmp_path, sample={"max_prompt_tokens": 11, "max_tokens": 40}, train={"batch_size": 2, "mini_batch_size": 2}
    )
    notes = write_problems(recipe, prepare(recipe))
    kept = read_table(problems_of(recipe.folder)["train"]).num_rows
    assert 0 < kept < 24 and any(
        f"{24 - kept} of 24 prompts are longer than sample.max_prompt_tokens" in n for n in notes
    )
    with pytest.raises(DiverError, match=r"train.batch_size: 24 problems in a step, but 'countdown' has only"):
        prepare(
            recipe_in(
                tmp_path,
                sample={"max_prompt_tokens": 11, "max_tokens": 40},
                train={"batch_size": 24, "mini_batch_size": 2},
            )
        )


def test_without_evaluation_verl_still_gets_its_file(tmp_path):
    recipe = recipe_in(tmp_path, evaluate={"problems": 0})
    write_problems(recipe, prepare(recipe))
    assert read_table(problems_of(recipe.folder)["val"]).num_rows == 1
