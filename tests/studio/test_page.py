"""Studio's own page in a real browser on the real server: see, step, change, find; and that it runs nobody's script."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from hopgraph.studio.names import served_id
from hopgraph.studio.page import HEADERS
from inference.settings import get_settings
from stores.build import build_index
from stores.passages import Passage
from tests.scripted import plausible
from tests.studio import client
from tests.studio.conftest import QUESTION, ROOT

browsers = pytest.importorskip("tests.studio.browser")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(browsers.CHROMIUM is None, reason="Chromium is not installed")]

HOSTILE = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"


@pytest.fixture(scope="module")
def browser():
    with browsers.chromium() as opened:
        yield opened


@pytest.fixture
def visit(browser, studio):
    with browsers.visiting(browser, studio.url) as visit:
        yield visit
        assert visit.problems == []


def test_the_settings_form_shows_the_schema_and_says_what_is_wrong(visit):
    visit.open().choose("prism")
    top_k = visit.page.locator("#setting-top_k")
    assert (top_k.get_attribute("min"), top_k.get_attribute("max"), top_k.input_value()) == ("1", "100", "5")
    assert "Passages a search returns." in visit.page.locator("#setting-top_k-about").inner_text()
    visit.page.get_by_text("selector", exact=False).first.wait_for()
    prompt = visit.page.locator("[data-setting=prompt_selector]")
    prompt.locator("summary").click()
    assert "{{question}}" in prompt.locator("textarea").input_value()
    prompt.locator("textarea").fill("no variables")
    prompt.get_by_role("alert").wait_for()
    assert "never uses" in prompt.get_by_role("alert").inner_text()
    visit.page.fill("#question", QUESTION)
    assert visit.page.get_by_role("button", name="Ask").is_disabled()
    prompt.get_by_role("button", name="Reset").click()
    visit.page.locator(".top [role=alert]").wait_for(state="detached")
    top_k.fill("0")
    visit.page.locator("[data-setting=top_k] [role=alert]").wait_for()


def test_code_in_a_description_is_set_as_code(visit):
    visit.open().choose("hanrag")
    about = visit.page.locator("#setting-ending-about")
    assert about.locator("code").inner_text() == "revelator"
    assert "`" not in about.inner_text()


def test_a_run_is_drawn_live_with_subgraphs_and_ends_with_steps_calls_and_passages(visit):
    visit.open().choose("hanrag", top_k="2").ask(QUESTION)
    visit.until("answered")
    assert visit.page.locator(".final").inner_text() == "Paris"
    assert visit.node("router") == "done"
    assert visit.page.locator(".react-flow__edge-path").count() > 5
    assert visit.page.locator('.subgraph[data-node="anrag"]').count() == 1
    step = visit.page.locator("article.step").first
    step.locator("details.call summary").first.click()
    assert "You " in step.locator("pre").first.inner_text()
    assert step.locator("pre.reply").inner_text().startswith("{")
    assert "tokens" in visit.page.locator(".cost").inner_text()


def test_passages_open_in_full_and_scores_stand_beside_thresholds(visit):
    visit.open().choose("prunerag", top_k="2").ask(QUESTION)
    visit.until("answered|unanswerable")
    details = visit.page.locator("article.step details:not(.call)").first
    details.locator("summary").click()
    details.locator(".passage").first.wait_for()
    assert "1971 film directed by Ann Lee" in details.inner_text() or "born in Paris" in details.inner_text()
    assert "threshold" in (visit.page.locator(".score").first.get_attribute("aria-label") or "")


def test_stepping_breakpoints_and_going_on(visit):
    visit.open().choose("standard_rag", top_k="2").ask(QUESTION, "Step")
    visit.until("stopped before intake")
    assert visit.stepped() == "stopped before retriever"
    assert (visit.node("intake"), visit.node("retriever")) == ("done", "waiting")
    visit.page.get_by_label("Breakpoint after retriever").click(force=True)
    visit.press("Continue")
    visit.until("stopped before generator")
    visit.page.locator("body").press("c")
    visit.until("answered")


def test_a_run_is_stopped_and_continued(visit, script):
    model = script(delayed)
    visit.open().choose("ircot", top_k="2").ask(QUESTION)
    visit.page.wait_for_function("() => document.querySelector('.node.running')")
    visit.press("Stop")
    visit.until("stopped before")
    model.script = plausible
    visit.press("Continue")
    visit.until("answered|unanswerable")


def delayed(request):
    time.sleep(1.5)
    return plausible(request)


def test_a_person_decides(visit):
    visit.open().choose("parrag", top_k="2", review="human").ask(QUESTION)
    visit.until("decision")
    for _ in range(8):
        visit.page.get_by_label("Decisions").get_by_role("button", name="accept").first.click()
        visit.until("decision|answered|unanswerable")
        if "decision" not in visit.page.locator(".now").inner_text():
            break
    visit.until("answered")


def test_a_state_is_edited_validated_and_continued_and_branches_are_compared(visit):
    visit.open().choose("standard_rag", top_k="2").ask(QUESTION)
    visit.until("answered")
    visit.tab("history")
    visit.page.locator("[data-checkpoint]", has_text="→ generator").locator(".entry").click()
    visit.tab("state")
    field = visit.page.locator("[data-field=evidence]")
    field.locator("summary").click()
    field.locator("textarea").fill('[{"id": 3}]')
    assert field.get_by_role("alert").inner_text()
    save = visit.page.get_by_role("button", name="Save as a new checkpoint")
    assert save.is_disabled()
    field.locator("textarea").fill("[]")
    assert save.is_enabled()
    save.click()
    visit.page.wait_for_function("() => document.querySelector('[data-field=evidence] .dim').innerText === '0 rows'")
    visit.press("Continue from here")
    visit.until("answered|unanswerable|failed")
    visit.tab("history")
    visit.page.locator('[data-lane="1"]').first.wait_for()
    assert "edited" in visit.page.locator("ol.history").inner_text()
    assert visit.page.locator("ol.history .entry").first.inner_text().split() == ["question", "→", "start"]
    first = visit.page.locator('[data-lane="0"]', has_text="end").locator("button.link")
    first.click()
    visit.page.locator('[data-differs="evidence"]').wait_for()
    assert "with=" in visit.page.url


def test_a_late_answer_does_not_replace_the_state_of_a_checkpoint_opened_since(visit):
    visit.open().choose("standard_rag", top_k="2").ask(QUESTION)
    visit.until("answered")
    visit.tab("history")
    before_retriever, before_generator = (
        visit.page.locator("[data-checkpoint]", has_text=f"→ {node}") for node in ("retriever", "generator")
    )
    late = before_generator.get_attribute("data-checkpoint")
    held = []
    visit.page.route(f"**/state/{late}", lambda route: held.append(route))
    before_generator.locator(".entry").click()
    visit.page.wait_for_function(f"() => location.search.includes('{late}')")
    before_retriever.locator(".entry").click()
    visit.until("stopped before retriever")
    with visit.page.expect_response(f"**/state/{late}") as answer:
        held[0].continue_()
    answer.value.finished()
    visit.tab("state")
    assert visit.page.locator(".now").inner_text() == "stopped before retriever"


def test_a_prompt_is_changed_for_one_run_and_the_run_forked(visit, scripted):
    visit.open().choose("standard_rag", top_k="2").ask(QUESTION)
    visit.until("answered")
    visit.tab("history")
    visit.page.locator("[data-checkpoint]", has_text="→ generator").locator(".entry").click()
    visit.tab("settings")
    prompt = visit.page.locator("[data-setting^=prompt_]").first
    prompt.locator("summary").click()
    area = prompt.locator("textarea")
    area.fill(area.input_value() + "\nAnswer like a pirate.")
    visit.page.wait_for_timeout(600)
    visit.press("Continue from here")
    visit.until("answered")
    assert "Answer like a pirate." in scripted.requests[-1].prompt


def test_threads_are_searched_filtered_and_a_shared_address_opens_the_same_place(visit, studio):
    thread, _ = client.run(studio.url, "standard_rag", {"question": QUESTION}, context={"index": "small", "top_k": 2})
    client.call(studio.url, "PATCH", f"/threads/{thread}", {"metadata": {"question": "The zebra question"}})
    checkpoint = client.history(studio.url, thread)[1]["checkpoint"]["checkpoint_id"]
    visit.open(f"?thread={thread}&checkpoint={checkpoint}&node=retriever&tab=steps")
    visit.page.locator(".chip", has_text="retriever").wait_for()
    visit.page.locator(".node.selected", has_text="retriever").wait_for()
    visit.until("stopped before generator")
    search = visit.page.get_by_label("Search threads")
    search.fill("zebra")
    visit.page.wait_for_function("() => document.querySelector('.count').innerText === '1'")
    visit.page.get_by_label("Method of threads").select_option("standard_rag")
    assert visit.page.locator(".threads li").count() == 1
    search.fill("no such thread")
    visit.page.locator("text=No thread matches").wait_for()


def test_ten_thousand_threads_are_listed_without_ten_thousand_elements(visit, studio, home_folder):
    thread, _ = client.run(studio.url, "no_retrieval", {"question": "Who?"})
    client.call(studio.url, "PATCH", f"/threads/{thread}", {"metadata": {"question": "The newest question"}})
    with closing(sqlite3.connect(home_folder / "checkpoints.sqlite", timeout=60)) as store, store:
        columns = [row[1] for row in store.execute("PRAGMA table_info(checkpoints)")]
        others = ", ".join(name for name in columns if name != "thread_id")
        store.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
            f"INSERT INTO checkpoints (thread_id, {others}) SELECT 'many-' || i, {others} FROM n, "
            "(SELECT * FROM checkpoints WHERE checkpoint_ns = '' ORDER BY checkpoint_id LIMIT 1)"
        )
    try:
        visit.open()
        visit.page.locator(".threads .title", has_text="The newest question").wait_for()  # before all the others
        visit.page.wait_for_function("() => +document.querySelector('.count').innerText.replace(',', '') > 10000")
        assert visit.page.locator(".threads li").count() < 60
        visit.page.get_by_label("Search threads").fill("many-9999")
        visit.page.wait_for_function("() => document.querySelector('.count').innerText === '1'")
    finally:
        with closing(sqlite3.connect(home_folder / "checkpoints.sqlite", timeout=60)) as store, store:
            store.execute("DELETE FROM checkpoints WHERE thread_id LIKE 'many-%'")


def test_a_thread_with_a_name_is_opened_by_its_address_and_goes_on(visit, home_folder, scripted, studio):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("HOPGRAPH_")}
    variables |= {"HOPGRAPH_HOME": str(home_folder), "HOPGRAPH_LLM_URL": scripted.url}
    named = ["--thread", "my-name", "--method", "no_retrieval", "A question with a name?"]
    command = [sys.executable, "-m", "hopgraph", "ask", *named]
    subprocess.run(command, env=variables | {"PYTHONPATH": str(ROOT)}, cwd=home_folder, check=True, capture_output=True)
    visit.open("?thread=my-name")
    visit.until("answered")
    assert visit.page.locator(".top h2").inner_text() == "A question with a name?"
    visit.page.locator(".threads li.selected .title", has_text="A question with a name?").wait_for()
    assert visit.page.locator(".threads .title", has_text="A question with a name?").count() == 1
    visit.tab("history")
    visit.page.locator("[data-checkpoint]", has_text="\u2192 ").first.locator(".entry").click()
    visit.press("Continue from here")
    visit.until("answered")
    visit.tab("history")
    visit.page.locator('[data-lane="1"]').first.wait_for()
    assert "thread=my-name" in visit.page.url
    client.wait_until(lambda: checkpoints_of(home_folder, served_id("my-name")) == 0, "nothing under the UUID", 5)
    assert checkpoints_of(home_folder, "my-name") > 3


def checkpoints_of(home, thread):
    with closing(sqlite3.connect(home / "checkpoints.sqlite", timeout=60)) as store:
        return store.execute("SELECT COUNT(*) FROM checkpoints WHERE thread_id = ?", (thread,)).fetchone()[0]


def test_a_thread_without_metadata_has_the_question_of_its_state_as_title(visit, studio):
    thread = client.call(studio.url, "POST", "/threads", {})["thread_id"]
    client.finish(studio.url, "no_retrieval", thread, {"question": "A question in no metadata?"})
    empty = client.call(studio.url, "POST", "/threads", {})["thread_id"]
    visit.open()
    visit.page.locator(".threads .title", has_text="A question in no metadata?").wait_for()
    visit.page.get_by_label("Search threads").fill(empty)
    visit.page.locator(".threads .title", has_text=f"thread {empty[:8]}").wait_for()


def test_an_address_of_no_thread_says_so(visit):
    visit.page.goto(f"{visit.url}/studio/?thread=nowhere")
    visit.page.locator(".top [role=alert]", has_text="Unknown thread nowhere").wait_for()
    visit.problems.clear()  # the browser logs the answer 404


def test_a_server_that_has_stopped_is_named_as_the_problem(visit):
    visit.open().choose("prism", top_k="0")
    visit.page.locator(".top [role=alert]", has_text="top_k").wait_for()
    visit.page.context.set_offline(True)
    visit.page.fill("#setting-top_k", "3")  # what was wrong before is not held against it, though nothing can check it
    visit.ask(QUESTION)
    visit.page.locator(".top [role=alert]", has_text="is `hopgraph studio` still running?").wait_for()
    visit.page.context.set_offline(False)
    visit.problems.clear()  # the browser logs requests that failed


def test_threads_that_other_programs_begin_appear_by_themselves(visit, studio):
    visit.open()
    body = {"model": "no_retrieval", "messages": [{"role": "user", "content": "A question of a chat program"}]}
    assert httpx.post(f"{studio.url}/v1/chat/completions", json=body, trust_env=False, timeout=60).status_code == 200
    entry = visit.page.locator(".threads a", has_text="A question of a chat program")
    entry.click()
    visit.until("answered")
    assert visit.page.locator(".final").inner_text() == "Paris"


def test_a_run_of_three_hundred_steps_keeps_few_elements_and_can_be_read_to_its_end(visit, studio):
    thread, _ = client.run(studio.url, "standard_rag", {"question": QUESTION}, context={"index": "small", "top_k": 2})
    (step, *_) = client.state(studio.url, thread)["values"]["trajectory"]
    steps = [step | {"id": f"root/{n}", "question": f"Question {n}"} for n in range(300)]
    client.call(
        studio.url, "POST", f"/threads/{thread}/state", {"values": {"trajectory": steps}, "as_node": "generator"}
    )
    visit.open(f"?thread={thread}")
    visit.page.locator("article.step").first.wait_for()
    assert visit.page.locator("article.step").count() < 40
    last = visit.page.locator("article.step", has_text="Question 299")
    for _ in range(60):
        visit.page.locator("[aria-label=Steps]").press("End")
        if last.count():
            break
        visit.page.wait_for_timeout(100)
    last.wait_for()
    assert visit.page.locator("article.step").count() < 40


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_wide_light_and_dark(browser, studio, scheme):
    backgrounds = []
    for width in (500, 3840):
        size = {"width": width, "height": 900}
        with browsers.visiting(browser, studio.url, viewport=size, color_scheme=scheme) as visit:
            visit.open()
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
            backgrounds.append(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert visit.page.locator("#question").is_visible()
            unnamed = (
                "[...document.querySelectorAll('button')].filter(e => !e.innerText && !e.ariaLabel && !e.title).length"
            )
            assert visit.page.evaluate(unnamed) == 0
            assert visit.problems == []
    assert (sum(map(int, backgrounds[0][4:-1].split(","))) < 200) == (scheme == "dark")


def test_markup_in_question_reply_prompt_and_name_is_shown_and_not_run(visit, script, studio):
    def hostile(request):
        return plausible(request) if request.body.get("response_format") else f"So the answer is: {HOSTILE}"

    script(hostile)
    visit.open().choose("ircot", top_k="2").ask(f"{HOSTILE} {QUESTION}")
    visit.until("answered|unanswerable|failed")
    assert HOSTILE in visit.page.locator(".top h2").inner_text()
    assert visit.page.locator(".threads li.selected .title").inner_text().startswith("<img")
    for call in visit.page.locator("details.call summary").all()[:2]:
        call.click()
    visit.page.locator("pre", has_text="<script>").first.wait_for()
    assert visit.page.locator("main img, main pre *").count() == 0
    assert visit.page.evaluate("document.title") != "hacked"


def test_markup_in_a_passage_its_title_a_prompt_and_a_thread_s_name_is_shown_and_not_run(
    visit, studio, home_folder, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setenv("HOPGRAPH_HOME", str(home_folder))
        get_settings.cache_clear()
        build_index("hostile", [Passage(id="film", title=HOSTILE, text=f"{HOSTILE} The film was directed by Ann Lee.")])
    get_settings.cache_clear()
    context = {"index": "hostile", "prompt_answer": f"{HOSTILE} {{{{question}}}} {{{{evidence}}}}"}
    thread, _ = client.run(studio.url, "standard_rag", {"question": QUESTION}, context=context)
    client.call(studio.url, "PATCH", f"/threads/{thread}", {"metadata": {"question": f"{HOSTILE} named"}})
    visit.open(f"?thread={thread}")
    visit.until("answered|unanswerable|failed")
    visit.page.locator(".threads .title", has_text="named").first.wait_for()
    passages = visit.page.locator(".top details")
    passages.locator("summary").click()
    passages.locator(".passage h3", has_text="<script>").wait_for()
    assert HOSTILE in passages.locator(".passage p").inner_text()
    visit.page.locator("details.call summary").first.click()
    visit.page.locator("pre", has_text="<script>").first.wait_for()
    for tab in ("state", "history", "settings"):
        visit.tab(tab)
    prompt = visit.page.locator("[data-setting=prompt_answer]")
    prompt.locator("summary").click()
    assert HOSTILE in prompt.locator("textarea").input_value()
    assert visit.page.locator("main img, main script, aside img, aside script").count() == 0
    assert "hacked" not in visit.page.evaluate("document.title").replace(HOSTILE, "")


def test_screen_readers_and_the_keyboard_reach_everything(browser, studio):
    for scheme in ("light", "dark"):
        # axe is a script, which the page's policy does not let in.
        with browsers.visiting(browser, studio.url, color_scheme=scheme, bypass_csp=True) as visit:
            visit.open()
            visit.check_access()
            visit.choose("prunerag", top_k="2").ask(QUESTION)
            visit.until("answered|unanswerable")
            visit.page.locator("article.step details").first.locator("summary").click()
            for tab in ("steps", "state", "history", "settings"):
                visit.tab(tab)
                visit.page.locator(f"[role=tab][aria-selected=true]:text-is('{tab}')").wait_for()
                visit.check_access()
            assert visit.problems == []


def test_the_page_is_confined_and_other_sites_are_refused(studio):
    answer = httpx.get(f"{studio.url}/studio/", trust_env=False)
    policy = answer.headers["content-security-policy"]
    assert policy == HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "<style" not in answer.text
    assert "<script>" not in answer.text
    attacks = [
        {"origin": "https://evil.example", "content-type": "text/plain"},
        {"origin": "null"},
        {"host": "evil.example"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    ]
    for headers in attacks:
        for path in ("/threads", "/runs/stream", "/studio/api/settings"):
            refused = httpx.post(f"{studio.url}{path}", content="{}", headers=headers, trust_env=False)
            assert refused.status_code == 403, (path, headers)
    linked = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert httpx.get(f"{studio.url}/studio/?thread=x", headers=linked, trust_env=False).status_code == 200
    assert httpx.get(f"{studio.url}/threads/x", headers=linked, trust_env=False).status_code == 403
    hosted = {"origin": "https://smith.langchain.com"}
    assert httpx.get(f"{studio.url}/ok", headers=hosted, trust_env=False).status_code == 200
    for path in ("..%2f..%2fpage.py", "api/threads/..%2f..%2fx/record", "api/threads/a%20b/history?method=prism"):
        assert httpx.get(f"{studio.url}/studio/{path}", trust_env=False).status_code in (400, 404), path


def test_the_bundle_is_complete():
    import hopgraph.studio.page as page

    names = set(page.bundle())
    assert {"index.html", "assets/index.js", "assets/index.css", "assets/elk.bundled.js"} <= names
    assert Path(page.__file__).with_name("bundle").joinpath("licenses.md").is_file()
