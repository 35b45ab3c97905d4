"""A real Chromium, and a page of it that may only talk to this machine and must not log errors."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no network but loopback
]


@dataclass
class Visit:
    """An open page of Studio, as a person uses it."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)
    """Errors of the console, and requests to other hosts."""

    def open(self, query: str = "") -> Visit:
        self.page.goto(f"{self.url}/studio/{query}")
        self.page.wait_for_selector(".node")
        return self

    def choose(self, method: str, **settings: str) -> Visit:
        self.page.get_by_label("Method or assistant").select_option(label=method)
        self.page.wait_for_selector(f'main[data-method="{method}"]')
        self.page.get_by_label("Index", exact=True).first.select_option("small")
        for name, value in settings.items():
            field = self.page.locator(f"#setting-{name}")
            (field.select_option if field.evaluate("e => e.tagName") == "SELECT" else field.fill)(value)
        return self

    def ask(self, question: str, button: str = "Ask") -> Visit:
        self.page.fill("#question", question)
        self.press(button)
        return self

    def press(self, button: str) -> None:
        self.page.get_by_role("button", name=button, exact=True).click()

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()

    def until(self, state: str) -> None:
        """Wait until the run's state is said to be so."""
        self.page.locator(".now", has_text=re.compile(state)).wait_for()

    def stepped(self) -> str:
        """Press Step, wait until the run has stopped elsewhere, and give its state."""
        before = self.page.locator(".now").inner_text()
        self.press("Step")
        self.page.wait_for_function(
            "old => { const now = document.querySelector('.now').innerText; return now !== old && now !== 'running' }",
            arg=before,
        )
        return self.page.locator(".now").inner_text()

    def check_access(self) -> None:
        """What axe finds wrong for screen readers and the keyboard, contrast included, is a problem."""
        for row in Axe().run(self.page).response["violations"]:
            self.problems += [f"{row['id']}: {node['html'][:200]}" for node in row["nodes"]]

    def node(self, name: str) -> str:
        """State of a node in the drawing."""
        return self.page.locator(f'[data-node="{name}"]').first.get_attribute("data-state") or ""


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visiting(browser: Browser, url: str, **options: object) -> Iterator[Visit]:
    page = browser.new_page(**{"viewport": {"width": 1400, "height": 900}, **options})
    page.set_default_timeout(120_000)
    visit = Visit(page, url)

    def console(message) -> None:
        if message.type == "error":
            visit.problems.append(message.text)

    def request(sent) -> None:
        if urlsplit(sent.url).hostname not in ("127.0.0.1", None):
            visit.problems.append(sent.url)

    page.on("console", console)
    page.on("request", request)
    page.on("pageerror", lambda error: visit.problems.append(str(error)))
    try:
        yield visit
    finally:
        page.close()
