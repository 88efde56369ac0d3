from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from diver.core.types import DiverError, Problem
from diver.sample.base import prompts_that_fit
from diver.tasks.templates import (
    PART,
    TEMPLATES,
    Template,
    check_used,
    encode,
    prompted,
    render,
    template_for,
    with_chat_template_kwargs,
)

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Appendix B of the paper, as printed.
SYSTEM = (
    r"Your task is to follow a systematic, thorough reasoning process before providing the final solution. This "
    r"involves analyzing, summarizing, exploring, reassessing, and refining your thought process through multiple "
    r"iterations. Structure your response into two sections: Thought and Solution. In the Thought section, present "
    r"your reasoning using the format: "
    r'"<think>\n thoughts </think>\n". Each thought should include detailed analysis, brainstorming, verification, and '
    r'refinement of ideas. After "</think>\n" in the Solution section, provide the final, logical, and accurate '
    r"answer, clearly derived from the exploration in the Thought section. If applicable, include the answer in "
    r"\boxed{} for closed-form results like multiple choices or mathematical solutions."
)


def tokenizer(chat_template=CHATML):
    made = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"x": 0}, unk_token="x")))
    made.chat_template = chat_template
    return made


def problem(prompt="What is $1+1$?"):
    return Problem(id="p", prompt=prompt, answer="2")


def test_the_papers_prompt():
    assert TEMPLATES["paper"].system == SYSTEM
    expected = SYSTEM + "\n\nUser: This is the problem: What is $1+1$?\n\nAssistant: <think>"
    assert render(problem(), "paper") == expected


def test_the_papers_prompt_for_llama():
    assert render(problem(), "paper-llama") == "User: What is $1+1$?\n\nAnswer: Let's think step by step."


def test_plain_is_the_question_alone():
    assert render(problem()) == render(problem(), "plain") == "What is $1+1$?"


def test_as_roles():
    assert render(problem(), "paper-chat", tokenizer()) == (
        f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\nThis is the problem: What is $1+1$?<|im_end|>\n"
        "<|im_start|>assistant\n<think>"
    )
    assert render(problem(), "chat", tokenizer()) == (
        "<|im_start|>user\nWhat is $1+1$?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert render(problem(), "boxed", tokenizer()) == (
        "<|im_start|>user\nWhat is $1+1$?\n\nReason step by step, and put your final answer within \\boxed{}."
        "<|im_end|>\n<|im_start|>assistant\n"
    )


def test_messages_that_end_with_the_answer():
    """As in data to be imitated: the model would read what it is asked for."""
    asked = {"role": "user", "content": "1+1"}
    with pytest.raises(
        DiverError, match=r"^problem 'p': its last message is the assistant's; end a prompt with the user's$"
    ):
        render(problem((asked, {"role": "assistant", "content": r"\boxed{2}"})), "chat", tokenizer())


def test_variables_of_a_chat_template():
    """As Qwen3's, whose template writes an empty thought where thinking is switched off."""
    qwen = CHATML.replace(
        "assistant\n{% endif %}",
        (
            "assistant\n{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}"
            "{% endif %}"
        ),
    )
    empty = render(problem(), "chat", with_chat_template_kwargs(tokenizer(qwen), {"enable_thinking": False}, "key"))
    assert (
        empty.endswith("assistant\n<think></think>")
        and render(problem(), "chat", tokenizer(qwen)) + "<think></think>" == empty
    )
    with pytest.raises(DiverError, match=r"^key\.enable_thinkin: the chat template of .* has no such variable$"):
        with_chat_template_kwargs(tokenizer(qwen), {"enable_thinkin": False}, "key")
    with pytest.raises(DiverError, match=r"^key\.enable_thinking: the chat template of .* is missing$"):
        with_chat_template_kwargs(tokenizer(None), {"enable_thinking": False}, "key")
    several = {"default": CHATML, "tool_use": "{{ date_string }}"}
    with_chat_template_kwargs(tokenizer(several), {"date_string": "24 Nov 2026"}, "key")
    check_used({"enable_thinking": False}, "boxed", [problem()], "key")
    check_used({}, "plain", [problem()], "key")
    check_used({"a": 1}, "plain", [problem(({"role": "user", "content": "1+1"},))], "key")  # messages go through it
    with pytest.raises(DiverError, match="key: the template 'plain' does not use the model's chat template"):
        check_used({"enable_thinking": False}, "plain", [problem()], "key")


def test_a_chat_template_that_opens_the_thought_itself_is_not_doubled():
    thinking = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
    assert render(problem(), "paper-chat", tokenizer(thinking)).endswith("assistant\n<think>\n")


