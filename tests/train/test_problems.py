import json
import shutil
from collections import Counter

import pytest
from rows import write_rows
from transformers import Phi3Config

from diver.core.run_folder import RunFolder
from diver.core.seeds import draw_indices
from diver.core.types import DiverError
from diver.recipe.data import Countdown, Data, Source
from diver.recipe.recipe import make_recipe
from diver.recipe.sections import Model
from diver.sample.policy import load_policy
from diver.tasks.splits import load
from diver.tasks.templates import prompted
from diver.tasks.testbeds import policy_folder
from diver.train.prepare import prepare
from diver.train.trainer import Trainer


def jsonl(tmp_path, rows):
    path = tmp_path / "rows.jsonl"
    write_rows(path, rows)
    return str(path)


def test_each_epoch_goes_through_all_problems_in_another_order():
    drawn = [i for step in range(1, 16) for i in draw_indices(step, 4, 10, seed=0)]
    epochs = [drawn[k : k + 10] for k in range(0, 60, 10)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs) and epochs[0] != epochs[1]
    assert drawn != [i for step in range(1, 16) for i in draw_indices(step, 4, 10, seed=1)]
    assert Counter(draw_indices(1, 25, 10, seed=0)).most_common(1)[0][1] == 3  # a batch of more than two epochs


def numbered(tmp_path, count):
    return Data(path=jsonl(tmp_path, [{"problem": f"{i}+1?", "answer": str(i + 1)} for i in range(count)]))


def test_problems_set_aside_leave_the_training(tmp_path):
    data = numbered(tmp_path, 60)
    train, held_out, notes = load(data, None, 5)
    others = f"problems: 55 of {data.path} to train on, 5 of {data.path} to evaluate on (evaluate.problems = 5)"
    assert notes == [others]
    none = f"problems: 60 of {data.path} to train on, 0 of {data.path} to evaluate on (evaluate.problems = 0)"
    assert load(data, None, 0)[2] == [none]
    assert len(train) == 55 and len(held_out) == 5 and not {p.id for p in train} & {p.id for p in held_out}
    assert [p.id for p in load(data, None, 5)[1]] == [p.id for p in held_out]


def test_problems_that_are_trained_and_evaluated_on_are_counted(tmp_path):
    data = numbered(tmp_path, 20)
    other = write_rows(tmp_path / "other.jsonl", [{"problem": f"{i}+1?", "answer": str(i + 1)} for i in (3, 40, 19)])
    *_, notes = load(data, Source(path=str(other)), 8)
    sets = f"problems: 20 of {data.path} to train on, {{}} of {{}} to evaluate on (evaluate.problems = {{}})"
    assert notes == [
        sets.format(3, other, 8),
        "2 of the 3 problems to evaluate on are trained on, too: they are not held out",
    ]
    spaced = write_rows(tmp_path / "spaced.jsonl", [{"problem": f" {i}+1?\n", "answer": "9"} for i in (3, 40, 19)])
    *_, notes = load(data, Source(path=str(spaced)), 2)
    assert notes == [
        sets.format(2, spaced, 2),
        f"{spaced}: the first 2 of 3 problems are evaluated on (evaluate.problems)",
        "1 of the 2 problems to evaluate on are trained on, too: they are not held out",
    ]


@pytest.mark.parametrize(
    ("problems", "asked", "held"),
    [(300, 64, 64), (300, 30, 30), (38, 10, 10), (38, 30, 30), (38, 64, 19), (38, 50, 37), (2, 1, 1), (1, 64, 0)],
)
def test_the_number_of_held_out_problems_is_obeyed(tmp_path, problems, asked, held):
    """Of the default, 64, at most half; of another number all but one."""
    data = numbered(tmp_path, problems)
    train, held_out, (note,) = load(data, None, asked)
    assert (len(train), len(held_out)) == (problems - held, held)
    assert f"problems: {problems - held} of" in note and (held == 0 or f" {held} of " in note)


def test_three_hundred_problems_train_with_the_default_sizes(tmp_path):
    sample = {"max_prompt_tokens": 32, "max_tokens": 48}  # the bundled policy has no more positions
    recipe = make_recipe({"data": {"path": numbered(tmp_path, 300).path}, "sample": sample})
    prepared = prepare(recipe)
    assert (len(prepared.train.problems), len(prepared.eval_problems.problems)) == (236, 64)
    # The evaluations before and after sample as many responses as a rollout step, not those of hours.
    evaluate = recipe.evaluate
    assert evaluate.problems * evaluate.num_samples <= recipe.train.batch_size * recipe.sample.group_size
    assert evaluate.every == 0


