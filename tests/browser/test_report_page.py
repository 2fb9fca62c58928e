"""The report in headless Chromium, opened from disk without a network."""

import contextlib
import shutil

import networks as nw
import numpy as np
import pytest
import soundfile

from dac_rocm.report.page import write_report

pytestmark = pytest.mark.browser

RATE = 16_000
SECONDS = 6.0
NAME = "<script>window.hacked = 1<!-- \"><img src=x onerror=alert(1)> 'é音.wav"
WIDE, PHONE = {"width": 1200, "height": 900}, {"width": 360, "height": 740}
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
VERSIONS = 4


@pytest.fixture(scope="module")
def chromium():
    """Start the browser that is installed."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Make a report of two clips in four versions each; one clip has a nasty name."""
    folder = tmp_path_factory.mktemp("report")
    t = np.arange(int(SECONDS * RATE)) / RATE
    audio = 0.3 * np.sin(2 * np.pi * 200 * t * (1 + t / 4))
    soundfile.write(folder / NAME, audio, RATE)
    soundfile.write(folder / "stereo.wav", np.stack([audio, audio[::-1]], 1), RATE, "FLOAT")
    models = {"odd": nw.build("odd"), "vae": nw.build("mova")}
    inputs = [folder / NAME, folder / "stereo.wav"]
    write_report(inputs, models, folder / "r.html", n_codebooks=[1, 3])
    return folder / "r.html"


@pytest.fixture
def opened(chromium, report):
    """Return what opens a page; afterwards, nothing may have been said or asked for."""
    said = []
    with contextlib.ExitStack() as stack:

        def make(path=report, **options):
            context = chromium.new_context(offline=True, **{"viewport": WIDE, **options})
            stack.callback(context.close)
            page = context.new_page()
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on(
                "request",
                lambda r: None if r.url.startswith(("file:", "data:")) else said.append(r.url),
            )
            page.goto(path.as_uri())
            return page

        yield make
    assert said == []


def states(page, clip=1):
    """Return position and whether it plays, of each version's player."""
    return page.evaluate(
        "c => [...document.querySelectorAll(`#clip${c} .versions audio`)]"
        ".map(a => [a.currentTime, !a.paused])",
        clip,
    )


def playing(page, clip=1):
    return [i for i, (_, plays) in enumerate(states(page, clip)) if plays]


def wait_for_sound(page, at_least=0.05):
    page.wait_for_function(
        "s => [...document.querySelectorAll('audio')].some(a => !a.paused && a.currentTime > s)",
        arg=at_least,
    )


def test_every_player_loads_and_plays(opened):
    page = opened()
    durations = page.evaluate(
        """async () => {
            const found = [];
            for (const audio of document.querySelectorAll("audio")) {
                audio.muted = true;
                await audio.play();
                await new Promise((done) => audio.addEventListener("timeupdate", () => {
                    if (audio.currentTime > 0) done();
                }));
                audio.pause();
                found.push(audio.duration);
            }
            return found;
        }"""
    )
    assert durations == pytest.approx([SECONDS] * 2 * VERSIONS, abs=0.01)


def test_keys_switch_while_it_plays_at_the_same_position(opened):
    page = opened()
    page.keyboard.press("Space")
    wait_for_sound(page, 0.4)
    for key in (3, 2, 4, 1):
        before = states(page)[playing(page)[0]][0]
        page.keyboard.press(str(key))
        page.wait_for_timeout(250)
        assert playing(page) == [key - 1]
        now = states(page)[key - 1][0]
        assert before + 0.1 < now < before + 0.8
        pressed = page.locator("#clip1 .pick[aria-pressed=true]")
        assert pressed.inner_text() == str(key)
    page.keyboard.press("9")  # there is no such version
    assert playing(page) == [0]
    page.keyboard.press("Space")
    assert playing(page) == []
    there = states(page)[0][0]
    page.keyboard.press("2")
    assert playing(page) == [] and states(page)[1][0] == pytest.approx(there, abs=0.01)


def test_only_one_plays_and_keys_follow_the_clip(opened):
    page = opened()
    page.keyboard.press("Space")
    wait_for_sound(page, 0.3)
    page.evaluate("document.querySelectorAll('#clip1 .versions audio')[2].play()")
    page.wait_for_timeout(200)
    assert playing(page) == [2] and states(page)[2][0] > 0.3  # it took over
    page.evaluate("document.querySelectorAll('#clip2 .versions audio')[0].play()")
    page.wait_for_timeout(200)
    assert playing(page) == [] and playing(page, 2) == [0]
    page.keyboard.press("2")
    assert playing(page, 2) == [1]


