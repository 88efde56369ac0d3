"""The turns of a trajectory in a real browser: folded, actions marked, and what a tool wrote stays text.

Needs Debian's chromium (/usr/bin/chromium); skipped by name where that is absent.
"""

import shutil

import pytest
from diver_command import succeeds
from rows import write_rows

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
]
ATTACK = "<img src=x onerror=\"document.title='owned'\"></details><script>document.title='owned'</script>"


def test_turns_are_folded_and_stay_text(tmp_path):
    from playwright.sync_api import sync_playwright

    called = {"type": "function", "function": {"name": "search", "arguments": {"query": ATTACK}}}
    rows = [
        {
            "prompt": "Q",
            "reward": reward,
            "completion": [
                {"role": "assistant", "content": "I look.", "tool_calls": [called]},
                {"role": "tool", "content": ATTACK},
                {"role": "assistant", "content": "Done."},
            ],
        }
        for reward in (0, 1)
    ]
    page_file = tmp_path / "page.html"
    succeeds("browse", write_rows(tmp_path / "x.jsonl", rows), "--out", page_file)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox"])
        page = browser.new_page()
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        page.goto(page_file.as_uri())
        page.wait_for_selector(".turns")
        folded = page.locator(".turns").first
        lines = folded.locator("summary").all_inner_texts()
        assert [line.split()[:2] for line in lines] == [["1", "assistant"], ["2", "tool"], ["3", "assistant"]]
        assert folded.locator("mark.action").all_inner_texts()[0].startswith('search {"query": "<img src=x')
        text = folded.locator(".env .text")
        assert not text.is_visible()
        folded.locator(".env summary").click()
        assert text.is_visible() and text.inner_text() == ATTACK
        assert page.locator(".turns img").count() == 0 and page.title() != "owned" and errors == []
        browser.close()