def test_longrope_beyond_its_original_positions_is_refused(tmp_path):
    shutil.copytree(policy_folder(), folder := tmp_path / "phi")
    factors = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
    config = Phi3Config(
        vocab_size=1024, hidden_size=64, num_attention_heads=4, pad_token_id=0, eos_token_id=1,
        max_position_embeddings=128, original_max_position_embeddings=96, rope_scaling={"type": "longrope", **factors},
    )  # fmt: skip
    config.save_pretrained(folder)
    data = {"path": numbered(tmp_path, 300).path}

    def notes(tokens):
        sample = {"max_prompt_tokens": 32, "max_tokens": tokens}
        return prepare(make_recipe({"data": data, "sample": sample, "model": {"path": str(folder)}})).notes

    assert notes(64)
    with pytest.raises(DiverError, match="97 exceeds the 96 positions of .*phi', beyond which LongRoPE changes"):
        notes(65)


def test_a_verifier_for_generated_problems():
    data = Data(countdown=Countdown(problems=3), verifier="gsm8k")
    train, held_out, _ = load(data, None, 2)
    assert {p.verifier for p in train + held_out} == {"gsm8k"} and (len(train), len(held_out)) == (3, 2)
    with pytest.raises(DiverError, match="data.verifier: unknown choice 'oracle'"):
        load(Data(verifier="oracle"), None, 0)


def test_too_few_problems_to_train_on_are_accounted_for(tmp_path):
    """20 problems, of which one is too long: 8 are held out, and a batch needs 12."""
    rows = [{"problem": f"{i}{'+0' * 60 * (not i)}+1?", "answer": str(i + 1)} for i in range(20)]  # the first is long
    recipe = make_recipe(
        {
            "run": {"folder": str(tmp_path / "run")},
            "data": {"path": jsonl(tmp_path, rows)},
            "sample": {"max_prompt_tokens": 32, "max_tokens": 48},
            "train": {"batch_size": 12, "mini_batch_size": 12},
            "evaluate": {"problems": 8},
        }
    )
    with pytest.raises(DiverError) as caught:
        Trainer(recipe, RunFolder(tmp_path / "run", {"schedule_steps": 1}, {}))
    assert str(caught.value) == (
        f"train.batch_size: 12 problems in a step, but {recipe.data.path!r} has only 11 to train on; lower it, and "
        "train.mini_batch_size, which must divide it; "
        f"problems: 12 of {recipe.data.path} to train on, 8 of {recipe.data.path} to evaluate on "
        "(evaluate.problems = 8); "
        "1 of 12 prompts are longer than sample.max_prompt_tokens (32) and were skipped"
    )


def test_the_verifiers_that_auto_chose_are_told(tmp_path):
    letters = [{"problem": f"Which is {i}?\nA) {i}\nB) {i + 1}", "answer": "A"} for i in range(12)]
    sums = [{"problem": f"{i}+1?", "answer": str(i + 1)} for i in range(8)]
    small = {"batch_size": 2, "mini_batch_size": 2}
    recipe = {"data": {"path": jsonl(tmp_path, letters + sums)}, "train": small, "sample": {"max_tokens": 20}}
    recipe["sample"]["max_prompt_tokens"] = 60
    told = "graded 12 problems by choice, 8 problems by math, as their answers ask for (data.verifier = 'auto')"
    assert told in prepare(make_recipe(recipe)).notes
    recipe["data"]["verifier"] = "math"
    assert not any("graded" in note for note in prepare(make_recipe(recipe)).notes)


def test_too_few_problems_are_told_before_the_hub_is_asked(tmp_path):
    data = {"path": jsonl(tmp_path, [{"problem": f"{i}+1?", "answer": "1"} for i in range(9)])}
    with pytest.raises(
        DiverError, match="has only 5 to train on; lower it, and train.mini_batch_size, which must divide"
    ):
        prepare(make_recipe({"model": {"path": "owner/name"}, "data": data}))


def test_known_answers_in_sentences_are_noted(tmp_path):
    rows = [{"question": f"{i}+1?", "solution": f"We add one to it. The answer is {i + 1}."} for i in range(3)]
    rows += [
        {"question": "x?", "solution": r"We add one to it, so \boxed{7}"},
        {"question": "y?", "solution": "7 apples"},
    ]
    _, note = load(Data(path=jsonl(tmp_path, rows)), None, 0)[2]
    assert "3 reference answers are sentences, such as 'We add one to it. The answer is 1.'" in note and "####" in note
    assert len(load(Data(path=jsonl(tmp_path, rows[3:])), None, 0)[2]) == 1


def test_duplicate_rows_are_noted(tmp_path):
    data = Data(path=jsonl(tmp_path, [{"problem": "1+1?", "answer": "2"}] * 32 + [{"problem": "1+2?", "answer": "3"}]))
    train, _, notes = load(data, None, 0)
    assert len(train) == 2 and any("31 duplicate rows" in note for note in notes)


def test_question_of_a_chat_prompt(tmp_path):
    messages = [{"role": "system", "content": "Theirs."}, {"role": "user", "content": "1+1?"}]
    path = jsonl(tmp_path, [{"prompt": messages, "answer": "2"}])
    assert load(Data(path=path, messages="question"), None, 0)[0][0].prompt == "1+1?"
    assert load(Data(path=path), None, 0)[0][0].prompt[0]["content"] == "Theirs."