def test_keys_can_be_turned_off_and_leave_fields_alone(opened):
    page = opened()
    page.locator("#keys").uncheck()
    page.locator("h1").click()
    page.keyboard.press("2")
    assert page.locator("#clip1 .pick[aria-pressed=true]").inner_text() == "1"
    page.locator("#keys").check()
    page.locator("h1").click()
    page.keyboard.press("Control+2")
    assert page.locator("#clip1 .pick[aria-pressed=true]").inner_text() == "1"
    page.keyboard.press("2")
    assert page.locator("#clip1 .pick[aria-pressed=true]").inner_text() == "2"


KNOWN_COINS = "() => { let n = 0; crypto.getRandomValues = (a) => { a[0] = n++ >> 1; return a; }; }"


def start_blind(page):
    """Begin a test of version 1 against 3, where X is A, A, B, B, A, A ..."""
    page.evaluate(KNOWN_COINS)
    page.locator("#clip1 .blind summary").click()
    page.locator("#clip1 select.b").select_option(index=2)
    page.locator("#clip1 .start").click()


def test_blind_mode_scores(opened):
    page = opened()
    start_blind(page)
    assert page.locator("#clip1 .versions").is_hidden()
    score = page.locator("#clip1 .score")
    for trial, x in enumerate((0, 0, 1, 1), 1):
        page.locator("#clip1 .answer").nth(x).click()
        assert score.inner_text().startswith(f"{trial} of {trial} right")
    assert "6.25 %" in score.inner_text()
    page.get_by_role("button", name="X is B").first.click()  # it is A
    assert score.inner_text().startswith("4 of 5 right")
    assert "18.8 %" in score.inner_text()
    page.locator("#clip1 .stop").click()
    assert page.locator("#clip1 .versions").is_visible()
    assert page.locator("#clip1 .trial").is_hidden()


def test_blind_keys_play_a_b_and_x_at_the_same_position(opened):
    page = opened()
    page.evaluate(
        "() => { window.made = []; const Plain = Audio;"
        "window.Audio = function () { const a = new Plain(); made.push(a); return a; }; }"
    )
    start_blind(page)
    same = page.evaluate(
        "() => { const p = document.querySelectorAll('#clip1 .versions audio');"
        "return [[0, 0], [1, 2], [2, 0]].map(([i, j]) => made[i].src === p[j].src); }"
    )
    assert same == [True, True, True]
    page.locator("h1").click()
    page.keyboard.press("x")
    page.wait_for_function("() => made[2].currentTime > 0.3")
    for key, index in (("b", 1), ("a", 0), ("x", 2)):
        before = page.evaluate("made.find((a) => !a.paused).currentTime")
        page.keyboard.press(key)
        page.wait_for_timeout(250)
        assert page.evaluate("made.map((a) => !a.paused)") == [i == index for i in range(3)]
        assert before + 0.1 < page.evaluate(f"made[{index}].currentTime") < before + 0.8
    page.keyboard.press("2")  # would tell
    assert playing(page) == []
    page.locator("#clip1 .answer").first.click()
    assert page.evaluate("made.every((a) => a.paused)")
    assert page.evaluate("new Set(made.map((a) => a.currentTime)).size") == 1


def test_a_blind_test_needs_two_versions(opened):
    page = opened()
    page.locator("#clip1 .blind summary").click()
    page.locator("#clip1 select.b").select_option(index=0)
    page.locator("#clip1 .start").click()
    assert "choose two" in page.locator("#clip1 .score").inner_text()
    assert page.locator("#clip1 .versions").is_visible()


def boxes(page, clip):
    """Return left and width of every picture, over those of its window."""
    return page.evaluate(
        """c => [...document.querySelectorAll(`#clip${c} .lens`)].map((lens) => {
            const outer = lens.getBoundingClientRect();
            const inner = lens.querySelector("img, svg").getBoundingClientRect();
            return [(outer.left - inner.left) / inner.width, inner.width / outer.width];
        })""",
        clip,
    )


def assert_all_show(page, start, zoom, clip=1):
    found = np.array(boxes(page, clip))
    assert len(found) == 2 + 3 * (VERSIONS - 1)
    assert found == pytest.approx(np.tile([start, zoom], (len(found), 1)), rel=0.01, abs=2e-3)


def test_pictures_zoom_together(opened):
    page = opened()
    assert_all_show(page, 0, 1)
    zoom = page.locator("#clip1 [data-do=in]")
    zoom.click()
    zoom.click()
    assert_all_show(page, 3 / 8, 4)
    assert_all_show(page, 0, 1, clip=2)
    shown = page.locator("#clip1 .shown")
    assert shown.inner_text() == "2.25 s to 3.75 s"
    ticks = page.locator("#clip1 .seconds").first.locator("span").all_inner_texts()
    assert [float(t) for t in ticks] == pytest.approx([2.5, 3.0, 3.5])
    page.locator("#clip1 [data-do=later]").click()
    assert shown.inner_text() == "3.00 s to 4.50 s"
    page.locator("h1").click()
    page.keyboard.press("-")
    assert shown.inner_text() == "2.25 s to 5.25 s"
    page.keyboard.press("0")
    assert_all_show(page, 0, 1)
    for _ in range(9):
        page.keyboard.press("+")
    assert_all_show(page, 0.5 - 1 / 128, 64)


