"""A response's thought, `<think> ... </think>`: what stands in it is no answer."""


def in_thought(text: str, opened: bool = False) -> bool:
    """Whether a text, a response or the prompt that the model saw, ends inside a thought that it opened.

    `opened`: the text goes on inside a thought, as a response does to a chat template that ends with `<think>`.
    """
    _, closed, after = text.rpartition("</think>")
    return "<think>" in after or (opened and not closed)


def after_thought(response: str) -> str:
    return response.rpartition("</think>")[2]