def test_messages_are_used_as_they_are():
    messages = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"})
    expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n"
    for name in TEMPLATES:
        assert render(problem(messages), name, tokenizer()) == expected


@pytest.mark.parametrize("question", ["{x} \\boxed{}", "{QUESTION}", "{0} {", "%s }}"])
def test_braces_in_a_question_are_text(question):
    assert render(problem(question), "plain") == question
    assert f"This is the problem: {question}\n\nAssistant" in render(problem(question), "paper")


def test_the_parts_of_a_flat_template(monkeypatch):
    parts = Template(system="S", user="Q: {QUESTION}", assistant="Because", assistant_label="A: ")
    monkeypatch.setitem(TEMPLATES, "parts", parts)
    assert render(problem("why?"), "parts") == "S\n\nQ: why?\n\nA: Because"


def test_every_template_holds_the_question_once():
    for template in TEMPLATES.values():
        assert template.user.count("{QUESTION}") == 1


@pytest.mark.parametrize("given", [None, tokenizer(None)])
def test_no_chat_template(given):
    with pytest.raises(DiverError, match="'boxed' needs a tokenizer with a chat template"):
        render(problem(), "boxed", given)
    with pytest.raises(DiverError, match="problem 'p' needs a tokenizer with a chat template"):
        render(problem(({"role": "user", "content": "1+1?"},)), "plain", given)


def test_a_chat_template_that_refuses():
    refusing = "{{ raise_exception('no system role') }}"
    with pytest.raises(DiverError, match=r"'paper-chat': the tokenizer's chat template refuses.*no system role"):
        render(problem(), "paper-chat", tokenizer(refusing))


def test_an_unknown_name_lists_the_choices():
    with pytest.raises(DiverError, match="unknown choice 'papr', did you mean 'paper'. choices: plain, chat, "):
        render(problem(), "papr")


@pytest.mark.parametrize(
    ("verifiers", "expected"),
    [
        (["math"], "boxed"),
        (["gsm8k", "math", "choice"], "boxed"),
        (["countdown"], "chat"),
        (["math", "countdown"], "chat"),
    ],
)
def test_a_chat_model_is_asked_through_its_chat_template_for_what_the_grader_reads(verifiers, expected):
    problems = [Problem("p", "q", "1", verifier=verifier) for verifier in verifiers]
    assert template_for("auto", problems, tokenizer()) == expected
    assert template_for("auto", problems, tokenizer(None)) == template_for("auto", problems, None) == "plain"
    assert template_for("paper", problems, tokenizer()) == "paper"


def beginning():
    """A tokenizer that puts <s> in front of every text."""
    words = Tokenizer(WordLevel({"[UNK]": 0, "a": 1, "b": 2, "<s>": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = WhitespaceSplit()
    words.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", bos_token="<s>")


@pytest.mark.parametrize(
    ("template", "chat_template", "prompt", "expected"),
    [
        ("chat", "{% for m in messages %}b {{ m.content }}{% endfor %}", "a", [2, 1]),  # none is written: none
        ("chat", "{{ bos_token }} {% for m in messages %}b {{ m.content }}{% endfor %}", "a", [3, 2, 1]),
        ("plain", "{% for m in messages %}b {{ m.content }}{% endfor %}", [{"role": "user", "content": "a"}], [2, 1]),
        ("plain", None, "a", [3, 1]),  # a flat prompt has the tokenizer's
        ("plain", None, "<s> a", [3, 1]),  # once
    ],
)
def test_the_begin_token_is_that_of_the_chat_template_or_of_a_flat_prompt(template, chat_template, prompt, expected):
    made = beginning()
    made.chat_template = chat_template
    (ids,) = encode(made, [render(problem(prompt), template, made)])
    assert ids == expected
    assert prompted([problem(prompt)], template, made, 9).ids == {"p": expected}
    fit = prompts_that_fit({"p": prompt}, SimpleNamespace(tokenizer=made, context=None)) if template == "plain" else {}
    assert fit == ({"p": expected} if fit else {})
    if chat_template:
        messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
        assert made.apply_chat_template(messages, add_generation_prompt=True)["input_ids"] == expected


def test_many_prompts_have_the_tokens_that_each_has_alone():
    words = Tokenizer(WordLevel({"[UNK]": 0, "a": 1, "b": 2, "<s>": 3}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", bos_token="<s>")
    texts = [("a", "b")[i % 3 == 0] for i in range(2 * PART + 1)]
    assert encode(tokenizer, texts) == [encode(tokenizer, [text])[0] for text in texts] and encode(tokenizer, []) == []
