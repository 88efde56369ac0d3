"""The pictures of docs/report.md, of a finished run: `python scripts/report_pictures.py runs/quickstart`.

Needs Debian's chromium, as tests/pages/test_chromium.py does.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).parents[1] / "docs"
AT = 0.62  # where the pointer is in the curves, as a fraction of the run


def pictures(page: Page) -> None:
    """The top of the page; the curves with the pointer in them;
    a group of the last step with correct and wrong responses."""
    page.screenshot(path=DOCS / "quickstart.png", clip={"x": 0, "y": 0, "width": 1240, "height": 1300})
    outcome = page.locator("#curve-reward-outcome svg")
    box = outcome.bounding_box()
    assert box
    page.mouse.move(box["x"] + AT * box["width"], box["y"] + box["height"] / 2)
    clip_from(page, "#curves", 1030, "report-curves.png")
    page.mouse.move(0, 0)
    step = page.get_by_label("Step", exact=True)
    step.select_option(index=step.locator("option").count() - 1)
    page.get_by_label("Grade", exact=True).select_option("mixed")
    page.get_by_label("Sort by").select_option("textual down")
    page.locator(".groups button").first.click()
    page.locator(".heat rect.cell").nth(1).click()
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(0, 0)
    clip_from(page, "#groups", 960, "report-groups.png")


def clip_from(page: Page, selector: str, height: int, name: str) -> None:
    """A picture of the page from where an element begins."""
    y = page.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().top + scrollY")
    page.screenshot(path=DOCS / name, clip={"x": 0, "y": y - 12, "width": 1240, "height": height})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    folder = parser.parse_args().run
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1240, "height": 6000}, device_scale_factor=1.5)
        page.goto((folder / "report.html").resolve().as_uri())
        page.wait_for_selector("html[data-ready]")
        pictures(page)
        browser.close()


if __name__ == "__main__":
    main()
