"""How responses end: finish reasons of servers and files, end marks of models, and new questions of base models."""

import re
from typing import Any

CUT_OFF = frozenset(
    "length max_tokens max_output_tokens max_new_tokens max_length model_length model_context_window_exceeded"
    " truncated true 1 1.0".split()
)
"""Finish reasons, in small letters, of a response at its limit of tokens: OpenAI's, Anthropic's, Gemini's, Mistral's,
transformers', slime's; and flags."""
FAILED = frozenset("abort aborted error content_filter safety recitation blocklist prohibited_content".split())
"""Finish reasons of a response that the server ended: vLLM and SGLang, for example to load new weights, and providers
whose filter removes text."""

_END_MARK = re.compile(
    r"<\|(?:im_end|endoftext|end_of_text|eot_id)\|>|<｜end▁of▁sentence｜>|<end_of_turn>|</s>(?=\s*(?:\Z|<))"
)
_TOOL = re.compile(r"<tool_response>|<\|im_start\|>(?:tool|environment)|<\|start_header_id\|>(?:ipython|tool)")
# Where evaluations of base models stop: lm-evaluation-harness at "Question:" (gsm8k.yaml), "Q:" (gsm8k-cot.yaml) and
# "Problem:" (minerva_math_algebra.yaml), Qwen2.5-Math at "\n\nQuestion:" (evaluation/math_eval.py, `cot`). simple-evals
# asks chat models and has no stop text.
NEXT_QUESTION = ("\nQuestion:", "\nQ:", "\nProblem:")
EMPTY = {False: 1, True: 8}
"""Maximum number of tokens of a response without text: an end token, or 8 for a stop text if it continues a text."""
_THOUGHT_OR_CODE = re.compile(r"<think>|```|^(?:def|import|print|#include)\b", re.MULTILINE)


def is_cut_off(reason: Any) -> bool:
    """Whether a finish reason, or a flag, says that the response reached its limit of tokens."""
    return str(reason).lower() in CUT_OFF


def until_end_mark(text: str) -> str:
    """The text up to the first end mark of its model. A trajectory, in which a tool's turn follows, is not cut."""
    mark = _END_MARK.search(text)
    return text[: mark.start()] if mark and not _TOOL.search(text, mark.end()) else text


def until_next_question(text: str, question: str = "", stop: tuple[str, ...] = NEXT_QUESTION) -> str:
    """The text up to where a base model continues with a new question, which does not belong to its answer.

    Nothing is cut from a text with a thought or code, which may have such a line, or if it restates its `question`.
    """
    ends = [position for label in stop if (position := text.find(label)) > 0 and text[:position].strip()]
    ending = text[min(ends, default=len(text)) :]
    restated = bool(question.strip()) and question.strip() in ending
    return text if not ending or restated or _THOUGHT_OR_CODE.search(text) else text[: -len(ending)].rstrip()