def drag(page, start, end):
    lens = page.locator("#clip1 .lens").nth(4)
    lens.scroll_into_view_if_needed()
    box = lens.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], y, steps=4)
    page.mouse.up()


def test_a_drag_zooms_a_click_goes_there_and_a_double_click_shows_all(opened):
    page = opened()
    drag(page, 0.75, 0.5)
    assert_all_show(page, 0.5, 4)
    drag(page, 0.5, 0.5)
    assert states(page)[0][0] == pytest.approx(0.625 * SECONDS, abs=0.02)
    head = page.evaluate(
        "(() => { const l = document.querySelector('#clip1 .lens').getBoundingClientRect();"
        "const h = document.querySelector('#clip1 .head').getBoundingClientRect();"
        "return (h.left + h.width / 2 - l.left) / l.width; })()"
    )
    assert head == pytest.approx(0.5, abs=0.01)
    assert page.locator(".band").count() == 0
    page.locator("#clip1 .lens").first.dblclick()
    assert_all_show(page, 0, 1)


def test_what_is_shown_can_be_repeated_and_else_follows(opened):
    page = opened()
    drag(page, 0.1, 0.2)
    page.locator("#clip1 .loop").check()
    drag(page, 0.9, 0.9)
    page.locator("h1").click()
    page.keyboard.press("Space")
    page.wait_for_timeout(1200)
    assert 0.1 * SECONDS - 0.05 < states(page)[0][0] < 0.2 * SECONDS + 0.1
    page.locator("#clip1 .loop").uncheck()
    page.wait_for_timeout(900)
    assert states(page)[0][0] > 0.2 * SECONDS
    assert boxes(page, 1)[0][0] > 0.19


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("blind", [False, True], ids=["plain", "blind"])
def test_axe_finds_nothing(opened, scheme, size, blind):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = opened(color_scheme=scheme, viewport=size)
    if blind:
        start_blind(page)
        page.locator("#clip1 .answer").first.click()
    found = axe.run(page, options={"resultTypes": ["violations", "incomplete"]}).response
    assert len(found["passes"]) > 20
    assert [v["id"] for v in found["violations"]] == []
    unsure = [r["id"] for r in found["incomplete"] if r["impact"] in ("serious", "critical")]
    assert set(unsure) <= {"color-contrast"}  # of text in SVG: see test_page.py


@pytest.mark.parametrize("width", [320, 360, 800])
def test_it_fits_narrow_screens(opened, width):
    page = opened(viewport={"width": width, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for button in page.locator("#clip1 button:visible").all():
        box = button.bounding_box()
        assert min(box["width"], box["height"]) >= 24  # WCAG 2.2, 2.5.8


def test_everything_can_be_reached_by_keyboard(opened):
    page = opened()
    reached = set()
    for _ in range(150):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.className || document.activeElement.tagName")
        )
    assert {"pick scripted", "scroll", "loop", "A", "INPUT", "AUDIO", "SUMMARY"} <= reached
    page.locator("#clip1 .pick").nth(1).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"


def test_with_scripts_blocked_it_is_still_a_page(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("audio:visible").count() == 2 * VERSIONS
    assert page.locator("table:visible").count() == 3
    assert page.locator(".chart > svg:visible").count() == 2
    assert page.locator(".lens:visible").count() == 2 * (2 + 3 * (VERSIONS - 1))
    assert page.locator("button:visible, input:visible, select:visible").count() == 0
    assert page.locator(".seconds span:visible").count() > 20


def test_names_run_nothing(opened):
    page = opened()
    assert page.evaluate("window.hacked") is None
    assert page.locator("#clip1 h2").inner_text() == NAME
    assert page.title() == f"Codec report: {NAME}, stereo.wav"


def test_the_policy_stops_what_is_put_in(opened, report, tmp_path):
    """Scripts, pictures and frames that somebody added do nothing."""
    added = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    (tmp_path / "x").write_bytes(b"")
    changed = tmp_path / "changed.html"
    changed.write_text(report.read_text("utf-8").replace("<main>", f"<main>{added}"), "utf-8")
    page = opened(report)
    page.context.new_page()
    other = page.context.pages[-1]
    other.goto(changed.as_uri())
    assert other.evaluate("window.hacked") is None
    assert other.locator("#clip1 .pick").first.is_visible()  # ours still runs
    refused = other.evaluate("fetch('https://example.com').then(() => 'sent', () => 'refused')")
    assert refused == "refused"