def test_long_prompts_are_left_out_and_counted():
    tokenizer = load_policy(Model()).tokenizer
    train, _, _ = load(Data(countdown=Countdown(problems=50)), None, 0)
    all_of_them = prompted(train, "plain", tokenizer, 100)
    lengths = [len(all_of_them.ids[p.id]) for p in train]
    some = prompted(train, "plain", tokenizer, min(lengths))
    assert all_of_them.skipped == 0 and some.skipped == sum(n > min(lengths) for n in lengths) > 0
    assert len(some.problems) == len(some.texts) == len(some.ids) == 50 - some.skipped


def test_what_was_left_out_of_the_data_stands_in_config_json(tmp_path, capsys):
    rows = [{"problem": f"{i}+1?", "answer": str(i + 1)} for i in range(4)] + [{"problem": "no answer"}]
    recipe = make_recipe(
        {
            "run": {"folder": str(tmp_path / "run")},
            "data": {"path": jsonl(tmp_path, rows), "skip_invalid_rows": True},
            "sample": {"max_prompt_tokens": 32, "max_tokens": 2, "group_size": 2},
            "train": {"batch_size": 2, "mini_batch_size": 2, "steps": 1},
            "evaluate": {"problems": 0},
        }
    )
    Trainer(recipe, RunFolder(tmp_path / "run", {"schedule_steps": 1}, {})).run()
    note = (
        f"{recipe.data.path}: 1 invalid rows left out (skip_invalid_rows): 1 no answer (first at {recipe.data.path}:5)"
    )
    assert note in json.loads((tmp_path / "run" / "config.json").read_text())["notes"]
    assert note in capsys.readouterr().out


ASKED = [{"role": "user", "content": "1+1"}]


def test_the_default_template_is_that_of_the_model_and_is_told(tmp_path):
    chat = tmp_path / "chat"
    shutil.copytree(policy_folder(), chat)
    (chat / "chat_template.jinja").write_text("<s> {{ messages[0]['content'] }} :")
    data = {"path": numbered(tmp_path, 40).path}
    sample, train = {"max_prompt_tokens": 60, "max_tokens": 20}, {"batch_size": 2, "mini_batch_size": 2}

    def told(model, **more):
        recipe = {"model": {"path": str(model)}, "data": {**data, **more}, "sample": sample, "train": train}
        prepared = prepare(make_recipe(recipe))
        return prepared.train.texts[0], prepared.train.template, prepared.eval_problems.template, prepared.notes[-1]

    text, *names, note = told(chat)
    assert text.startswith("<s> 1+1?\n\nReason step by step") and text.endswith("within \\boxed{}. :")
    assert names == ["boxed", "boxed"]
    assert note == "prompts by template 'boxed': the model has a chat template (data.template = 'auto')"
    text, *names, note = told("countdown")
    assert (text, *names) == ("1+1?", "plain", "plain")
    assert note == "prompts by template 'plain': the model has no chat template (data.template = 'auto')"
    assert told(chat, template="plain")[0] == "1+1?"
    (chat / "chat_template.jinja").write_text("{{ messages[0]['content'] }}{% if not enable_thinking %} <>{% endif %}")
    model = {"path": str(chat), "chat_template_kwargs": {"enable_thinking": False}}
    recipe = {"model": model, "data": data, "sample": sample, "train": train}
    assert prepare(make_recipe(recipe)).train.texts[0].endswith("{}. <>")
    assert load_policy(make_recipe(recipe).model).tokenizer.apply_chat_template(ASKED, tokenize=False) == "1+1 <>"
    with pytest.raises(DiverError, match=r"^model\.chat_template_kwargs: the template 'plain' does not use"):
        prepare(make_recipe(recipe | {"data": data | {"template": "plain"}}))
    (chat / "chat_template.jinja").write_text(
        "{{ date_string or strftime_now('%d %b %Y') }} {{ messages[0]['content'] }}"
    )
    dated = prepare(make_recipe({**recipe, "model": {"path": str(chat)}})).notes
    assert any(
        "writes today's date into each prompt; to keep it: --model.chat_template_kwargs date_string '" in n
        for n in dated
    )
    fixed = {"path": str(chat), "chat_template_kwargs": {"date_string": "1 Jan 2026"}}
    prepared = prepare(make_recipe({**recipe, "model": fixed}))
    assert prepared.train.texts[0].startswith("1 Jan 2026 1+1?") and not any("date" in n for n in prepared.notes)
    for wrong, reason in (
        ({"enable_thinkin": False}, r"model.chat_template_kwargs.enable_thinkin: the chat template of .* has no such"),
        ({"enable_thinking": "false"}, "'false' is a text; write false without quotes"),
    ):
        with pytest.raises(DiverError, match=reason):
            prepare(make_recipe(recipe | {"model": model | {"chat_template_kwargs": wrong}}))
    (chat / "chat_template.jinja").write_text("<s> {{ messages[0]['content'] }} :")
    assert told(chat, template="plain")[3] == "prompts by template 'plain'"
